package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// generator makes policies that a server would store, most of them close to what the tests' configurations allow, so that
// both answers occur.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 7))} }

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

func (g generator) some(most int, item func() any) []any {
	out := []any{}
	for range g.IntN(most + 1) {
		out = append(out, item())
	}
	return out
}

func (g generator) cidr() string {
	return pick(g, "0.0.0.0/0", "::/0", "10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/16", "198.51.100.0/24", "203.0.113.7/24", "169.254.169.254/32", "100.64.0.0/10",
		"0.0.0.0/1", "128.0.0.0/1", "2001:db8::/32", "fd00:ec2::254/128", "::ffff:10.0.0.0/104", "172.0.0.0/8", "172.16.0.0/12", "168.63.129.16/32", "127.0.0.0/8")
}

func (g generator) block() map[string]any {
	block := map[string]any{"cidr": g.cidr()}
	if except := g.some(4, func() any { return g.cidr() }); len(except) > 0 {
		block["except"] = except
	}
	return block
}

// selector makes a label selector over a few keys and values.
func (g generator) selector(keys, values []string) map[string]any {
	s := map[string]any{}
	if g.IntN(3) > 0 {
		labels := map[string]any{}
		for range g.IntN(3) {
			labels[pick(g, keys...)] = pick(g, values...)
		}
		s["matchLabels"] = labels
	}
	if g.IntN(3) == 0 {
		s["matchExpressions"] = g.some(2, func() any {
			e := map[string]any{"key": pick(g, keys...), "operator": pick(g, "In", "NotIn", "Exists", "DoesNotExist")}
			if op := e["operator"]; op == "In" || op == "NotIn" {
				e["values"] = []any{pick(g, values...), pick(g, values...)}
			}
			return e
		})
	}
	return s
}

func (g generator) namespaces() map[string]any {
	return g.selector([]string{"kubernetes.io/metadata.name", "team"}, []string{"kube-system", "lab-7", "ops"})
}

func (g generator) pods() map[string]any {
	return g.selector([]string{"k8s-app", "role", "sandbox.namzu.ai/template"}, []string{"kube-dns", "host", "builder"})
}

func (g generator) corePeer() any {
	switch g.IntN(4) {
	case 0:
		return map[string]any{"ipBlock": g.block()}
	case 1:
		return map[string]any{"podSelector": g.pods()}
	case 2:
		return map[string]any{"namespaceSelector": g.namespaces()}
	}
	return map[string]any{"namespaceSelector": g.namespaces(), "podSelector": g.pods()}
}

func (g generator) corePort() any {
	p := map[string]any{}
	if g.IntN(2) == 0 {
		p["protocol"] = pick(g, "TCP", "UDP", "SCTP")
	}
	if g.IntN(5) > 0 {
		p["port"] = pick[any](g, 53, 53, 53, 443, 1024, "agent")
		if port, ok := p["port"].(int); ok && g.IntN(4) == 0 {
			p["endPort"] = port + g.IntN(3)
		}
	}
	return p
}

func (g generator) coreRule(peers string) any {
	r := map[string]any{}
	if g.IntN(8) > 0 {
		r[peers] = g.some(2, g.corePeer)
	}
	if g.IntN(4) > 0 {
		r["ports"] = g.some(2, g.corePort)
	}
	return r
}

func (g generator) core(name string) k8s.Object {
	spec := map[string]any{"podSelector": g.selector([]string{"sandbox.namzu.ai/template", "tier"}, []string{"builder", "builder", "gold"})}
	if g.IntN(4) > 0 {
		spec["policyTypes"] = pick(g, []any{"Egress"}, []any{"Ingress"}, []any{"Ingress", "Egress"})
	}
	if g.IntN(4) > 0 {
		spec["egress"] = g.some(2, func() any { return g.coreRule("to") })
	}
	if g.IntN(4) > 0 {
		spec["ingress"] = g.some(2, func() any { return g.coreRule("from") })
	}
	return object("NetworkPolicy", name, spec)
}

func (g generator) fqdn() any {
	if g.IntN(2) == 0 {
		return map[string]any{"matchName": pick(g, "x.example", "X.example", "y.example", "a.x.example")}
	}
	return map[string]any{"matchPattern": pick(g, "*.x.example", "*", "a*.x.example", "**.x.example")}
}

func (g generator) endpoints() any {
	s := g.selector([]string{"k8s:k8s-app", "role", "k8s:io.kubernetes.pod.namespace"}, []string{"kube-dns", "kube-system", "lab-7", "host"})
	if g.IntN(2) == 0 {
		s = map[string]any{"matchLabels": map[string]any{"k8s:io.kubernetes.pod.namespace": "kube-system", "k8s:k8s-app": "kube-dns"}}
	}
	return s
}

func (g generator) ciliumRule(peers string) any {
	r := map[string]any{}
	for range 1 + g.IntN(5)/4 {
		switch g.IntN(6) {
		case 0:
			r[peers+"CIDR"] = g.some(2, func() any { return g.cidr() })
		case 1:
			r[peers+"CIDRSet"] = g.some(2, func() any { return g.block() })
		case 2, 3:
			r[peers+"Endpoints"] = g.some(2, g.endpoints)
		case 4:
			r[peers+"Entities"] = g.some(1, func() any { return pick(g, "none", "host", "world", "all", "cluster", "kube-apiserver") })
		case 5:
			if peers == "to" {
				r["toFQDNs"] = g.some(2, g.fqdn)
			}
		}
	}
	if g.IntN(4) > 0 {
		r["toPorts"] = g.some(2, func() any {
			e := map[string]any{"ports": g.some(2, func() any {
				return map[string]any{"port": pick(g, "53", "53", "443", "0", "1024"), "protocol": pick(g, "TCP", "UDP", "ANY")}
			})}
			if g.IntN(3) == 0 {
				e["rules"] = map[string]any{"dns": g.some(2, g.fqdn)}
			}
			return e
		})
	}
	return r
}

func (g generator) cilium(kind, name string) k8s.Object {
	spec := map[string]any{"endpointSelector": g.selector([]string{"k8s:sandbox.namzu.ai/template", "tier"}, []string{"builder", "builder", "gold"})}
	for field, peers := range map[string]string{"egress": "to", "ingress": "from", "egressDeny": "to", "ingressDeny": "from"} {
		if g.IntN(3) == 0 {
			spec[field] = g.some(2, func() any { return g.ciliumRule(peers) })
		}
	}
	if g.IntN(6) == 0 {
		spec["enableDefaultDeny"] = map[string]any{"egress": g.IntN(2) == 0}
	}
	return object(kind, name, spec)
}

func (g generator) admin(kind, name string) k8s.Object {
	rule := func(peers string) func() any {
		return func() any {
			var p any = map[string]any{"networks": []any{g.cidr()}}
			if peers == "from" || g.IntN(2) == 0 {
				p = map[string]any{"namespaces": g.namespaces()}
			}
			r := map[string]any{"action": pick(g, "Allow", "Deny", "Pass"), peers: []any{p}}
			if g.IntN(2) == 0 {
				r["ports"] = []any{map[string]any{"portNumber": map[string]any{"protocol": "TCP", "port": pick(g, 53, 443, 1024)}}}
			}
			return r
		}
	}
	return object(kind, name, map[string]any{"priority": g.IntN(10), "subject": map[string]any{"namespaces": g.namespaces()},
		"egress": g.some(2, rule("to")), "ingress": g.some(2, rule("from"))})
}

func object(kind, name string, spec map[string]any) k8s.Object {
	return k8s.Object{"kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}
}

func (g generator) policies() policy.Policies {
	var p policy.Policies
	for i := range g.IntN(4) {
		p.Core = append(p.Core, g.core(fmt.Sprintf("core-%d", i)))
	}
	for i := range g.IntN(3) {
		p.Cilium = append(p.Cilium, g.cilium("CiliumNetworkPolicy", fmt.Sprintf("cilium-%d", i)))
	}
	if g.IntN(4) == 0 {
		p.Clusterwide = append(p.Clusterwide, g.cilium("CiliumClusterwideNetworkPolicy", "wide"))
	}
	if g.IntN(6) == 0 {
		p.Admin = append(p.Admin, g.admin("AdminNetworkPolicy", "admin"))
	}
	if g.IntN(6) == 0 {
		p.Baseline = append(p.Baseline, g.admin("BaselineAdminNetworkPolicy", "default"))
	}
	return p
}

// stored is what a server would send: copies, with numbers as they come from JSON.
func stored(t testing.TB, p policy.Policies) policy.Policies {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var out policy.Policies
	decode(t, raw, &out)
	return out
}

// configuration is one of the kinds, with its translation.
func (g generator) configuration(t testing.TB) (translationJSON, k8s.Object) {
	t.Helper()
	in := translationJSON{Engine: "cilium", Policy: policyJSON{Kind: pick(g, "deny-all", "deny-all", "public-internet", "public-internet", "no-network", "static", "static", "allow-all")}}
	if in.Policy.Kind == "static" {
		in.Policy.AllowedHosts = pick(g, []string{"x.example"}, []string{".x.example"})
		in.Narrowing = pick(g, nil, &narrowingJSON{Ports: []int{443}}, &narrowingJSON{DNSNames: []byte("true")})
	}
	m, err := in.translate(t)
	if err != nil {
		t.Fatal(err)
	}
	return in, m
}

var builderPod = policy.Pod{Namespace: "lab-7", Labels: map[string]string{"sandbox.namzu.ai/template": "builder"}}
