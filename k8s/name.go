package k8s

import (
	"fmt"
	"strings"
)

// A NameError reports a name that no API server would accept. It was refused
// before anything was sent.
type NameError struct {
	What    string // what it should name, such as "namespace"
	Name    string
	Problem string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("k8s: %s %q: %s", e.What, clip(e.Name, 300), e.Problem)
}

// CheckName refuses what cannot be the name of an object: a DNS-1123 subdomain
// of at most 253 characters. No such name leaves its segment of a path. See "Object Names and IDs" in the Kubernetes documentation.
func CheckName(s string) error { return validateSubdomain("object name", s) }

// CheckNamespace refuses what cannot be the name of a namespace: a DNS-1123
// label of at most 63 characters.
func CheckNamespace(s string) error { return validateLabel("namespace", s) }

func validateSubdomain(what, s string) error {
	if s == "" {
		return &NameError{what, s, "is empty"}
	}
	if len(s) > 253 {
		return &NameError{what, s, fmt.Sprintf("has %d characters, 253 are allowed", len(s))}
	}
	for part := range strings.SplitSeq(s, ".") {
		if !isLabel(part) {
			return &NameError{what, s, "must be lower case letters, digits, '-' and '.', and each part between dots must begin and end with a letter or digit"}
		}
	}
	return nil
}

func validateLabel(what, s string) error {
	if s == "" {
		return &NameError{what, s, "is empty"}
	}
	if len(s) > 63 {
		return &NameError{what, s, fmt.Sprintf("has %d characters, 63 are allowed", len(s))}
	}
	if !isLabel(s) {
		return &NameError{what, s, "must be lower case letters, digits and '-', and begin and end with a letter or digit"}
	}
	return nil
}

// isLabel reports whether s is made like a DNS-1123 label, of any length.
func isLabel(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != ""
}
