package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// operator is what a requirement asks of a label.
type operator int

const (
	opIn operator = iota
	opNotIn
	opExists
	opMissing
	opOpaque // not readable; values[0] says why
)

// requirement is one condition on one label.
type requirement struct {
	key    string
	op     operator
	values []string
}

// selector is a label selector with its conditions in the order in which they are looked at: matchLabels, sorted, then
// matchExpressions.
type selector struct {
	labels      []requirement
	expressions []requirement
	problem     string // not readable at all
}

// readSelector reads a label selector. An absent one selects everything; null is not readable, because nobody writes it on
// purpose. normalize maps the keys of the flavour; nil leaves them as they are.
func readSelector(v any, isPresent bool, normalize func(string) (string, bool)) selector {
	if !isPresent {
		return selector{}
	}
	m, ok := objectOf(v)
	if !ok {
		return selector{problem: "the selector is not an object"}
	}
	if field := unknownField(m, "matchLabels", "matchExpressions"); field != "" {
		return selector{problem: fmt.Sprintf("the selector has a field %s that is not known", field)}
	}
	if normalize == nil {
		normalize = func(key string) (string, bool) { return key, true }
	}
	var s selector
	if present(m, "matchLabels") {
		labels, ok := objectOf(m["matchLabels"])
		if !ok {
			return selector{problem: "matchLabels is not an object"}
		}
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			value, ok := labels[key].(string)
			if !ok {
				return selector{problem: fmt.Sprintf("the value of label %q is not a string", excerpt(key, 80))}
			}
			name, ok := normalize(key)
			if !ok {
				s.labels = append(s.labels, requirement{key, opOpaque, []string{fmt.Sprintf("label %q is of no source that pods have", excerpt(key, 80))}})
				continue
			}
			s.labels = append(s.labels, requirement{name, opIn, []string{value}})
		}
	}
	expressions, ok := listField(m, "matchExpressions")
	if !ok {
		return selector{problem: "matchExpressions is not a list"}
	}
	for _, e := range expressions {
		s.expressions = append(s.expressions, readExpression(e, normalize))
	}
	return s
}

func readExpression(v any, normalize func(string) (string, bool)) requirement {
	opaque := func(format string, a ...any) requirement {
		return requirement{op: opOpaque, values: []string{fmt.Sprintf(format, a...)}}
	}
	m, ok := objectOf(v)
	if !ok {
		return opaque("an expression is not an object")
	}
	if field := unknownField(m, "key", "operator", "values"); field != "" {
		return opaque("an expression has a field %s that is not known", field)
	}
	key, _ := m["key"].(string)
	if key == "" {
		return opaque("an expression has no key")
	}
	name, ok := normalize(key)
	if !ok {
		return opaque("label %q is of no source that pods have", excerpt(key, 80))
	}
	values, ok := stringList(m, "values")
	if !ok {
		return opaque("the values for label %q are not a list of strings", excerpt(key, 80))
	}
	op, _ := m["operator"].(string)
	switch op {
	case "Exists", "DoesNotExist":
		if len(values) > 0 {
			return opaque("operator %s of label %q has values", op, excerpt(key, 80))
		}
		if op == "Exists" {
			return requirement{name, opExists, nil}
		}
		return requirement{name, opMissing, nil}
	case "In", "NotIn":
		if len(values) == 0 {
			return opaque("operator %s of label %q has no values", op, excerpt(key, 80))
		}
		if op == "In" {
			return requirement{name, opIn, values}
		}
		return requirement{name, opNotIn, values}
	}
	return opaque("operator %s of label %q is not known", jsonText(m["operator"]), excerpt(key, 80))
}

// labelLookup returns the value of a label. known is false when it cannot be said whether there is one.
type labelLookup func(key string) (value string, exists, known bool)

func lookupIn(labels map[string]string) labelLookup {
	return func(key string) (string, bool, bool) {
		value, ok := labels[key]
		return value, ok, true
	}
}

// match reports whether the selector selects what has the labels, and why that is unknown. A condition that is certainly not
// met decides, but not past an expression that cannot be read.
func (s selector) match(lookup labelLookup) (tri, string) {
	if s.problem != "" {
		return unknown, s.problem
	}
	answer, why := yes, ""
	for _, r := range s.labels {
		switch a, w := r.match(lookup); a {
		case no:
			return no, ""
		case unknown:
			answer, why = unknown, w
		}
	}
	for _, r := range s.expressions {
		switch a, w := r.match(lookup); {
		case a == no:
			return no, ""
		case r.op == opOpaque:
			return unknown, w
		case a == unknown:
			answer, why = unknown, w
		}
	}
	return answer, why
}

func (r requirement) match(lookup labelLookup) (tri, string) {
	if r.op == opOpaque {
		return unknown, r.values[0]
	}
	value, exists, known := lookup(r.key)
	if !known {
		return unknown, fmt.Sprintf("whether label %q applies is not known here", excerpt(r.key, 120))
	}
	switch r.op {
	case opIn:
		return triOf(exists && slices.Contains(r.values, value)), ""
	case opNotIn:
		return triOf(!exists || !slices.Contains(r.values, value)), ""
	case opExists:
		return triOf(exists), ""
	}
	return triOf(!exists), ""
}

// requirements returns all conditions, or why they cannot be read.
func (s selector) requirements() ([]requirement, string) {
	if s.problem != "" {
		return nil, s.problem
	}
	all := slices.Concat(s.labels, s.expressions)
	for _, r := range all {
		if r.op == opOpaque {
			return nil, r.values[0]
		}
	}
	return all, ""
}

// implies reports whether whatever meets the conditions of inner meets those of outer too.
func implies(inner, outer []requirement) bool {
	for _, o := range outer {
		if !o.impliedBy(inner) {
			return false
		}
	}
	return true
}

func (r requirement) impliedBy(inner []requirement) bool {
	var in []string
	bounded := false
	for _, i := range inner {
		if i.key != r.key {
			continue
		}
		switch i.op {
		case opIn:
			if !bounded {
				in, bounded = i.values, true
			} else {
				in = slices.DeleteFunc(slices.Clone(in), func(v string) bool { return !slices.Contains(i.values, v) })
			}
		case opMissing:
			if r.op == opMissing || r.op == opNotIn {
				return true
			}
		case opExists:
			if r.op == opExists {
				return true
			}
		case opNotIn:
			if r.op == opNotIn && !slices.ContainsFunc(r.values, func(v string) bool { return !slices.Contains(i.values, v) }) {
				return true
			}
		}
	}
	if !bounded {
		return false
	}
	switch r.op {
	case opIn:
		return !slices.ContainsFunc(in, func(v string) bool { return !slices.Contains(r.values, v) })
	case opNotIn:
		return !slices.ContainsFunc(in, func(v string) bool { return slices.Contains(r.values, v) })
	case opExists:
		return true
	}
	return len(in) == 0
}

// broad reports whether the conditions bound nothing: they only exclude, or ask for a label that everything has.
func broad(requirements []requirement, always ...string) bool {
	for _, r := range requirements {
		if r.op == opIn || r.op == opExists && !slices.Contains(always, r.key) {
			return false
		}
	}
	return true
}

// requirementText writes conditions for a message.
func requirementText(requirements []requirement) string {
	if len(requirements) == 0 {
		return "{}"
	}
	parts := make([]string, 0, len(requirements))
	for _, r := range requirements {
		values := strings.Join(r.values, ",")
		switch r.op {
		case opIn:
			parts = append(parts, r.key+"="+values)
		case opNotIn:
			parts = append(parts, r.key+"!="+values)
		case opExists:
			parts = append(parts, r.key)
		case opMissing:
			parts = append(parts, "!"+r.key)
		}
	}
	return "{" + excerpt(strings.Join(parts, ", "), 200) + "}"
}
