package k8s

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/sandlot-go/sandlot/internal/jsontree"
)

// An Object is a decoded JSON object. Numbers that came from a server are
// [json.Number], so that nothing is rounded. The accessors also read objects
// that were written as Go literals.
type Object map[string]any

// ParseObject decodes one JSON object and refuses anything else.
func ParseObject(data []byte) (Object, error) {
	m, err := jsontree.ParseObject(data)
	if err != nil {
		return nil, fmt.Errorf("k8s: not a JSON object: %w", err)
	}
	return m, nil
}

// Field returns the value at path, nil when there is none. It is not inlined:
// that would cost its hundreds of callers more than it saves them.
//
//go:noinline
func (o Object) Field(path ...string) any {
	if o == nil {
		return nil
	}
	var v any = o
	for _, key := range path {
		v = mapOf(v)[key]
	}
	return v
}

// Text returns the string at path, "" when there is none.
func (o Object) Text(path ...string) string {
	s, _ := o.Field(path...).(string)
	return s
}

// Map returns the object at path, nil when there is none.
func (o Object) Map(path ...string) Object { return mapOf(o.Field(path...)) }

// List returns the array at path, nil when there is none.
func (o Object) List(path ...string) []any {
	switch l := o.Field(path...).(type) {
	case []any:
		return l
	case []string:
		return anys(l)
	case []Object:
		return anys(l)
	case []map[string]any:
		return anys(l)
	}
	return nil
}

// Int returns the whole number at path and reports whether there is one.
func (o Object) Int(path ...string) (int64, bool) {
	switch n := o.Field(path...).(type) {
	case json.Number:
		return jsontree.Whole(n)
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

// Bool returns the boolean at path and reports whether there is one.
func (o Object) Bool(path ...string) (value, ok bool) {
	value, ok = o.Field(path...).(bool)
	return value, ok
}

// StringMap returns the strings of the object at path, such as labels. What is
// no string is left out. The map is the caller's own; it is nil when there is
// no object.
func (o Object) StringMap(path ...string) map[string]string {
	m := o.Map(path...)
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

// Name returns metadata.name.
func (o Object) Name() string { return o.Text("metadata", "name") }

// Namespace returns metadata.namespace.
func (o Object) Namespace() string { return o.Text("metadata", "namespace") }

// UID returns metadata.uid.
func (o Object) UID() string { return o.Text("metadata", "uid") }

// ResourceVersion returns metadata.resourceVersion. It is opaque.
func (o Object) ResourceVersion() string { return o.Text("metadata", "resourceVersion") }

// Generation returns metadata.generation, 0 when there is none.
func (o Object) Generation() int64 {
	n, _ := o.Int("metadata", "generation")
	return n
}

// Labels returns a copy of metadata.labels.
func (o Object) Labels() map[string]string { return o.StringMap("metadata", "labels") }

// Annotations returns a copy of metadata.annotations.
func (o Object) Annotations() map[string]string { return o.StringMap("metadata", "annotations") }

// Deleting reports whether metadata.deletionTimestamp is set. Null counts as
// unset, any other value as set.
func (o Object) Deleting() bool { return o.Field("metadata", "deletionTimestamp") != nil }

// Clone returns a deep copy.
func (o Object) Clone() Object {
	if o == nil {
		return nil
	}
	return cloneValue(o).(Object)
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case Object:
		out := make(Object, len(v))
		for k, e := range v {
			out[k] = cloneValue(e)
		}
		return out
	case map[string]any:
		if v == nil {
			return v
		}
		return map[string]any(cloneValue(Object(v)).(Object))
	case map[string]string:
		return maps.Clone(v)
	case []any:
		return cloneSlice(v)
	case []string:
		return cloneSlice(v)
	case []Object:
		return cloneSlice(v)
	case []map[string]any:
		return cloneSlice(v)
	}
	return v
}

func cloneSlice[E any](in []E) []E {
	if in == nil {
		return nil
	}
	out := make([]E, len(in))
	for i, e := range in {
		if c, ok := cloneValue(e).(E); ok {
			out[i] = c
		}
	}
	return out
}

// mapOf returns v as an object, nil if it is none.
func mapOf(v any) Object {
	switch m := v.(type) {
	case Object:
		return m
	case map[string]any:
		return m
	case map[string]string:
		out := make(Object, len(m))
		for k, s := range m {
			out[k] = s
		}
		return out
	}
	return nil
}

func anys[E any](in []E) []any {
	out := make([]any, len(in))
	for i, e := range in {
		out[i] = e
	}
	return out
}
