package policy

import (
	"slices"
	"strings"
)

// nameSet is a set of DNS names and patterns in canonical form. A nil set is every name.
type nameSet struct {
	names    []string
	patterns []string
}

// canonicalName lower-cases a name and drops the dot at its end: DNS knows no difference, and Cilium drops both.
func canonicalName(s string) string { return strings.TrimSuffix(strings.ToLower(s), ".") }

func (s *nameSet) addName(name string)       { s.names = append(s.names, canonicalName(name)) }
func (s *nameSet) addPattern(pattern string) { s.patterns = append(s.patterns, canonicalName(pattern)) }

// hasName reports whether a lookup of name is in the set.
func (s *nameSet) hasName(name string) bool {
	if s == nil {
		return true
	}
	name = canonicalName(name)
	return slices.Contains(s.names, name) || slices.ContainsFunc(s.patterns, func(p string) bool { return patternAdmits(p, name) })
}

// hasPattern reports whether every name that the pattern admits is in the set.
func (s *nameSet) hasPattern(pattern string) bool {
	if s == nil {
		return true
	}
	pattern = canonicalName(pattern)
	if !strings.Contains(pattern, "*") {
		return s.hasName(pattern)
	}
	return slices.ContainsFunc(s.patterns, func(p string) bool { return p == pattern || patternContains(p, pattern) })
}

// within reports whether the set holds nothing that outer does not.
func (s *nameSet) within(outer *nameSet) bool {
	if outer == nil {
		return true
	}
	if s == nil {
		return false
	}
	return !slices.ContainsFunc(s.names, func(n string) bool { return !outer.hasName(n) }) &&
		!slices.ContainsFunc(s.patterns, func(p string) bool { return !outer.hasPattern(p) })
}

// patternAdmits reports whether a pattern of the form *.domain, or a lone *, admits the name. A * stands for one label or a
// part of one; of other patterns nothing is concluded but the name itself.
func patternAdmits(pattern, name string) bool {
	if pattern == "*" || pattern == name {
		return true
	}
	domain, ok := strings.CutPrefix(pattern, "*.")
	if !ok || domain == "" || strings.Contains(domain, "*") {
		return false
	}
	label, ok := strings.CutSuffix(name, "."+domain)
	return ok && label != "" && !strings.Contains(label, ".")
}

// patternContains reports whether outer, of the form *.domain, admits all that inner does: inner is the same domain below one
// label that may be a pattern itself. A leading ** crosses dots in newer versions of Cilium and is never inside.
func patternContains(outer, inner string) bool {
	if outer == "*" {
		return true
	}
	domain, ok := strings.CutPrefix(outer, "*.")
	if !ok || domain == "" || strings.Contains(domain, "*") {
		return false
	}
	label, ok := strings.CutSuffix(inner, "."+domain)
	return ok && label != "" && !strings.Contains(label, ".") && !strings.Contains(label, "**")
}

// readDNSNames reads the DNS names that an entry of toPorts lets be asked for. An absent or empty list restricts nothing, and
// neither does an item without a name.
func readDNSNames(entry map[string]any) (names *nameSet, problem string) {
	if !present(entry, "rules") {
		return nil, ""
	}
	rules, ok := objectOf(entry["rules"])
	if !ok {
		return nil, "rules is not an object"
	}
	list, ok := listField(rules, "dns")
	if !ok {
		return nil, "rules.dns is not a list"
	}
	if len(list) == 0 {
		return nil, ""
	}
	names = &nameSet{}
	for _, v := range list {
		item, ok := objectOf(v)
		if !ok {
			return nil, "an item of rules.dns is not an object"
		}
		name, hasName := item["matchName"].(string)
		pattern, hasPattern := item["matchPattern"].(string)
		if !hasName && !hasPattern || pattern == "*" {
			return nil, ""
		}
		if hasName {
			names.addName(name)
		}
		if hasPattern {
			names.addPattern(pattern)
		}
	}
	return names, ""
}
