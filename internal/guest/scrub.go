package guest

import (
	"slices"
	"strings"
)

// scrub takes the guest's own variables out of an environment, and all but the
// last of variables that are there more than once. The token is among the
// guest's own.
func scrub(environ []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, entry := range slices.Backward(environ) {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || seen[name] || strings.HasPrefix(name, "NAMZU_AGENT_") || strings.HasPrefix(name, "NAMZU_SANDBOX_") {
			continue
		}
		seen[name] = true
		out = append(out, entry)
	}
	slices.Reverse(out)
	return out
}

// overlay lays assignments over an environment, which may set anything.
func overlay(environ, assignments []string) []string {
	out := slices.Clone(environ)
	for _, entry := range assignments {
		name, _, _ := strings.Cut(entry, "=")
		if i := slices.IndexFunc(out, func(e string) bool { return strings.HasPrefix(e, name+"=") }); i >= 0 {
			out[i] = entry
		} else {
			out = append(out, entry)
		}
	}
	return out
}
