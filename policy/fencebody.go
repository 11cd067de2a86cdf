package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sandlot-go/sandlot/k8s"
)

// admission is what the admission policy that fences a host's writes is asked about. The rules are numbered as in the policy
// that docs/policy.md describes; this host holds its own objects against them before it writes one, so that a mistake here is
// not left to the cluster to notice.
type admission struct {
	user     string // who writes
	fenced   string // the user whom the fence is for
	labelKey string
	dns      *DNSServer
}

// refusedBy returns the number of the first rule that refuses the request, 0 when it is admitted, and why.
func (a admission) refusedBy(verb string, o k8s.Object) (int, string) {
	if a.user != a.fenced {
		return 0, ""
	}
	uid, ours := strings.CutPrefix(o.Name(), PerSandboxNamePrefix)
	if !ours {
		return 1, "the name does not begin with " + PerSandboxNamePrefix
	}
	if verb == "DELETE" {
		return 0, ""
	}
	owners := o.List("metadata", "ownerReferences")
	if len(owners) != 1 {
		return 2, fmt.Sprintf("there are %d owners", len(owners))
	}
	owner, _ := objectOf(owners[0])
	if owner["uid"] != uid || uid == "" {
		return 2, "the name does not end in the owner's uid"
	}
	if !slices.ContainsFunc(ownerKinds, func(r k8s.Resource) bool { return owner["kind"] == r.Kind && owner["apiVersion"] == r.APIVersion() }) ||
		owner["blockOwnerDeletion"] != nil && owner["blockOwnerDeletion"] != false {
		return 3, "the owner is no SandboxClaim or Sandbox that can go away freely"
	}
	spec, _ := objectOf(o["spec"])
	if !equal(spec["endpointSelector"], matchLabels(map[string]string{a.labelKey: fmt.Sprint(owner["name"])})) {
		return 4, "it does not select the owner's pod alone"
	}
	if field := unknownField(spec, "endpointSelector", "egress", "description"); field != "" || present(o, "specs") {
		return 5, "it has more than a selector and egress rules"
	}
	rules, _ := listField(spec, "egress")
	if len(rules) == 0 {
		return 5, "it has no egress rules"
	}
	for i, v := range rules {
		if why := a.ruleProblem(v); why != "" {
			return 6, fmt.Sprintf("egress[%d] %s", i, why)
		}
	}
	for i, v := range rules {
		m, _ := objectOf(v)
		if why := fqdnProblem(m); why != "" {
			return 7, fmt.Sprintf("egress[%d] %s", i, why)
		}
	}
	return 0, ""
}

// ruleProblem says why a rule is neither one of hosts nor the one of the resolver.
func (a admission) ruleProblem(v any) string {
	m, ok := objectOf(v)
	if !ok {
		return "is not an object"
	}
	if field := unknownField(m, "toFQDNs", "toEndpoints", "toPorts"); field != "" {
		return "has " + field
	}
	if present(m, "toFQDNs") == present(m, "toEndpoints") {
		return "has not exactly one of toFQDNs and toEndpoints"
	}
	if present(m, "toFQDNs") {
		return ""
	}
	selectors, _ := listField(m, "toEndpoints")
	if len(selectors) == 0 {
		return "names no resolver"
	}
	for _, s := range selectors {
		selector, _ := objectOf(s)
		labels, _ := objectOf(selector["matchLabels"])
		if labels["k8s:"+ciliumNamespaceKey] != a.dns.Namespace {
			return "does not name the resolver's namespace"
		}
		for key, value := range a.dns.labels() {
			if labels["k8s:"+key] != value {
				return "does not name the resolver's pods"
			}
		}
	}
	entries, _ := listField(m, "toPorts")
	if len(entries) == 0 {
		return "has no toPorts, and so opens every port of the resolver"
	}
	for _, e := range entries {
		entry, _ := objectOf(e)
		ports, _ := listField(entry, "ports")
		if len(ports) == 0 {
			return "opens every port of the resolver"
		}
		for _, p := range ports {
			port, _ := objectOf(p)
			if !slices.ContainsFunc(a.dns.Ports, func(n int) bool { return port["port"] == strconv.Itoa(n) }) || present(port, "endPort") {
				return "opens a port of the resolver that is not for lookups"
			}
		}
	}
	return ""
}

// fqdnProblem says why the names of a rule are not exact names or patterns below a domain.
func fqdnProblem(m map[string]any) string {
	if !present(m, "toFQDNs") {
		return ""
	}
	names, _ := listField(m, "toFQDNs")
	if len(names) == 0 {
		return "has no names"
	}
	for _, v := range names {
		item, _ := objectOf(v)
		name, byName := item["matchName"].(string)
		pattern, byPattern := item["matchPattern"].(string)
		switch {
		case byName == byPattern || unknownField(item, "matchName", "matchPattern") != "":
			return "has an entry that is not exactly one of matchName and matchPattern"
		case byName && !isDotted(strings.ToLower(name)), byPattern && !isBelowDomain(pattern):
			return "has a name that is too wide"
		}
	}
	return ""
}

// isBelowDomain reports whether a pattern matches names below one domain of at least two words, and nothing else.
func isBelowDomain(pattern string) bool {
	domain, ok := strings.CutPrefix(strings.ToLower(pattern), "*.")
	return ok && isDotted(domain) && strings.Contains(domain, ".")
}
