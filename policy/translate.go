package policy

import (
	"slices"
	"strconv"

	"github.com/sandlot-go/sandlot/k8s"
)

// target is the object that a policy is translated into, apart from its rules.
type target struct {
	namespace, name string
	selector        map[string]string
	owner           map[string]any // nil: none
}

// target returns the object of the configuration, for sandboxes of the template.
func (e *Egress) target(namespace, template string) (target, error) {
	name, err := e.policyName(template)
	if err != nil {
		return target{}, err
	}
	selector := map[string]string{TemplateLabelKey: template}
	if e.Profile != "" {
		selector[e.ProfileLabelKey] = e.Profile
	}
	return target{namespace: namespace, name: name, selector: selector}, nil
}

// translate returns the object that an operator applies for the configuration. hosts is the list of a Static or Resolver.
func (e *Egress) translate(t target, hosts []string) (k8s.Object, error) {
	if !e.Policy.Kind().named() {
		return t.core(e.coreRules()), nil
	}
	if len(hosts) == 0 {
		return nil, invalidPolicy("policy.resolve", "returned no hosts, and Cilium may read an empty list as every host")
	}
	const root = "ciliumNarrowing"
	n := e.CiliumNarrowing
	if !n.active() {
		n = nil
	}
	if err := checkHosts(root, hosts, n); err != nil {
		return nil, err
	}
	if err := n.matchHosts(root, hosts); err != nil {
		return nil, err
	}
	return t.cilium(e.DNS, hosts, n), nil
}

func (e *Egress) coreRules() []any {
	switch p := e.Policy.(type) {
	case NoNetwork:
		return []any{}
	case AllowAll:
		return []any{map[string]any{}}
	case PublicInternet:
		dns := e.DNS.corePeer()
		dns["podSelector"] = matchLabels(e.DNS.labels())
		return []any{e.DNS.coreRule(dns), p.rule()}
	}
	// A resolver that was described is named exactly. The default names the whole namespace, as the objects that operators
	// have applied do.
	dns := e.DNS.corePeer()
	if len(e.DNS.PodLabels) > 0 {
		dns["podSelector"] = matchLabels(e.DNS.PodLabels)
	}
	return []any{e.DNS.coreRule(dns)}
}

// The ranges that are never the public internet. The order is that of the objects that operators have applied. The last one is
// where a cloud's host agent answers.
var (
	privateIPv4 = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8", "168.63.129.16/32"}
	privateIPv6 = []string{"fc00::/7", "fe80::/10", "::1/128"}
)

// rule is everything but the private ranges and the configured ones, on every port. Each block gets the exceptions of its own
// family; the server refuses others.
func (p PublicInternet) rule() map[string]any {
	except := map[bool][]any{}
	seen := make(map[string]bool)
	add := func(text string) {
		prefix, err := parseCIDR(text)
		if err != nil || seen[prefix.String()] {
			return
		}
		seen[prefix.String()] = true
		except[prefix.Addr().Is4()] = append(except[prefix.Addr().Is4()], prefix.String())
	}
	for _, list := range [][]string{privateIPv4, privateIPv6, p.ExceptCIDRs} {
		for _, text := range list {
			add(text)
		}
	}
	return map[string]any{"to": []any{
		map[string]any{"ipBlock": map[string]any{"cidr": "0.0.0.0/0", "except": except[true]}},
		map[string]any{"ipBlock": map[string]any{"cidr": "::/0", "except": except[false]}},
	}}
}

func (d *DNSServer) corePeer() map[string]any {
	return map[string]any{"namespaceSelector": matchLabels(map[string]string{namespaceNameKey: d.Namespace})}
}

func (d *DNSServer) coreRule(peer map[string]any) map[string]any {
	var ports []any
	for _, port := range d.Ports {
		ports = append(ports, map[string]any{"protocol": "UDP", "port": port}, map[string]any{"protocol": "TCP", "port": port})
	}
	return map[string]any{"to": []any{peer}, "ports": ports}
}

func (t target) core(rules []any) k8s.Object {
	return k8s.Object{
		"apiVersion": k8s.NetworkPolicies.APIVersion(),
		"kind":       k8s.NetworkPolicies.Kind,
		"metadata":   t.metadata(),
		"spec": map[string]any{
			"podSelector": matchLabels(t.selector),
			"policyTypes": []any{egress.policyTyp},
			"egress":      rules,
		},
	}
}

// cilium returns the object for a list of hosts: lookups first, because Cilium learns the addresses of a name from the answers
// that pass its DNS proxy, then the hosts.
func (t target) cilium(dns *DNSServer, hosts []string, n *Narrowing) k8s.Object {
	rules := append([]any{t.lookups(dns, hosts, n)}, hostRules(hosts, n)...)
	return k8s.Object{
		"apiVersion": k8s.CiliumNetworkPolicies.APIVersion(),
		"kind":       k8s.CiliumNetworkPolicies.Kind,
		"metadata":   t.metadata(),
		"spec":       map[string]any{"endpointSelector": matchLabels(t.selector), "egress": rules},
	}
}

func (t target) metadata() map[string]any {
	m := map[string]any{"name": t.name, "namespace": t.namespace}
	if t.owner != nil {
		m["ownerReferences"] = []any{t.owner}
	}
	return m
}

// lookups is the rule for the resolver.
func (t target) lookups(dns *DNSServer, hosts []string, n *Narrowing) map[string]any {
	labels := map[string]string{"k8s:" + ciliumNamespaceKey: dns.Namespace}
	for key, value := range dns.labels() {
		labels["k8s:"+key] = value
	}
	names := []any{map[string]any{"matchPattern": "*"}}
	if n != nil && n.DNSNames != nil {
		names = n.DNSNames.entries(t.namespace, hosts)
	}
	var ports []any
	for _, port := range dns.Ports {
		ports = append(ports, map[string]any{"port": strconv.Itoa(port), "protocol": "ANY"})
	}
	return map[string]any{
		"toEndpoints": []any{matchLabels(labels)},
		"toPorts":     []any{map[string]any{"ports": ports, "rules": map[string]any{"dns": names}}},
	}
}

// entries are the names that a lookup may ask for: each host as it is, then with every suffix of the search list.
func (d *DNSNames) entries(namespace string, hosts []string) []any {
	if d.Namespace != "" {
		namespace = d.Namespace
	}
	domain := d.ClusterDomain
	if domain == "" {
		domain = defaultClusterDomain
	}
	suffixes := append([]string{"", namespace + ".svc." + domain, "svc." + domain, domain}, d.SearchSuffixes...)
	var entries []any
	for _, host := range hosts {
		for _, suffix := range suffixes {
			entries = append(entries, hostEntries(host, suffix)...)
		}
	}
	return entries
}

// hostRules are the rules for the hosts: one for all, or one for each when their ports may differ.
func hostRules(hosts []string, n *Narrowing) []any {
	if n == nil {
		var entries []any
		for _, host := range hosts {
			entries = append(entries, hostEntries(host, "")...)
		}
		return []any{map[string]any{"toFQDNs": entries}}
	}
	var rules []any
	for _, host := range hosts {
		rule := map[string]any{"toFQDNs": hostEntries(host, "")}
		if ports := n.portsOf(host); ports != nil {
			rule["toPorts"] = n.toPorts(host, ports)
		}
		rules = append(rules, rule)
	}
	return rules
}

// toPorts writes the ports of a host: first those where the TLS name must be the host's, then the others.
func (n *Narrowing) toPorts(host string, ports []int) []any {
	if !n.TLSServerNames {
		return []any{map[string]any{"ports": tcpPorts(ports)}}
	}
	var named, plain []int
	for _, port := range ports {
		if slices.Contains(n.tlsPorts(), port) {
			named = append(named, port)
		} else {
			plain = append(plain, port)
		}
	}
	var out []any
	if len(named) > 0 {
		out = append(out, map[string]any{"ports": tcpPorts(named), "serverNames": []any{host}})
	}
	if len(plain) > 0 {
		out = append(out, map[string]any{"ports": tcpPorts(plain)})
	}
	return out
}

func tcpPorts(ports []int) []any {
	var out []any
	for _, port := range ports {
		out = append(out, map[string]any{"port": strconv.Itoa(port), "protocol": "TCP"})
	}
	return out
}

func matchLabels(labels map[string]string) map[string]any {
	m := make(map[string]any, len(labels))
	for key, value := range labels {
		m[key] = value
	}
	return map[string]any{"matchLabels": m}
}
