package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"strings"
)

// An object is JSON as Go knows it: numbers are int64 where they are whole and
// float64 otherwise, as in the API server's own memory. What the store holds is
// never changed; who wants another object makes a copy.
type object = map[string]any

type list = []any

// decode reads one JSON value and nothing behind it.
func decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("invalid character after top-level value")
	}
	return whole(v), nil
}

// whole replaces each json.Number, in place.
func whole(v any) any {
	switch v := v.(type) {
	case object:
		for k, e := range v {
			v[k] = whole(e)
		}
	case list:
		for i, e := range v {
			v[i] = whole(e)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		if n, ok := integer(f); ok {
			return n
		}
		return f
	}
	return v
}

// normal makes an object of what a test wrote in Go, whatever its types are.
func normal(v map[string]any) (object, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	o, err := decode(data)
	if err != nil {
		return nil, err
	}
	m, ok := o.(object)
	if !ok {
		return nil, fmt.Errorf("not an object: %s", data)
	}
	return m, nil
}

// clone copies deeply.
func clone[T any](v T) T {
	c, _ := deepCopy(v).(T)
	return c
}

func deepCopy(v any) any {
	switch v := v.(type) {
	case object:
		if v == nil {
			return v
		}
		m := make(object, len(v))
		for k, e := range v {
			m[k] = deepCopy(e)
		}
		return m
	case list:
		if v == nil {
			return v
		}
		l := make(list, len(v))
		for i, e := range v {
			l[i] = deepCopy(e)
		}
		return l
	}
	return v
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

// at walks into nested objects; nil where a step is missing.
func at(v any, path ...string) any {
	for _, p := range path {
		o, ok := v.(object)
		if !ok {
			return nil
		}
		v = o[p]
	}
	return v
}

func text(v any, path ...string) string   { s, _ := at(v, path...).(string); return s }
func sub(v any, path ...string) object    { o, _ := at(v, path...).(object); return o }
func items(v any, path ...string) list    { l, _ := at(v, path...).(list); return l }
func number(v any, path ...string) int64  { n, _ := integer(at(v, path...)); return n }
func name(o object) string                { return text(o, "metadata", "name") }
func namespace(o object) string           { return text(o, "metadata", "namespace") }
func uid(o object) string                 { return text(o, "metadata", "uid") }
func generation(o object) int64           { return number(o, "metadata", "generation") }
func dying(o object) bool                 { return text(o, "metadata", "deletionTimestamp") != "" }
func labels(o object) map[string]string   { return texts(sub(o, "metadata", "labels")) }
func note(o object, key string) string    { return text(o, "metadata", "annotations", key) }
func finalizers(o object) []string        { return strs(items(o, "metadata", "finalizers")) }
func has(o object, finalizer string) bool { return contains(finalizers(o), finalizer) }

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), true
		}
	}
	return 0, false
}

// need walks like sub and makes what is missing; for objects that are not
// shared yet.
func need(o object, path ...string) object {
	for _, p := range path {
		next, ok := o[p].(object)
		if !ok {
			next = object{}
			o[p] = next
		}
		o = next
	}
	return o
}

// texts are the entries that are strings.
func texts(o object) map[string]string {
	m := make(map[string]string, len(o))
	for k, v := range o {
		if s, ok := v.(string); ok {
			m[k] = s
		}
	}
	return m
}

func strs(l list) []string {
	var out []string
	for _, v := range l {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func contains(l []string, s string) bool {
	for _, v := range l {
		if v == s {
			return true
		}
	}
	return false
}

// untexts is the way back.
func untexts(m map[string]string) object {
	o := make(object, len(m))
	for k, v := range m {
		o[k] = v
	}
	return o
}

// annotate sets an annotation, or with "" takes it away.
func annotate(o object, key, value string) {
	notes := need(o, "metadata", "annotations")
	if value != "" {
		notes[key] = value
	} else if delete(notes, key); len(notes) == 0 {
		delete(need(o, "metadata"), "annotations")
	}
}

// controller is the owner reference whose controller field is true.
func controller(o object) object {
	for _, r := range items(o, "metadata", "ownerReferences") {
		if at(r, "controller") == true {
			return r.(object)
		}
	}
	return nil
}

func ownedBy(o object, id string) bool {
	ref := controller(o)
	return ref != nil && text(ref, "uid") == id
}

// own makes owner the one controller of o.
func own(o, owner object) {
	need(o, "metadata")["ownerReferences"] = list{object{
		"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name(owner), "uid": uid(owner),
		"controller": true, "blockOwnerDeletion": true,
	}}
}

// hash is the controller's hash of a name: FNV-1a, 32 bits, eight hex digits.
func hash(s string) string {
	h := fnv.New32a()
	h.Write([]byte(s))
	return fmt.Sprintf("%08x", h.Sum32())
}

// reserved reports whether a label or annotation key belongs to the sandbox
// system, which strips such keys from what reaches a pod.
func reserved(key string) bool {
	return strings.HasPrefix(key, "agents.x-k8s.io/") || strings.HasPrefix(key, "extensions.agents.x-k8s.io/")
}
