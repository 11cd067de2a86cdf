package policy_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// np writes a NetworkPolicy for every pod of its namespace from its directions.
func np(name, spec string) string {
	return `{"kind":"NetworkPolicy","metadata":{"name":"` + name + `"},"spec":{"podSelector":{},` + spec + `}}`
}

// cnp writes a CiliumNetworkPolicy for every pod of its namespace.
func cnp(name, spec string) string {
	return `{"kind":"CiliumNetworkPolicy","metadata":{"name":"` + name + `"},"spec":{"endpointSelector":{},` + spec + `}}`
}

func egressTo(peers string) string {
	return `"policyTypes":["Egress"],"egress":[{"to":[` + peers + `]}]`
}

func ingressFrom(peers string) string {
	return `"policyTypes":["Ingress"],"ingress":[{"from":[` + peers + `]}]`
}

func parse(t testing.TB, list ...string) []k8s.Object {
	t.Helper()
	var out []k8s.Object
	for _, raw := range list {
		o, err := k8s.ParseObject([]byte(raw))
		if err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		out = append(out, o)
	}
	return out
}

func to(addr, protocol string, port int) *policy.Endpoint {
	return &policy.Endpoint{Addr: netip.MustParseAddr(addr), Port: port, Protocol: protocol}
}

func pod(namespace string, labels map[string]string) *policy.PeerPod {
	return &policy.PeerPod{Namespace: namespace, Labels: labels}
}

// What network plugins and people have got wrong about policies, each as the question that shows it.
func TestExplainKnownMistakes(t *testing.T) {
	host := map[string]string{"role": "host"}
	const (
		halves   = `{"ipBlock":{"cidr":"0.0.0.0/1"}},{"ipBlock":{"cidr":"128.0.0.0/1"}}`
		internet = `{"ipBlock":{"cidr":"0.0.0.0/0","except":["10.0.0.0/8","169.254.0.0/16"]}},{"ipBlock":{"cidr":"::/0"}}`
	)
	for _, c := range []struct {
		about    string
		engine   policy.Engine
		policies []string
		to       *policy.Endpoint
		from     *policy.Endpoint
		want     policy.Openness
		says     string
	}{
		{"two peers are either of them: any pod of such a namespace", "", []string{np("or", ingressFrom(`{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"ops"}}},{"podSelector":{"matchLabels":{"role":"host"}}}`))},
			nil, &policy.Endpoint{Pod: pod("ops", nil)}, policy.Open, "NetworkPolicy/or ingress[0] from[0]"},
		{"one peer with both selectors is both at once", "", []string{np("and", ingressFrom(`{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"ops"}},"podSelector":{"matchLabels":{"role":"host"}}}`))},
			nil, &policy.Endpoint{Pod: pod("ops", nil)}, policy.Closed, "no rule admits"},
		{"and admits what is both", "", []string{np("and", ingressFrom(`{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"ops"}},"podSelector":{"matchLabels":{"role":"host"}}}`))},
			nil, &policy.Endpoint{Pod: pod("ops", host)}, policy.Open, "NetworkPolicy/and"},
		{"a podSelector alone means the policy's own namespace", "", []string{np("own", ingressFrom(`{"podSelector":{"matchLabels":{"role":"host"}}}`))},
			nil, &policy.Endpoint{Pod: pod("ops", host)}, policy.Closed, "no rule admits"},
		{"and its own namespace it does admit", "", []string{np("own", ingressFrom(`{"podSelector":{"matchLabels":{"role":"host"}}}`))},
			nil, &policy.Endpoint{Pod: pod("lab-7", host)}, policy.Open, "NetworkPolicy/own"},
		{"an empty namespaceSelector is every pod of the cluster, whatever the policy is called", "", []string{np("deny-egress", egressTo(`{"namespaceSelector":{}}`))},
			&policy.Endpoint{Pod: pod("ops", nil), Port: 80}, nil, policy.Open, "NetworkPolicy/deny-egress egress[0] to[0]"},
		{"ingress [] lets nobody in", "", []string{np("none", `"policyTypes":["Ingress"],"ingress":[]`)},
			nil, to("192.0.2.1", "", 0), policy.Closed, "NetworkPolicy/none isolates"},
		{"ingress [{}] lets everybody in", "", []string{np("all", `"policyTypes":["Ingress"],"ingress":[{}]`)},
			nil, to("192.0.2.1", "", 0), policy.Open, "ingress[0] every peer"},
		{"an exception is taken from its own block", "", []string{np("a", egressTo(`{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.0.1.0/24"]}}`))},
			to("10.0.1.5", "TCP", 80), nil, policy.Closed, "NetworkPolicy/a"},
		{"and another policy may admit it", "", []string{np("a", egressTo(`{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.0.1.0/24"]}}`)), np("b", egressTo(`{"ipBlock":{"cidr":"10.0.0.0/8"}}`))},
			to("10.0.1.5", "TCP", 80), nil, policy.Open, "NetworkPolicy/b"},
		{"and so may another rule, on one port", "", []string{np("a", `"policyTypes":["Egress"],"egress":[{"to":[`+internet+`]},{"to":[{"ipBlock":{"cidr":"169.254.169.254/32"}}],"ports":[{"port":80}]}]`)},
			to("169.254.169.254", "TCP", 80), nil, policy.Open, "egress[1] to[0]"},
		{"two halves of the address space hold the metadata service", "", []string{np("halves", egressTo(halves))},
			to("169.254.169.254", "TCP", 80), nil, policy.Open, "to[1] ipBlock 128.0.0.0/1"},
		{"the metadata service has an IPv6 address too", "", []string{np("v6", egressTo(internet))},
			to("fd00:ec2::254", "TCP", 80), nil, policy.Open, "::/0"},
		{"exceptions of IPv4 do hold", "", []string{np("v4", egressTo(internet))},
			to("169.254.169.254", "TCP", 80), nil, policy.Closed, "isolates"},
		{"a range holds the ports in it, if the plugin knows ranges", "", []string{np("range", `"policyTypes":["Egress"],"egress":[{"ports":[{"port":79,"endPort":81}]}]`)},
			to("192.0.2.1", "TCP", 80), nil, policy.Open, "endPort"},
		{"a protocol alone is all its ports", "", []string{np("udp", `"policyTypes":["Egress"],"egress":[{"ports":[{"protocol":"UDP"}]}]`)},
			to("192.0.2.1", "UDP", 9), nil, policy.Open, "NetworkPolicy/udp"},
		{"and none of another protocol", "", []string{np("udp", `"policyTypes":["Egress"],"egress":[{"ports":[{"protocol":"UDP"}]}]`)},
			to("192.0.2.1", "TCP", 9), nil, policy.Closed, "is admitted on every UDP port only"},
		{"a port without a protocol is TCP", "", []string{np("tcp", `"policyTypes":["Egress"],"egress":[{"ports":[{"port":80}]}]`)},
			to("192.0.2.1", "TCP", 80), nil, policy.Open, "NetworkPolicy/tcp"},
		{"and not UDP", "", []string{np("tcp", `"policyTypes":["Egress"],"egress":[{"ports":[{"port":80}]}]`)},
			to("192.0.2.1", "UDP", 80), nil, policy.Closed, "TCP 80 only"},
		{"a deny rule closes what another policy admits, if Cilium is new enough", policy.Cilium,
			[]string{cnp("open", `"egress":[{"toEntities":["all"]}]`), `{"kind":"CiliumClusterwideNetworkPolicy","metadata":{"name":"meta"},"spec":{"endpointSelector":{},"egressDeny":[{"toCIDR":["169.254.169.254/32"]}]}}`},
			to("169.254.169.254", "TCP", 80), nil, policy.Closed, "CiliumClusterwideNetworkPolicy/meta egressDeny[0] toCIDR[0] 169.254.169.254/32 denies 169.254.169.254 on TCP 80 (deny rules need Cilium 1.9 or newer)"},
		{"deny rules alone turn on the default deny", policy.Cilium, []string{cnp("deny", `"egressDeny":[{"toCIDR":["10.0.0.0/8"]}]`)},
			to("192.0.2.1", "TCP", 80), nil, policy.Closed, "CiliumNetworkPolicy/deny isolates"},
		{"unless that is switched off", policy.Cilium, []string{cnp("deny", `"egressDeny":[{"toCIDR":["10.0.0.0/8"]}],"enableDefaultDeny":{"egress":false}`)},
			to("192.0.2.1", "TCP", 80), nil, policy.Open, "no policy of type Egress"},
		{"an exception of a deny rule is not thereby allowed", policy.Cilium, []string{cnp("deny", `"egressDeny":[{"toCIDRSet":[{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}]}]`)},
			to("10.1.2.3", "TCP", 80), nil, policy.Closed, "CiliumNetworkPolicy/deny isolates"},
		{"a policy whose label the pod does not carry isolates nothing", "", []string{`{"kind":"NetworkPolicy","metadata":{"name":"managed"},"spec":{"podSelector":{"matchLabels":{"agents.x-k8s.io/sandbox-template-ref-hash":"da1fd924"}},"policyTypes":["Ingress","Egress"]}}`},
			to("192.0.2.1", "TCP", 80), to("192.0.2.1", "", 0), policy.Open, "no policy of type Egress"},
		{"a template hash under another key is another label", "", []string{`{"kind":"NetworkPolicy","metadata":{"name":"managed"},"spec":{"podSelector":{"matchLabels":{"agents.x-k8s.io/template-name-hash":"da1fd924"}},"policyTypes":["Egress"]}}`},
			to("192.0.2.1", "TCP", 80), nil, policy.Open, "no policy of type Egress"},
	} {
		q := policy.Question{Pod: policy.Pod{Namespace: "lab-7", Labels: map[string]string{"app": "sandbox", "sandbox-name-hash": "x"}}, Engine: c.engine, To: c.to, From: c.from}
		got, err := policy.Explain(parse(t, c.policies...), q)
		if err != nil {
			t.Fatal(err)
		}
		answer := got.Egress
		if c.to == nil {
			answer = got.Ingress
		}
		if answer.Verdict != c.want || !strings.Contains(answer.Text, c.says) || strings.Contains(answer.Text, "\n") {
			t.Errorf("%s: got %s %q, want %s with %q", c.about, answer.Verdict, answer.Text, c.want, c.says)
		}
	}
}

// What depends on something that neither the policies nor the question say is unknown, and the text says on what.
func TestExplainUnknown(t *testing.T) {
	const dns = `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}},"podSelector":{"matchLabels":{"k8s-app":"kube-dns"}}}`
	for _, c := range []struct {
		about    string
		engine   policy.Engine
		policies []string
		to       *policy.Endpoint
		want     policy.Openness
		says     string
	}{
		{"an address may be that of a pod", "", []string{np("dns", egressTo(dns))}, to("10.96.0.10", "UDP", 53), policy.Unknown, "if it is the address of such a pod"},
		{"unless the question says that it is not", "", []string{np("dns", egressTo(dns))}, &policy.Endpoint{Addr: netip.MustParseAddr("1.1.1.1"), Port: 53, Protocol: "UDP", Outside: true}, policy.Closed, "isolates"},
		{"or which pod it is", "", []string{np("dns", egressTo(dns))}, &policy.Endpoint{Pod: pod("kube-system", map[string]string{"k8s-app": "kube-dns"}), Port: 53, Protocol: "UDP"}, policy.Open, "NetworkPolicy/dns"},
		{"a link-local address is no pod's", "", []string{np("dns", egressTo(dns))}, to("169.254.169.254", "TCP", 80), policy.Closed, "isolates"},
		{"labels of a namespace are not known", "", []string{np("team", egressTo(`{"namespaceSelector":{"matchLabels":{"team":"ops"}}}`))}, &policy.Endpoint{Pod: pod("x", nil), Port: 80}, policy.Unknown, "namespace has such labels"},
		{"a name resolves to something", policy.Cilium, []string{cnp("fqdn", `"egress":[{"toFQDNs":[{"matchPattern":"*.x.example"}]}]`)}, to("192.0.2.1", "TCP", 443), policy.Unknown, "what such a name resolves to"},
		{"the name is one below the pattern", policy.Cilium, []string{cnp("fqdn", `"egress":[{"toFQDNs":[{"matchPattern":"*.x.example"}]}]`)}, &policy.Endpoint{Addr: netip.MustParseAddr("192.0.2.1"), Name: "a.X.example.", Port: 443}, policy.Open, "matchPattern *.x.example"},
		{"the name is two below the pattern", policy.Cilium, []string{cnp("fqdn", `"egress":[{"toFQDNs":[{"matchPattern":"*.x.example"}]}]`)}, &policy.Endpoint{Addr: netip.MustParseAddr("192.0.2.1"), Name: "a.b.x.example", Port: 443}, policy.Closed, "isolates"},
		{"a service is not part of the policy", policy.Cilium, []string{cnp("svc", `"egress":[{"toServices":[{}]}]`)}, to("192.0.2.1", "TCP", 443), policy.Unknown, "refers to something"},
		{"a policy that cannot be read may admit anything", "", []string{`{"kind":"NetworkPolicy","metadata":{"name":"bad"},"spec":7}`}, to("192.0.2.1", "TCP", 443), policy.Unknown, "NetworkPolicy/bad"},
		{"but not take back what another admits", "", []string{`{"kind":"NetworkPolicy","metadata":{"name":"bad"},"spec":7}`, np("all", egressTo(`{"ipBlock":{"cidr":"192.0.2.0/24"}}`))}, to("192.0.2.1", "TCP", 443), policy.Open, "NetworkPolicy/all"},
		{"a deny rule that cannot be read may take it back", policy.Cilium, []string{cnp("d", `"egressDeny":[{"toGroups":[{}]}],"egress":[{"toEntities":["all"]}]`)}, to("192.0.2.1", "TCP", 443), policy.Unknown, "may deny"},
		{"the world is what is outside", policy.Cilium, []string{cnp("w", `"egress":[{"toEntities":["world"]}]`)}, to("1.1.1.1", "TCP", 443), policy.Open, "entity world"},
		{"a private address may be inside", policy.Cilium, []string{cnp("w", `"egress":[{"toEntities":["world"]}]`)}, to("10.1.1.1", "TCP", 443), policy.Unknown, "outside the cluster"},
		{"what only excludes pods may be anything else", policy.Cilium, []string{cnp("n", `"egress":[{"toEndpoints":[{"matchExpressions":[{"key":"k8s:io.kubernetes.pod.namespace","operator":"NotIn","values":["x"]}]}]}]`)},
			&policy.Endpoint{Addr: netip.MustParseAddr("1.1.1.1"), Port: 443, Outside: true}, policy.Unknown, "not excluded"},
		{"the host is some address", policy.Cilium, []string{cnp("h", `"egress":[{"toEntities":["host"]}]`)}, to("10.1.1.1", "TCP", 443), policy.Unknown, "belongs to that entity"},
	} {
		got, err := policy.Explain(parse(t, c.policies...), policy.Question{Pod: policy.Pod{Namespace: "lab-7"}, Engine: c.engine, To: c.to})
		if err != nil {
			t.Fatal(err)
		}
		if got.Egress.Verdict != c.want || !strings.Contains(got.Egress.Text, c.says) {
			t.Errorf("%s: got %s %q, want %s with %q", c.about, got.Egress.Verdict, got.Egress.Text, c.want, c.says)
		}
	}
}

// The policies of an administrator come first in order of priority, and the baseline last.
func TestExplainTiers(t *testing.T) {
	anp := func(kind, name string, priority int, rules string) string {
		return `{"kind":"` + kind + `","metadata":{"name":"` + name + `"},"spec":{"priority":` + string(rune('0'+priority)) + `,"subject":{"namespaces":{}},"egress":[` + rules + `]}}`
	}
	rule := func(action, cidr string) string {
		return `{"action":"` + action + `","to":[{"networks":["` + cidr + `"]}]}`
	}
	none := np("none", `"policyTypes":["Egress"]`)
	all := np("all", `"policyTypes":["Egress"],"egress":[{}]`)
	for _, c := range []struct {
		about    string
		policies []string
		want     policy.Openness
		says     string
	}{
		{"an Allow opens what a NetworkPolicy closes", []string{none, anp("AdminNetworkPolicy", "a", 1, rule("Allow", "192.0.2.0/24"))}, policy.Open, "AdminNetworkPolicy/a egress[0]"},
		{"a Deny closes what a NetworkPolicy opens", []string{all, anp("AdminNetworkPolicy", "a", 1, rule("Deny", "192.0.2.0/24"))}, policy.Closed, "AdminNetworkPolicy/a egress[0]"},
		{"the lower number comes first", []string{all, anp("AdminNetworkPolicy", "late", 2, rule("Allow", "0.0.0.0/0")), anp("AdminNetworkPolicy", "early", 1, rule("Deny", "0.0.0.0/0"))}, policy.Closed, "AdminNetworkPolicy/early"},
		{"a Pass ends the tier", []string{none, anp("AdminNetworkPolicy", "p", 1, rule("Pass", "0.0.0.0/0")), anp("AdminNetworkPolicy", "a", 2, rule("Allow", "0.0.0.0/0"))}, policy.Closed, "NetworkPolicy/none isolates"},
		{"the baseline gives way to a NetworkPolicy", []string{none, anp("BaselineAdminNetworkPolicy", "default", 1, rule("Allow", "0.0.0.0/0"))}, policy.Closed, "NetworkPolicy/none"},
		{"and decides where there is none", []string{anp("BaselineAdminNetworkPolicy", "default", 1, rule("Deny", "0.0.0.0/0"))}, policy.Closed, "BaselineAdminNetworkPolicy/default"},
		{"a rule that may apply leaves two answers", []string{none, anp("AdminNetworkPolicy", "n", 1, `{"action":"Allow","to":[{"nodes":{}}]}`)}, policy.Unknown, "otherwise"},
		{"one that agrees with what comes after leaves one", []string{none, anp("AdminNetworkPolicy", "n", 1, `{"action":"Deny","to":[{"nodes":{}}]}`)}, policy.Closed, "AdminNetworkPolicy/n"},
		{"an administrator's policy that cannot be read is unknown", []string{none, anp("AdminNetworkPolicy", "n", 1, `{"action":"Maybe"}`)}, policy.Unknown, "cannot be judged"},
	} {
		got, err := policy.Explain(parse(t, c.policies...), policy.Question{Pod: policy.Pod{Namespace: "lab-7"}, To: to("192.0.2.1", "TCP", 443)})
		if err != nil {
			t.Fatal(err)
		}
		if got.Egress.Verdict != c.want || !strings.Contains(got.Egress.Text, c.says) {
			t.Errorf("%s: got %s %q, want %s with %q", c.about, got.Egress.Verdict, got.Egress.Text, c.want, c.says)
		}
	}
}

// Why the policy that the controller makes for a pooled pod widens deny-all: in one line, from what a server stored.
func TestExplainRecordedPolicy(t *testing.T) {
	raw, err := os.ReadFile("../testdata/fixtures/networkpolicy.json")
	if err != nil {
		t.Fatal(err)
	}
	recorded := parse(t, string(raw))
	pooled := policy.Pod{Namespace: "sandbox-rig", Labels: map[string]string{"sandbox.namzu.ai/template": "task", "agents.x-k8s.io/sandbox-template-ref-hash": "f448886c"}}
	got, err := policy.Explain(recorded, policy.Question{Pod: pooled, Against: &policy.Egress{}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "open: NetworkPolicy/task-network-policy (egress[0]: to[0] ipBlock 0.0.0.0/0 except 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 169.254.0.0/16 " +
		"admits 168.63.129.16 (a cloud's host agent) on every port, which is not allowed; the sandbox controller makes this policy for pods of pools: " +
		"give the SandboxTemplate a networkPolicy block, or set its networkPolicyManagement to Unmanaged) lets out more than is configured; asked is deny-all"
	if got.Egress.Text != want {
		t.Errorf("got  %s\nwant %s", got.Egress.Text, want)
	}
	if got.Egress.Verdict != policy.Open || got.Ingress.Verdict != policy.Closed {
		t.Errorf("egress is %s, ingress %s %q; want open and closed", got.Egress.Verdict, got.Ingress.Verdict, got.Ingress.Text)
	}
	var shape struct {
		Egress, Ingress struct {
			Verdict  string
			Examined []struct{ Kind, Name, Verdict, Detail, Rule, Peer string }
		}
	}
	if err := json.Unmarshal([]byte(text(got)), &shape); err != nil {
		t.Fatal(err)
	}
	if e := shape.Egress.Examined; len(e) != 1 || e[0].Name != "task-network-policy" || e[0].Verdict != "widens-egress" || e[0].Rule != "egress[0]" || !strings.HasPrefix(e[0].Peer, "to[0] ipBlock") {
		t.Errorf("as JSON it is %s", text(got))
	}
	direct, err := policy.Explain(recorded, policy.Question{Pod: policy.Pod{Namespace: "sandbox-rig", Labels: map[string]string{"sandbox.namzu.ai/template": "task"}}})
	if err != nil {
		t.Fatal(err)
	}
	if direct.Egress.Verdict != policy.Open || direct.Ingress.Verdict != policy.Open || !strings.Contains(direct.Ingress.Text, "no policy that selects the pod denies ingress") {
		t.Errorf("a direct pod: egress %q, ingress %q; want both open for want of a policy", direct.Egress.Text, direct.Ingress.Text)
	}
}

// Lists are opened, and what is not judged is said.
func TestExplainSortsObjects(t *testing.T) {
	list := `{"kind":"List","items":[` + np("a", egressTo(`{"ipBlock":{"cidr":"192.0.2.0/24"}}`)) + `,{"kind":"Pod","metadata":{"name":"p"}}]}`
	typed := `{"kind":"CiliumNetworkPolicyList","items":[{"metadata":{"name":"c"},"spec":{"endpointSelector":{},"egress":[{"toEntities":["all"]}]}},7]}`
	elsewhere := `{"kind":"NetworkPolicy","metadata":{"name":"far","namespace":"other"},"spec":{"podSelector":{},"policyTypes":["Egress"],"egress":[{}]}}`
	q := policy.Question{Pod: policy.Pod{Namespace: "lab-7"}, To: to("192.0.2.1", "TCP", 443)}
	got, err := policy.Explain(parse(t, list, typed, elsewhere), q)
	if err != nil {
		t.Fatal(err)
	}
	if got.Egress.Verdict != policy.Open || len(got.Egress.Examined) != 1 || len(got.Notes) != 3 {
		t.Errorf("got %s, want one policy and three notes", text(got))
	}
	q.Engine = policy.Cilium
	if got, err = policy.Explain(parse(t, list, typed), q); err != nil || len(got.Egress.Examined) != 3 {
		t.Errorf("got %s %v, want three policies, one of which cannot be read", text(got), err)
	}
	for _, bad := range []policy.Question{
		{},
		{Pod: q.Pod, Engine: "calico"},
		{Pod: q.Pod, To: &policy.Endpoint{Port: 1}},
		{Pod: q.Pod, To: to("192.0.2.1", "ICMP", 1)},
		{Pod: q.Pod, To: to("192.0.2.1", "TCP", 0)},
		{Pod: q.Pod, AgentPort: -1},
		{Pod: q.Pod, Against: &policy.Egress{Policy: policy.Resolver{}, Engine: policy.Cilium}},
	} {
		if _, err := policy.Explain(nil, bad); err == nil {
			t.Errorf("question %+v is answered", bad)
		}
	}
}
