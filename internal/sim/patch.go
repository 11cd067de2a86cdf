package sim

import (
	"fmt"
	"strconv"
	"strings"
)

// mergePatch is RFC 7386. It may change what it is given and keeps parts of it.
func mergePatch(v, patch any) any {
	p, ok := patch.(object)
	if !ok {
		return patch
	}
	o, ok := v.(object)
	if !ok {
		o = object{}
	}
	for k, e := range p {
		if e == nil {
			delete(o, k)
		} else {
			o[k] = mergePatch(o[k], e)
		}
	}
	return o
}

// maxOperations is the server's limit on the length of a JSON patch.
const maxOperations = 10000

// An operation is one step of a JSON patch, RFC 6902.
type operation struct {
	op, path, from string
	value          any
	hasValue       bool
}

// parseJSONPatch fails with the server's words.
func parseJSONPatch(data []byte) ([]operation, error) {
	v, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("invalid JSON patch")
	}
	raw, ok := v.(list)
	if !ok {
		return nil, fmt.Errorf("error decoding patch: json: cannot unmarshal %s into Go value of type []handlers.jsonPatchOp", jsonKind(v))
	}
	if len(raw) > maxOperations {
		return nil, fmt.Errorf("the allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(raw))
	}
	ops := make([]operation, len(raw))
	for i, r := range raw {
		r, ok := r.(object)
		if !ok {
			return nil, fmt.Errorf("error decoding patch: json: cannot unmarshal %s into Go value of type handlers.jsonPatchOp", jsonKind(raw[i]))
		}
		for field, into := range map[string]*string{"op": &ops[i].op, "path": &ops[i].path, "from": &ops[i].from} {
			s, ok := r[field].(string)
			if r[field] != nil && !ok {
				return nil, fmt.Errorf("error decoding patch: json: cannot unmarshal %s into Go struct field jsonPatchOp.%s of type string", jsonKind(r[field]), field)
			}
			*into = s
		}
		ops[i].value, ops[i].hasValue = r["value"]
	}
	return ops, nil
}

// jsonKind is what Go's decoder calls a value.
func jsonKind(v any) string {
	switch k := kindOf(v); k {
	case "integer":
		return "number"
	case "boolean":
		return "bool"
	default:
		return k
	}
}

// jsonPatch applies the operations to a document, which it may change.
func jsonPatch(doc any, ops []operation) (any, error) {
	for i, op := range ops {
		var err error
		if doc, err = op.apply(doc); err != nil {
			return nil, fmt.Errorf("operation %d, %s %s: %w", i, op.op, op.path, err)
		}
	}
	return doc, nil
}

func (op operation) apply(doc any) (any, error) {
	path, err := pointer(op.path)
	if err != nil {
		return nil, err
	}
	needsValue := op.op == "add" || op.op == "replace" || op.op == "test"
	if needsValue && !op.hasValue {
		return nil, fmt.Errorf("no value")
	}
	switch op.op {
	case "add":
		return put(doc, path, deepCopy(op.value), true)
	case "replace":
		if _, err := find(doc, path); err != nil {
			return nil, err
		}
		return put(doc, path, deepCopy(op.value), false)
	case "remove":
		return drop(doc, path)
	case "test":
		v, err := find(doc, path)
		if err == nil && !equal(v, op.value) || err != nil && op.value != nil {
			return nil, fmt.Errorf("test failed")
		}
		return doc, nil
	case "copy", "move":
		from, err := pointer(op.from)
		if err != nil {
			return nil, err
		}
		v, err := find(doc, from)
		if err != nil {
			return nil, err
		}
		v = deepCopy(v)
		if op.op == "move" {
			if strings.HasPrefix(op.path+"/", op.from+"/") && op.path != op.from {
				return nil, fmt.Errorf("cannot move %s into itself", op.from)
			}
			if doc, err = drop(doc, from); err != nil {
				return nil, err
			}
		}
		return put(doc, path, v, true)
	}
	return nil, fmt.Errorf("unexpected kind")
}

// pointer splits a JSON pointer, RFC 6901.
func pointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("pointer %q does not begin with a slash", s)
	}
	parts := strings.Split(s[1:], "/")
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts, nil
}

// index reads a position in a list; - is behind its end.
func index(s string, length int) (int, error) {
	if s == "-" {
		return length, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > length || s != strconv.Itoa(n) {
		return 0, fmt.Errorf("no position %q in a list of %d", s, length)
	}
	return n, nil
}

func find(doc any, path []string) (any, error) {
	for _, p := range path {
		switch v := doc.(type) {
		case object:
			e, ok := v[p]
			if !ok {
				return nil, fmt.Errorf("no such path")
			}
			doc = e
		case list:
			i, err := index(p, len(v))
			if err != nil || i == len(v) {
				return nil, fmt.Errorf("no such path")
			}
			doc = v[i]
		default:
			return nil, fmt.Errorf("no such path")
		}
	}
	return doc, nil
}

// put sets a value; in a list, insert makes room for it first.
func put(doc any, path []string, value any, insert bool) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	last := len(path) == 1
	switch v := doc.(type) {
	case object:
		next := value
		if !last {
			if v[path[0]] == nil {
				return nil, fmt.Errorf("no such path")
			}
			var err error
			if next, err = put(v[path[0]], path[1:], value, insert); err != nil {
				return nil, err
			}
		}
		v[path[0]] = next
		return v, nil
	case list:
		i, err := index(path[0], len(v))
		if err != nil || i == len(v) && !(last && insert) {
			return nil, fmt.Errorf("no such path")
		}
		if last && insert {
			v = append(v, nil)
			copy(v[i+1:], v[i:])
			v[i] = value
			return v, nil
		}
		v[i], err = put(v[i], path[1:], value, insert)
		return v, err
	}
	return nil, fmt.Errorf("no such path")
}

func drop(doc any, path []string) (any, error) {
	if len(path) == 0 {
		return nil, fmt.Errorf("cannot remove the document")
	}
	last := len(path) == 1
	switch v := doc.(type) {
	case object:
		e, ok := v[path[0]]
		if !ok {
			return nil, fmt.Errorf("no such path")
		}
		if last {
			delete(v, path[0])
			return v, nil
		}
		e, err := drop(e, path[1:])
		v[path[0]] = e
		return v, err
	case list:
		i, err := index(path[0], len(v))
		if err != nil || i == len(v) {
			return nil, fmt.Errorf("no such path")
		}
		if last {
			return append(v[:i], v[i+1:]...), nil
		}
		v[i], err = drop(v[i], path[1:])
		return v, err
	}
	return nil, fmt.Errorf("no such path")
}
