package policy_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

const trials = 1000

// judge answers both questions for the pod.
func judge(t testing.TB, manifest k8s.Object, p policy.Policies) (out, in policy.Refusal) {
	t.Helper()
	union, err := policy.JudgeUnion(manifest, p, policy.Cilium, builderPod)
	if err != nil {
		t.Fatal(err)
	}
	return union.Refusal, policy.JudgeIngress(policy.Ingress{}, "", p, policy.Cilium, builderPod, 1024).Refusal
}

// loosened fails if more policy turned a refusal into a pass. A pod that nothing isolates is the one state that more policy
// mends.
func loosened(t *testing.T, what string, before, after policy.Refusal, from, to policy.Policies) {
	t.Helper()
	if before != "" && after == "" && before != policy.NoEnforcingPolicy && before != policy.NoCoveringPolicy {
		t.Errorf("%s turned %s into a pass:\nbefore %s\nafter  %s", what, before, text(from), text(to))
	}
}

func TestMorePolicyNeverPassesMore(t *testing.T) {
	passes, refusals := 0, 0
	for seed := range uint64(trials) {
		g := newGenerator(seed)
		_, manifest := g.configuration(t)
		p := g.policies()
		if g.IntN(2) == 0 {
			p.Core = append(p.Core, k8s.Object{"kind": "NetworkPolicy", "metadata": map[string]any{"name": "closed"},
				"spec": map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Ingress", "Egress"}}})
		}
		before := stored(t, p)
		switch g.IntN(4) {
		case 0:
			p.Core = slices.Insert(p.Core, g.IntN(len(p.Core)+1), g.core("more"))
		case 1:
			p.Cilium = slices.Insert(p.Cilium, g.IntN(len(p.Cilium)+1), g.cilium("CiliumNetworkPolicy", "more"))
		case 2:
			p.Admin = append(p.Admin, g.admin("AdminNetworkPolicy", "more"))
		case 3:
			addRule(g, p)
		}
		after := stored(t, p)
		out, in := judge(t, manifest, before)
		moreOut, moreIn := judge(t, manifest, after)
		loosened(t, "egress: more policy", out, moreOut, before, after)
		loosened(t, "ingress: more policy", in, moreIn, before, after)
		for _, r := range []policy.Refusal{out, in} {
			if r == "" {
				passes++
			} else {
				refusals++
			}
		}
	}
	if passes < trials/20 || refusals < trials/10 {
		t.Errorf("%d passes and %d refusals: one of them hardly occurs, so that nothing was shown", passes, refusals)
	}
}

// addRule adds a rule to one of the policies, if there is any.
func addRule(g generator, p policy.Policies) {
	all := slices.Concat(p.Core, p.Cilium, p.Clusterwide)
	if len(all) == 0 {
		return
	}
	o := pick(g, all...)
	spec := o["spec"].(map[string]any)
	field, peers := "egress", "to"
	if g.IntN(2) == 0 {
		field, peers = "ingress", "from"
	}
	rule := g.coreRule(peers)
	if o.Text("kind") != "NetworkPolicy" {
		rule = g.ciliumRule(peers)
	}
	list, _ := spec[field].([]any)
	spec[field] = append(slices.Clone(list), rule)
}

// removeExcept removes one exception somewhere in v and reports whether there was one.
func removeExcept(g generator, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if except, ok := v["except"].([]any); ok && len(except) > 0 {
			i := g.IntN(len(except))
			v["except"] = slices.Delete(slices.Clone(except), i, i+1)
			return true
		}
		for _, key := range []string{"spec", "egress", "ingress", "to", "from", "ipBlock", "toCIDRSet", "fromCIDRSet"} {
			if removeExcept(g, v[key]) {
				return true
			}
		}
	case k8s.Object:
		return removeExcept(g, map[string]any(v))
	case []any:
		for _, e := range v {
			if removeExcept(g, e) {
				return true
			}
		}
	}
	return false
}

func TestRemovingAnExceptionNeverNarrows(t *testing.T) {
	removed := 0
	for seed := range uint64(trials) {
		g := newGenerator(seed)
		_, manifest := g.configuration(t)
		p := g.policies()
		before := stored(t, p)
		after := stored(t, p)
		if !slices.ContainsFunc(slices.Concat(after.Core, after.Cilium), func(o k8s.Object) bool { return removeExcept(g, o) }) {
			continue
		}
		removed++
		out, in := judge(t, manifest, before)
		moreOut, moreIn := judge(t, manifest, after)
		if out != "" && moreOut == "" || in != "" && moreIn == "" {
			t.Errorf("without an exception egress went from %q to %q, ingress from %q to %q:\nbefore %s\nafter  %s", out, moreOut, in, moreIn, text(before), text(after))
		}
	}
	if removed < trials/20 {
		t.Errorf("only %d exceptions were removed", removed)
	}
}

func all(p policy.Policies) []k8s.Object {
	return slices.Concat(p.Core, p.Cilium, p.Clusterwide, p.Admin, p.Baseline)
}

// What passes is no more open, connection by connection, than the translation alone: two ways to read the same policies agree.
func TestPassesAreNoMoreOpen(t *testing.T) {
	endpoints := func(g generator) policy.Endpoint {
		e := policy.Endpoint{Port: pick(g, 53, 443, 1024, 80), Protocol: pick(g, "TCP", "UDP")}
		switch g.IntN(3) {
		case 0:
			e.Pod = &policy.PeerPod{Namespace: pick(g, "kube-system", "lab-7", "ops"), NamespaceLabels: map[string]string{"team": "ops"},
				Labels: pick(g, map[string]string{"k8s-app": "kube-dns"}, map[string]string{"role": "host"}, builderPod.Labels)}
		default:
			e.Addr, e.Outside = netip.MustParseAddr(pick(g, "1.1.1.1", "10.1.2.3", "169.254.169.254", "198.51.100.9", "203.0.113.5", "2001:db8::1", "fd00:ec2::254", "100.100.100.200", "172.20.0.1")), true
			e.Name = pick(g, "x.example", "a.x.example", "z.example")
		}
		return e
	}
	open, compared := 0, 0
	for seed := range uint64(trials) {
		g := newGenerator(seed)
		in, manifest := g.configuration(t)
		p := g.policies()
		if g.IntN(2) == 0 {
			closed := k8s.Object{"kind": "NetworkPolicy", "metadata": map[string]any{"name": "closed"}, "spec": map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Ingress", "Egress"}}}
			p.Core = append(p.Core, closed)
		}
		p = stored(t, p)
		out, _ := judge(t, manifest, p)
		if out != "" {
			continue
		}
		for range 10 {
			e := endpoints(g)
			alone, err := policy.Explain([]k8s.Object{manifest}, policy.Question{Pod: builderPod, Engine: policy.Cilium, To: &e})
			if err != nil {
				t.Fatal(err)
			}
			together, err := policy.Explain(all(p), policy.Question{Pod: builderPod, Engine: policy.Cilium, To: &e})
			if err != nil {
				t.Fatal(err)
			}
			compared++
			if together.Egress.Verdict == policy.Open {
				open++
				if alone.Egress.Verdict == policy.Closed {
					t.Errorf("%s passes, and %s is open: %s\nthough the translation says %s\npolicies %s", in.Policy.Kind, text(e), together.Egress.Text, alone.Egress.Text, text(p))
				}
			}
		}
	}
	if open < 50 || compared-open < 50 {
		t.Errorf("%d of %d connections were open: one answer hardly occurs", open, compared)
	}
}

// A port that passes is closed to other sandboxes, and to an address that nobody named.
func TestClosedPortIsClosedToSiblings(t *testing.T) {
	passed := 0
	for seed := range uint64(trials) {
		g := newGenerator(seed)
		p := stored(t, g.policies())
		if got := policy.JudgeIngress(policy.Ingress{}, "", p, policy.Cilium, builderPod, 1024); got.Refusal != "" {
			continue
		}
		passed++
		sibling := policy.Endpoint{Pod: &policy.PeerPod{Namespace: "lab-7", Labels: builderPod.Labels}}
		got, err := policy.Explain(all(p), policy.Question{Pod: builderPod, Engine: policy.Cilium, From: &sibling})
		if err != nil {
			t.Fatal(err)
		}
		if got.Ingress.Verdict == policy.Open {
			t.Errorf("the port passes and is open to a sibling: %s\npolicies %s", got.Ingress.Text, text(p))
		}
	}
	if passed < 20 {
		t.Errorf("only %d states passed", passed)
	}
}

// One selector is inside another only if everything it selects is selected by the other.
func TestImplicationIsSound(t *testing.T) {
	keys, values := []string{"a", "b"}, []string{"1", "2", "3"}
	var universe []map[string]string
	for _, a := range []string{"", "1", "2", "3"} {
		for _, b := range []string{"", "1", "2", "3"} {
			m := map[string]string{}
			for key, value := range map[string]string{"a": a, "b": b} {
				if value != "" {
					m[key] = value
				}
			}
			universe = append(universe, m)
		}
	}
	implied := 0
	for seed := range uint64(5000) {
		g := newGenerator(seed)
		inner, outer := g.selector(keys, values), g.selector(keys, values)
		got, ok := policy.Implies(inner, outer)
		if !ok {
			t.Fatalf("%s or %s is not readable", text(inner), text(outer))
		}
		if !got {
			continue
		}
		implied++
		for _, labels := range universe {
			p := policy.Pod{Labels: labels}
			if policy.MatchSelector(inner, true, false, p) == 2 && policy.MatchSelector(outer, true, false, p) != 2 {
				t.Fatalf("%s is said to be inside %s, and selects %v alone", text(inner), text(outer), labels)
			}
		}
	}
	if implied < 300 {
		t.Errorf("only %d pairs were inside each other", implied)
	}
}

// Sets of addresses and ports against membership, one by one.
func TestSetArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	prefixes := func() []netip.Prefix {
		var out []netip.Prefix
		for range r.IntN(4) {
			v4 := netip.AddrFrom4([4]byte{10, byte(r.IntN(2)), byte(r.IntN(4)), byte(r.IntN(256))})
			out = append(out, netip.PrefixFrom(v4, 14+r.IntN(19)).Masked())
			if r.IntN(3) == 0 {
				out = append(out, netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: byte(r.IntN(2)), 15: byte(r.IntN(4))}), r.IntN(129)).Masked())
			}
		}
		return out
	}
	in := func(list []netip.Prefix, a netip.Addr) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	spans := func() [][2]int {
		var out [][2]int
		for range r.IntN(4) {
			from := 1 + r.IntN(20)
			out = append(out, [2]int{from, from + r.IntN(6)})
		}
		return out
	}
	within := func(list [][2]int, port int) bool {
		return slices.ContainsFunc(list, func(s [2]int) bool { return s[0] <= port && port <= s[1] })
	}
	for range 1000 {
		a, b := prefixes(), prefixes()
		for range 20 {
			addr := netip.AddrFrom4([4]byte{10, byte(r.IntN(3)), byte(r.IntN(5)), byte(r.IntN(256))})
			if r.IntN(4) == 0 {
				addr = netip.AddrFrom16([16]byte{0: 0x20, 1: byte(r.IntN(3)), 15: byte(r.IntN(5))})
			}
			minus, plus, both := policy.AddressesMinusBoth(a, b, addr)
			if x, y := in(a, addr), in(b, addr); minus != (x && !y) || plus != (x || y) || both != (x && y) {
				t.Fatalf("%v and %v at %s: minus %v plus %v both %v", a, b, addr, minus, plus, both)
			}
		}
		x, y := spans(), spans()
		for port := 1; port < 30; port++ {
			minus, plus := policy.PortsMinusPlus(x, y, port)
			if p, q := within(x, port), within(y, port); minus != (p && !q) || plus != (p || q) {
				t.Fatalf("%v and %v at %d: minus %v plus %v", x, y, port, minus, plus)
			}
		}
	}
}

// The order in which policies are listed changes what is named, and nothing else.
func TestOrderDoesNotDecide(t *testing.T) {
	for seed := range uint64(trials / 4) {
		g := newGenerator(seed)
		_, manifest := g.configuration(t)
		p := stored(t, g.policies())
		out, in := judge(t, manifest, p)
		g.Shuffle(len(p.Core), func(i, j int) { p.Core[i], p.Core[j] = p.Core[j], p.Core[i] })
		g.Shuffle(len(p.Cilium), func(i, j int) { p.Cilium[i], p.Cilium[j] = p.Cilium[j], p.Cilium[i] })
		if o, i := judge(t, manifest, p); o != out || i != in {
			t.Errorf("in another order egress is %q instead of %q, ingress %q instead of %q: %s", o, out, i, in, text(p))
		}
	}
}
