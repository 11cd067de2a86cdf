package policy

import (
	"strings"
)

// HostProblem says what is wrong with an entry of a host list.
type HostProblem string

// The problems of a host, in the order in which they are looked for. HostSuffixWithTLS comes last, from the configuration.
const (
	HostEmpty         HostProblem = "empty"
	HostNoDomain      HostProblem = "no-domain"
	HostGlob          HostProblem = "glob"
	HostNotDNS        HostProblem = "not-dns"
	HostTooLong       HostProblem = "too-long"
	HostTopLevel      HostProblem = "top-level"
	HostNumeric       HostProblem = "numeric"
	HostSuffixWithTLS HostProblem = "suffix-with-tls"
)

func (p HostProblem) text() string {
	switch p {
	case HostEmpty:
		return "is empty"
	case HostNoDomain:
		return "has nothing after the dot"
	case HostGlob:
		return "has a *; write .example.org for a domain and the names below it"
	case HostNotDNS:
		return "is no host name: it must be labels of letters, digits and '-' with dots between them, and no scheme, port or path"
	case HostTooLong:
		return "is longer than DNS allows: 253 characters, 63 in one label"
	case HostTopLevel:
		return "is a whole top-level domain"
	case HostNumeric:
		return "is an address or ends in a number; names only"
	}
	return string(p)
}

// canonicalHost returns the entry in lower case, or what is wrong with it. Nothing is trimmed: an entry with a space or a dot
// at its end was not meant as it was written.
func canonicalHost(entry string) (string, HostProblem) {
	host := strings.ToLower(entry)
	name, suffix := strings.CutPrefix(host, ".")
	switch {
	case host == "":
		return host, HostEmpty
	case name == "":
		return host, HostNoDomain
	case strings.Contains(host, "*"):
		return host, HostGlob
	case !isDotted(name):
		return host, HostNotDNS
	case len(name) > maxObjectName:
		return host, HostTooLong
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if len(label) > 63 {
			return host, HostTooLong
		}
	}
	switch last := labels[len(labels)-1]; {
	case suffix && len(labels) == 1:
		return host, HostTopLevel
	case strings.Trim(last, "0123456789") == "":
		return host, HostNumeric
	}
	return host, ""
}

// checkHosts refuses the first entry that cannot be enforced. root is the field path of the narrowing.
func checkHosts(root string, hosts []string, n *Narrowing) error {
	for _, entry := range hosts {
		if canonical, problem := canonicalHost(entry); problem != "" {
			return &HostError{Host: canonical, Problem: problem}
		}
	}
	if n == nil || !n.TLSServerNames {
		return nil
	}
	for _, entry := range hosts {
		if strings.HasPrefix(entry, ".") {
			canonical, _ := canonicalHost(entry)
			return &HostError{Host: canonical, Problem: HostSuffixWithTLS, Field: root}
		}
	}
	return nil
}

// hostEntries are the name matches of one entry: a domain is itself and the names one level below it, because Cilium's *
// does not cross a dot (https://docs.cilium.io/en/stable/security/policy/language/#dns-based).
func hostEntries(entry, suffix string) []any {
	name, domain := strings.CutPrefix(entry, ".")
	if suffix != "" {
		name += "." + suffix
	}
	entries := []any{map[string]any{"matchName": name}}
	if domain {
		entries = append(entries, map[string]any{"matchPattern": "*." + name})
	}
	return entries
}
