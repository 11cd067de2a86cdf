package sim

import "strings"

// A fieldTerm is one part of a field selector.
type fieldTerm struct {
	field, value string
	not          bool
}

type fieldSelector []fieldTerm

// fieldsOf are the fields that a resource can be selected by.
func fieldsOf(r *resource, o object) map[string]string {
	f := map[string]string{"metadata.name": name(o)}
	if !r.cluster {
		f["metadata.namespace"] = namespace(o)
	}
	if r == pods {
		f["status.phase"], f["spec.nodeName"] = text(o, "status", "phase"), text(o, "spec", "nodeName")
	}
	return f
}

func (s fieldSelector) matches(r *resource, o object) bool {
	fields := fieldsOf(r, o)
	for _, t := range s {
		if (fields[t.field] == t.value) == t.not {
			return false
		}
	}
	return true
}

func parseFieldSelector(r *resource, s string) (fieldSelector, *failure) {
	var out fieldSelector
	if s == "" {
		return nil, nil
	}
	if strings.Contains(s, `\`) {
		return nil, unmodelled("escapes in the field selector %q", s)
	}
	known := fieldsOf(r, nil)
	for _, part := range strings.Split(s, ",") {
		if part == "" {
			continue
		}
		t := fieldTerm{}
		var found bool
		if t.field, t.value, found = strings.Cut(part, "!="); found {
			t.not = true
		} else if t.field, t.value, found = strings.Cut(part, "=="); found {
		} else if t.field, t.value, found = strings.Cut(part, "="); !found {
			return nil, badRequest("invalid selector: '%s'; can't understand '%s'", s, part)
		}
		if strings.Contains(t.value, "=") {
			return nil, badRequest("invalid field selector: unescaped character in value: %d", '=')
		}
		if _, ok := known[t.field]; !ok {
			return nil, badRequest("field label not supported: %s", t.field)
		}
		out = append(out, t)
	}
	return out, nil
}
