package policy_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// specimens are policies as operators and controllers write them.
func specimens(t testing.TB) []string {
	t.Helper()
	recorded, err := os.ReadFile("../testdata/fixtures/networkpolicy.json")
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		string(recorded),
		baseline,
		np("dns", `"policyTypes":["Egress"],"egress":[{"to":[`+dnsPeer+`],"ports":[{"protocol":"UDP","port":53},{"protocol":"TCP","port":53,"endPort":53}]}]`),
		cnp("hosts", `"egress":[{"toEndpoints":[`+dnsCilium+`],"toPorts":[{"ports":[{"port":"53","protocol":"ANY"}],"rules":{"dns":[{"matchPattern":"*"}]}}]},`+
			`{"toFQDNs":[{"matchName":"x.example"},{"matchPattern":"*.x.example"}],"toPorts":[{"ports":[{"port":"443","protocol":"TCP"}],"serverNames":["x.example"]}]}]`),
		cnp("mixed", `"ingress":[{"fromEntities":["host"],"icmps":[{}]},{"fromCIDRSet":[{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}]}],"egressDeny":[{"toCIDR":["169.254.169.254/32"]}],"enableDefaultDeny":{"egress":false}`),
		`{"kind":"CiliumNetworkPolicy","metadata":{"name":"many"},"specs":[{"endpointSelector":{"matchLabels":{"k8s:sandbox.namzu.ai/template":"builder"}},"ingress":[{}]},{"nodeSelector":{}}]}`,
		`{"kind":"AdminNetworkPolicy","metadata":{"name":"a"},"spec":{"priority":1,"subject":{"pods":{"namespaceSelector":{},"podSelector":{}}},"egress":[{"action":"Allow","to":[{"networks":["10.0.0.0/8"]},{"namespaces":{}}],"ports":[{"portRange":{"protocol":"TCP","start":1,"end":9}}]}],"ingress":[{"action":"Deny","from":[{"pods":{"namespaceSelector":{},"podSelector":{}}}]}]}}`,
	}
}

// examineAll puts an object to every reader of the package.
func examineAll(t testing.TB, o k8s.Object) {
	t.Helper()
	for _, in := range []translationJSON{
		{Engine: "cilium", Policy: policyJSON{Kind: "deny-all"}},
		{Engine: "cilium", Policy: policyJSON{Kind: "public-internet"}},
		{Engine: "cilium", Policy: policyJSON{Kind: "static", AllowedHosts: []string{".x.example"}}, Narrowing: &narrowingJSON{Ports: []int{443}, DNSNames: []byte("true")}},
	} {
		manifest, err := in.translate(t)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []policy.Policies{{Core: []k8s.Object{o}}, {Cilium: []k8s.Object{o}}, {Clusterwide: []k8s.Object{o}}, {Admin: []k8s.Object{o}}, {Baseline: []k8s.Object{o}}} {
			out, in := judge(t, manifest, p)
			again, againIn := judge(t, manifest, p)
			if out != again || in != againIn {
				t.Fatalf("judged twice, egress is %q and %q, ingress %q and %q", out, again, in, againIn)
			}
		}
		policy.CompareNamed(manifest, o)
	}
	e := policy.Endpoint{Addr: netip.MustParseAddr("10.1.2.3"), Port: 53, Protocol: "UDP"}
	for _, engine := range []policy.Engine{policy.Core, policy.Cilium} {
		got, err := policy.Explain([]k8s.Object{o}, policy.Question{Pod: builderPod, Engine: engine, To: &e, From: &e})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []policy.Answer{got.Egress, got.Ingress} {
			if !strings.HasPrefix(a.Text, string(a.Verdict)+": ") {
				t.Fatalf("the answer %s has text %q", a.Verdict, a.Text)
			}
		}
	}
	policy.FenceRefuses("", "", "CREATE", o)
	policy.MatchSelector(o["spec"], true, true, builderPod)
}

// FuzzObject puts any JSON object to every reader: none panics, and each gives one answer.
func FuzzObject(f *testing.F) {
	for _, s := range specimens(f) {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"kind":"NetworkPolicy","metadata":7,"spec":{"podSelector":null,"egress":[null],"policyTypes":[{}]}}`))
	f.Add([]byte(`{"kind":"List","items":[{"kind":"NetworkPolicyList","items":[1,{}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := k8s.ParseObject(raw)
		if err != nil {
			t.Skip()
		}
		examineAll(t, o)
	})
}

// FuzzMutation changes real policies here and there.
func FuzzMutation(f *testing.F) {
	for i := range specimens(f) {
		for n := range uint64(6) {
			f.Add(uint8(i), uint64(i)*31+n, uint8(n%4))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, seed uint64, times uint8) {
		list := specimens(t)
		o := parse(t, list[int(which)%len(list)])[0]
		r := rand.New(rand.NewPCG(seed, 3))
		for range times%8 + 1 {
			mutated := mutate(r, map[string]any(o))
			o, _ = mutated.(map[string]any)
		}
		if o == nil {
			t.Skip()
		}
		examineAll(t, o)
	})
}

// oddities are values that a reader may not expect.
var oddities = []any{nil, true, json.Number("7"), json.Number("-1"), json.Number("1e400"), "", "x", "0", "::/0", "*", []any{}, []any{nil}, []any{"x"}, map[string]any{}, map[string]any{"x": json.Number("1")}, strings.Repeat("é", 2000)}

// mutate replaces, removes, adds or repeats something at a random place.
func mutate(r *rand.Rand, v any) any {
	if r.IntN(8) == 0 {
		return oddities[r.IntN(len(oddities))]
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || r.IntN(10) == 0 {
			out := map[string]any{}
			maps.Copy(out, v)
			out[[]string{"matchLabels", "except", "to", "egress", "x", "ports"}[r.IntN(6)]] = oddities[r.IntN(len(oddities))]
			return out
		}
		out := maps.Clone(v)
		key := slices.Sorted(maps.Keys(v))[r.IntN(len(v))]
		if r.IntN(10) == 0 {
			delete(out, key)
			return out
		}
		out[key] = mutate(r, v[key])
		return out
	case []any:
		if len(v) == 0 {
			return []any{oddities[r.IntN(len(oddities))]}
		}
		out := slices.Clone(v)
		i := r.IntN(len(v))
		if r.IntN(6) == 0 {
			return append(out, v[i])
		}
		out[i] = mutate(r, v[i])
		return out
	}
	return oddities[r.IntN(len(oddities))]
}

// places returns every path below v.
func places(v any, path []any) [][]any {
	out := [][]any{path}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, places(v[key], append(slices.Clone(path), key))...)
		}
	case []any:
		for i, e := range v {
			out = append(out, places(e, append(slices.Clone(path), i))...)
		}
	}
	return out
}

// replaced returns a copy of v with the value at path exchanged.
func replaced(v any, path []any, by any) any {
	if len(path) == 0 {
		return by
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		key := path[0].(string)
		out[key] = replaced(v[key], path[1:], by)
		return out
	case []any:
		out := slices.Clone(v)
		i := path[0].(int)
		out[i] = replaced(v[i], path[1:], by)
		return out
	}
	return v
}

func jsonType(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "string"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	return "number"
}

// A policy that passes does not pass any more when any value that bears on the answer is of another type.
func TestWrongTypesNeverPass(t *testing.T) {
	type specimen struct {
		about, direction string
		in               translationJSON
		object           string
	}
	static := translationJSON{Engine: "cilium", Policy: policyJSON{Kind: "static", AllowedHosts: []string{"x.example"}}, Narrowing: &narrowingJSON{Ports: []int{443}, DNSNames: []byte("true")}}
	deny := translationJSON{Engine: "cilium", Policy: policyJSON{Kind: "deny-all"}}
	internet := translationJSON{Engine: "cilium", Policy: policyJSON{Kind: "public-internet"}}
	tried := 0
	for _, s := range []specimen{
		{"lookups", "egress", deny, np("x", `"policyTypes":["Egress"],"egress":[{"to":[`+dnsPeer+`],"ports":[{"protocol":"UDP","port":53,"endPort":53}]}]`)},
		{"a selector by expressions", "egress", deny, `{"metadata":{"name":"x"},"spec":{"podSelector":{"matchLabels":{"sandbox.namzu.ai/template":"builder"},"matchExpressions":[{"key":"sandbox.namzu.ai/template","operator":"In","values":["builder"]}]},"policyTypes":["Egress"],"egress":[{"to":[` + dnsPeer + `],"ports":[{"port":53}]}]}}`},
		{"blocks", "egress", internet, np("x", `"policyTypes":["Egress"],"egress":[{"to":[{"ipBlock":{"cidr":"168.0.0.0/8","except":["168.63.0.0/16"]}}]}]`)},
		{"hosts", "egress", static, cnp("x", `"egress":[{"toFQDNs":[{"matchName":"x.example"}],"toPorts":[{"ports":[{"port":"443","protocol":"TCP"}]}]},{"toEndpoints":[`+dnsCilium+`],"toPorts":[{"ports":[{"port":"53","protocol":"UDP"}],"rules":{"dns":[{"matchName":"x.example"}]}}]}]`)},
		{"blocks of Cilium", "egress", internet, cnp("x", `"egress":[{"toCIDRSet":[{"cidr":"168.0.0.0/8","except":["168.63.0.0/16"]}]},{"toCIDR":["198.51.100.0/24"]},{"toEntities":["none"]}],"enableDefaultDeny":{"egress":true}`)},
		{"sources", "ingress", deny, np("x", `"policyTypes":["Ingress"],"ingress":[{"from":[{"podSelector":{"matchLabels":{"role":"host"}}}],"ports":[{"protocol":"TCP","port":1024,"endPort":1024}]},{"from":[{"ipBlock":{"cidr":"198.51.100.0/24","except":["198.51.100.9/32"]}}]}]`)},
		{"sources of Cilium", "ingress", deny, cnp("x", `"ingress":[{"fromEndpoints":[{"matchLabels":{"role":"host"}}],"toPorts":[{"ports":[{"port":"1024","protocol":"TCP"}]}]},{"fromEntities":["host"]},{"fromCIDR":["198.51.100.0/24"]}]`)},
	} {
		manifest, err := s.in.translate(t)
		if err != nil {
			t.Fatal(err)
		}
		o := parse(t, s.object)[0]
		refusal := func(o map[string]any) policy.Refusal {
			p := policy.Policies{Core: []k8s.Object{o}}
			if strings.Contains(s.object, "endpointSelector") {
				p = policy.Policies{Cilium: []k8s.Object{o}}
			}
			out, in := judge(t, manifest, p)
			if s.direction == "ingress" {
				return in
			}
			return out
		}
		if got := refusal(o); got != "" {
			t.Fatalf("%s: the unchanged policy is refused with %s", s.about, got)
		}
		for _, path := range places(o["spec"], []any{"spec"}) {
			was := at(o, path)
			for _, by := range []any{true, json.Number("7"), "x", []any{"x"}, map[string]any{"x": "y"}} {
				if jsonType(by) == jsonType(was) {
					continue
				}
				tried++
				changed := replaced(map[string]any(o), path, by).(map[string]any)
				if refusal(changed) == "" {
					t.Errorf("%s: passes with %v as %s: %s", s.about, path, text(by), text(changed))
				}
			}
		}
	}
	if tried < 300 {
		t.Errorf("only %d changes were tried", tried)
	}
}

func at(v any, path []any) any {
	for _, step := range path {
		switch w := v.(type) {
		case k8s.Object:
			v = w[step.(string)]
		case map[string]any:
			v = w[step.(string)]
		case []any:
			v = w[step.(int)]
		}
	}
	return v
}

// FuzzHost holds the grammar of hosts against what it promises: a canonical host is one again, and safe to write.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"a.example", ".B.example", "*.x", "..x", "1.2.3.4", "a_b", "é.example", strings.Repeat("a", 64) + ".example", ".dev", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, problem := policy.CanonicalHost(s)
		if problem != "" {
			return
		}
		if again, problem := policy.CanonicalHost(host); again != host || problem != "" {
			t.Fatalf("%q is canonically %q, and that is %q with problem %q", s, host, again, problem)
		}
		if strings.ContainsAny(host, "*:/ \t\n\"") || len(host) > 254 {
			t.Fatalf("%q is taken as a host", host)
		}
		for _, e := range policy.HostEntries(host, "svc.cluster.local") {
			if m := e.(map[string]any); len(m) != 1 {
				t.Fatalf("%q has an entry %v", host, m)
			}
		}
	})
}

// FuzzBlock holds the address sets of blocks against membership.
func FuzzBlock(f *testing.F) {
	f.Add("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3")
	f.Add("::/0", "fc00::/7", "fd00:ec2::254")
	f.Add("::ffff:10.0.0.0/104", "::ffff:10.1.0.0/112", "10.1.0.1")
	f.Add("0.0.0.0/0", "::/0", "::ffff:1.2.3.4")
	f.Fuzz(func(t *testing.T, block, hole, address string) {
		b, err := policy.ParseCIDR(block)
		h, err2 := policy.ParseCIDR(hole)
		a, err3 := netip.ParseAddr(address)
		if err != nil || err2 != nil || err3 != nil || a.Zone() != "" {
			t.Skip()
		}
		want := b.Contains(a) && !h.Contains(a)
		got := policy.BlockContains(b, []netip.Prefix{h}, a)
		if b.Addr().Is4In6() && a.Is4() {
			return // judged as IPv4 as well
		}
		if a.Is4In6() && !b.Addr().Is4() {
			// netip matches no IPv6 prefix with a mapped address unless the prefix is mapped too.
			return
		}
		if got != want {
			t.Fatalf("%s without %s has %s: %v, want %v", b, h, a, got, want)
		}
	})
}
