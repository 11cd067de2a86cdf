package policy_test

import (
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// lists sorts policies given as JSON by their kind.
func lists(t testing.TB, objects ...string) policy.Policies {
	t.Helper()
	var p policy.Policies
	for _, o := range parse(t, objects...) {
		list := map[string]*[]k8s.Object{"NetworkPolicy": &p.Core, "CiliumNetworkPolicy": &p.Cilium, "CiliumClusterwideNetworkPolicy": &p.Clusterwide,
			"AdminNetworkPolicy": &p.Admin, "BaselineAdminNetworkPolicy": &p.Baseline}[o.Text("kind")]
		*list = append(*list, o)
	}
	return p
}

const (
	dnsPeer   = `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}},"podSelector":{"matchLabels":{"k8s-app":"kube-dns"}}}`
	dnsCilium = `{"matchLabels":{"k8s:io.kubernetes.pod.namespace":"kube-system","k8s:k8s-app":"kube-dns"}}`
)

// Each policy stands beside the object that the configuration translates to.
func TestUnionJudgesMeaning(t *testing.T) {
	denyAll := translationJSON{Engine: "cilium", Policy: policyJSON{Kind: "deny-all"}}
	internet := translationJSON{Engine: "cilium", Policy: policyJSON{Kind: "public-internet"}}
	none := translationJSON{Engine: "cilium", Policy: policyJSON{Kind: "no-network"}}
	all := translationJSON{Engine: "cilium", Policy: policyJSON{Kind: "allow-all"}}
	static := func(n *narrowingJSON, hosts ...string) translationJSON {
		return translationJSON{Engine: "cilium", Policy: policyJSON{Kind: "static", AllowedHosts: hosts}, Narrowing: n}
	}
	dnsOnly := &narrowingJSON{DNSNames: []byte("true")}
	tls := &narrowingJSON{TLSServerNames: true}
	clusterwide := func(spec string) string {
		return strings.Replace(cnp("wide", spec), "CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy", 1)
	}
	admin := func(subject, rules string) string {
		return `{"kind":"AdminNetworkPolicy","metadata":{"name":"admin"},"spec":{"priority":1,"subject":` + subject + `,"egress":[` + rules + `]}}`
	}
	const allowAll, allNamespaces = `{"action":"Allow","to":[{"networks":["0.0.0.0/0"]}]}`, `{"namespaces":{}}`
	toPort := func(port string) string {
		return `"egress":[{"toEndpoints":[` + dnsCilium + `],"toPorts":[{"ports":[` + port + `]}]}]`
	}
	for _, c := range []struct {
		about  string
		in     translationJSON
		policy string
		want   string
		says   string
	}{
		{"port 0 of Cilium is every port", denyAll, cnp("x", toPort(`{"port":"0","protocol":"UDP"}`)), "policy-widens-egress", "UDP 54-65535"},
		{"port 0 of a NetworkPolicy is taken for every port", denyAll, np("x", `"policyTypes":["Egress"],"egress":[{"to":[`+dnsPeer+`],"ports":[{"port":0}]}]`), "policy-widens-egress", "TCP"},
		{"a range of Cilium", denyAll, cnp("x", toPort(`{"port":"53","endPort":54,"protocol":"UDP"}`)), "policy-widens-egress", "UDP 54"},
		{"an endPort of 0 is none", denyAll, cnp("x", toPort(`{"port":"53","endPort":0,"protocol":"UDP"}`)), "", ""},
		{"a range that ends before it begins", denyAll, cnp("x", toPort(`{"port":"53","endPort":50,"protocol":"UDP"}`)), "not-evaluable", "endPort 50 is before port 53"},
		{"a port in another base", denyAll, cnp("x", toPort(`{"port":"0x35","protocol":"UDP"}`)), "not-evaluable", "a name"},
		{"a port with an exponent", denyAll, cnp("x", toPort(`{"port":"5.3e1","protocol":"UDP"}`)), "not-evaluable", "neither a number nor a name"},
		{"an empty port", denyAll, cnp("x", toPort(`{"port":"","protocol":"UDP"}`)), "not-evaluable", "neither"},
		{"a protocol in lower case, which no server stores", denyAll, np("x", `"policyTypes":["Egress"],"egress":[{"to":[`+dnsPeer+`],"ports":[{"protocol":"udp","port":53}]}]`), "not-evaluable", "none of TCP, UDP and SCTP"},
		{"SCTP is part of an allowed ANY", static(nil, "x.example"), cnp("x", toPort(`{"port":"53","protocol":"SCTP"}`)), "", ""},
		{"ANY on another port is SCTP too", static(&narrowingJSON{Ports: []int{53}}, "x.example"), cnp("x", `"egress":[{"toFQDNs":[{"matchName":"x.example"}],"toPorts":[{"ports":[{"port":"53","protocol":"ANY"}]}]}]`), "policy-widens-egress", "UDP 53"},
		{"private IPv4 behind a mapped block", internet, np("x", egressTo(`{"ipBlock":{"cidr":"::ffff:10.0.0.0/104"}}`)), "policy-widens-egress", "10.0.0.1 (private addresses)"},
		{"public IPv4 behind a mapped block", internet, np("x", egressTo(`{"ipBlock":{"cidr":"::ffff:198.51.100.0/120"}}`)), "", ""},
		{"the metadata service over IPv6", internet, np("x", egressTo(`{"ipBlock":{"cidr":"fd00:ec2::254/128"}}`)), "policy-widens-egress", "cloud metadata over IPv6"},
		{"the metadata service in shared address space", internet, np("x", egressTo(`{"ipBlock":{"cidr":"100.100.100.200/32"}}`)), "policy-widens-egress", "100.100.100.200 (cloud metadata)"},
		{"halves of the internet without the exceptions", internet, np("x", egressTo(`{"ipBlock":{"cidr":"0.0.0.0/1"}},{"ipBlock":{"cidr":"128.0.0.0/1"}}`)), "policy-widens-egress", "100.100.100.200"},
		{"host bits are no way around an exception", internet, np("x", egressTo(`{"ipBlock":{"cidr":"10.1.2.3/8"}}`)), "policy-widens-egress", "10.0.0.1"},
		{"an exception of another family takes nothing out", internet, np("x", egressTo(`{"ipBlock":{"cidr":"10.0.0.0/8","except":["::/0"]}}`)), "policy-widens-egress", "10.0.0.1"},
		{"a block whose exceptions leave nothing", denyAll, np("x", egressTo(`{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.0.0.0/9","10.128.0.0/9"]}}`)), "", ""},
		{"a second policy without the TLS name", static(tls, "x.example"), cnp("x", `"egress":[{"toFQDNs":[{"matchName":"x.example"}],"toPorts":[{"ports":[{"port":"443","protocol":"TCP"}]}]}]`), "policy-widens-egress", "TLS is allowed to the host's own name only"},
		{"a second policy with the TLS name", static(tls, "x.example"), cnp("x", `"egress":[{"toFQDNs":[{"matchName":"x.example"}],"toPorts":[{"ports":[{"port":"443","protocol":"TCP"}],"serverNames":["x.example"]}]}]`), "", ""},
		{"another TLS name", static(tls, "x.example"), cnp("x", `"egress":[{"toFQDNs":[{"matchName":"x.example"}],"toPorts":[{"ports":[{"port":"443","protocol":"TCP"}],"serverNames":["y.example"]}]}]`), "policy-widens-egress", "own name"},
		{"lookups of a name below an allowed domain", static(dnsOnly, ".x.example"), cnp("x", `"egress":[{"toEndpoints":[`+dnsCilium+`],"toPorts":[{"ports":[{"port":"53","protocol":"ANY"}],"rules":{"dns":[{"matchName":"a.x.example"}]}}]}]`), "", ""},
		{"lookups of a name two below it", static(dnsOnly, ".x.example"), cnp("x", `"egress":[{"toEndpoints":[`+dnsCilium+`],"toPorts":[{"ports":[{"port":"53","protocol":"ANY"}],"rules":{"dns":[{"matchName":"a.b.x.example"}]}}]}]`), "policy-widens-egress", "lookups"},
		{"lookups by another pattern", static(dnsOnly, ".x.example"), cnp("x", `"egress":[{"toEndpoints":[`+dnsCilium+`],"toPorts":[{"ports":[{"port":"53","protocol":"ANY"}],"rules":{"dns":[{"matchPattern":"*.example"}]}}]}]`), "policy-widens-egress", "lookups"},
		{"a host below an allowed domain", static(nil, ".x.example"), cnp("x", `"egress":[{"toFQDNs":[{"matchName":"a.x.example."}]}]`), "", ""},
		{"a narrower pattern", static(nil, ".x.example"), cnp("x", `"egress":[{"toFQDNs":[{"matchPattern":"a*.x.example"}]}]`), "", ""},
		{"a pattern that crosses dots", static(nil, ".x.example"), cnp("x", `"egress":[{"toFQDNs":[{"matchPattern":"**.x.example"}]}]`), "policy-widens-egress", "matchPattern"},
		{"the pattern of everything", static(nil, ".x.example"), cnp("x", `"egress":[{"toFQDNs":[{"matchPattern":"*"}]}]`), "policy-widens-egress", "matchPattern *"},
		{"pods by an expression that excludes", denyAll, np("x", `"policyTypes":["Egress"],"egress":[{"to":[{"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["a"]}]}}],"ports":[{"port":53}]}]`), "policy-widens-egress", "kubernetes.io/metadata.name!=a"},
		{"a selector that selects nobody", denyAll, np("x", `"policyTypes":["Egress"],"egress":[{"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"a"},"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["b"]}]}}],"ports":[{"port":53}]}]`), "", ""},
		{"any peer under no-network", none, np("x", egressTo(dnsPeer)), "policy-widens-egress", "no rule at all"},
		{"the group of nobody under no-network", none, cnp("x", `"egress":[{"toEntities":["none"]}]`), "", ""},
		{"ICMP alone", denyAll, cnp("x", `"egress":[{"icmps":[{"fields":[{"type":8}]}]}]`), "policy-widens-egress", "other protocols"},
		{"requirements alone", denyAll, cnp("x", `"egress":[{"toRequires":[{}]}]`), "not-evaluable", "toRequires alone"},
		{"an empty list of peers", denyAll, cnp("x", `"egress":[{"toEndpoints":[]}]`), "policy-widens-egress", "newer versions of Cilium read that as nobody"},
		{"two kinds of peers in one rule", denyAll, cnp("x", `"egress":[{"toEndpoints":[`+dnsCilium+`],"toEntities":["none"],"toPorts":[{"ports":[{"port":"53","protocol":"UDP"}]}]}]`), "not-evaluable", "which Cilium refuses"},
		{"a group of addresses", internet, cnp("x", `"egress":[{"toCIDRSet":[{"cidrGroupRef":"g"}]}]`), "not-evaluable", "cidrGroupRef"},
		{"nodes", denyAll, cnp("x", `"egress":[{"toNodes":[{}]}]`), "policy-widens-egress", "nodes"},
		{"a field that is not known in a rule", denyAll, np("x", `"policyTypes":["Egress"],"egress":[{"to":[`+dnsPeer+`],"future":1,"ports":[{"port":53}]}]`), "not-evaluable", `"future"`},
		{"a field that is not known in a spec", denyAll, cnp("x", `"future":{},"egress":[{"toEntities":["none"]}]`), "not-evaluable", `"future"`},
		{"a policy of the whole cluster", denyAll, clusterwide(`"egress":[{"toEntities":["world"]}]`), "policy-widens-egress", "entity world"},
		{"a policy of the whole cluster for another namespace", denyAll, strings.Replace(clusterwide(`"egress":[{"toEntities":["world"]}]`), `"endpointSelector":{}`, `"endpointSelector":{"matchLabels":{"k8s:io.kubernetes.pod.namespace":"far"}}`, 1), "", ""},
		{"one that selects namespaces by their labels", denyAll, strings.Replace(clusterwide(`"egress":[{"toEntities":["world"]}]`), `"endpointSelector":{}`, `"endpointSelector":{"matchLabels":{"io.cilium.k8s.namespace.labels.team":"a"}}`, 1), "not-evaluable", "not known here"},
		{"both selectors in a spec", denyAll, cnp("x", `"nodeSelector":{},"egress":[{"toEntities":["world"]}]`), "not-evaluable", "which Cilium refuses"},
		{"another namespace in the selector, without the source", denyAll, strings.Replace(cnp("x", `"egress":[{"toEntities":["world"]}]`), `"endpointSelector":{}`, `"endpointSelector":{"matchLabels":{"io.kubernetes.pod.namespace":"far"}}`, 1), "not-evaluable", "may replace"},
		{"an administrator's Allow", denyAll, admin(allNamespaces, allowAll), "policy-widens-egress", "AdminNetworkPolicy"},
		{"an administrator's Deny and Pass", denyAll, admin(allNamespaces, `{"action":"Deny","to":[{"namespaces":{}}]},{"action":"Pass","to":[{"namespaces":{}}]}`), "", ""},
		{"an administrator's Allow of what is allowed", denyAll, admin(allNamespaces, `{"action":"Allow","to":[{"pods":`+dnsPeer+`}],"ports":[{"portNumber":{"protocol":"UDP","port":53}}]}`), "", ""},
		{"an administrator's range of ports", denyAll, admin(allNamespaces, `{"action":"Allow","to":[{"pods":`+dnsPeer+`}],"ports":[{"portRange":{"protocol":"UDP","start":53,"end":60}}]}`), "policy-widens-egress", "UDP 54-60"},
		{"an administrator's Allow for namespaces by a label", denyAll, admin(`{"namespaces":{"matchLabels":{"team":"a"}}}`, allowAll), "not-evaluable", "not known here"},
		{"an administrator's Allow for another namespace", denyAll, admin(`{"namespaces":{"matchLabels":{"kubernetes.io/metadata.name":"far"}}}`, allowAll), "", ""},
		{"an administrator's Allow for other pods", denyAll, admin(`{"pods":{"namespaceSelector":{},"podSelector":{"matchLabels":{"tier":"bronze"}}}}`, allowAll), "", ""},
		{"an action that is not known", denyAll, admin(allNamespaces, `{"action":"Maybe"}`), "not-evaluable", "Maybe"},
		{"the baseline gives way", denyAll, strings.Replace(admin(allNamespaces, allowAll), "AdminNetworkPolicy", "BaselineAdminNetworkPolicy", 1), "", ""},
		{"an item of another namespace in the list", denyAll, `{"kind":"NetworkPolicy","metadata":{"name":"x","namespace":"far"},"spec":{"podSelector":{},"policyTypes":["Ingress"]}}`, "not-evaluable", "far"},
		{"nothing is wider than allow-all", all, cnp("x", `"egress":[{"toServices":[{}]}]`), "", ""},
		{"but what is no rule is not let pass", all, cnp("x", `"egress":["x"]`), "not-evaluable", "not an object"},
	} {
		t.Run(c.about, func(t *testing.T) {
			manifest, err := c.in.translate(t)
			if err != nil {
				t.Fatal(err)
			}
			got, err := policy.JudgeUnion(manifest, lists(t, text(manifest), c.policy), policy.Cilium, policy.Pod{Namespace: "lab-7", Labels: map[string]string{"sandbox.namzu.ai/template": "builder"}})
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Refusal) != c.want || c.want != "" && !strings.Contains(text(got.Culprit), jsonEscaped(c.says)) {
				t.Errorf("got %q by %s, want %q with %q", got.Refusal, text(got.Culprit), c.want, c.says)
			}
		})
	}
}

// jsonEscaped is s as it stands inside a JSON string.
func jsonEscaped(s string) string {
	quoted := text(s)
	return quoted[1 : len(quoted)-1]
}

// Each policy stands beside a baseline that closes the port.
func TestIngressJudgesMeaning(t *testing.T) {
	peers := func(name, peers string) string { return np(name, ingressFrom(peers)) }
	entities := func(name string) string { return cnp("x", `"ingress":[{"fromEntities":["`+name+`"]}]`) }
	eighths := func(low bool) string {
		list := []string{"32.0.0.0/8", "33.0.0.0/8", "34.0.0.0/8"}
		if low {
			list = []string{"16.0.0.0/8"}
		}
		var out []string
		for _, cidr := range list {
			out = append(out, `{"ipBlock":{"cidr":"`+cidr+`"}}`)
		}
		return strings.Join(out, ",")
	}
	type policies []string
	for _, c := range []struct {
		about  string
		config policy.Ingress
		labels map[string]string // of the namespace
		policies
		want string
		says string
	}{
		{"a range of Cilium", policy.Ingress{}, nil, policies{cnp("x", `"ingress":[{"toPorts":[{"ports":[{"port":"1000","endPort":2000}]}]}]`)}, "port-open", "every peer"},
		{"a range that ends before", policy.Ingress{}, nil, policies{cnp("x", `"ingress":[{"toPorts":[{"ports":[{"port":"1000","endPort":1023}]}]}]`)}, "", ""},
		{"port 0 of a NetworkPolicy", policy.Ingress{}, nil, policies{np("x", `"policyTypes":["Ingress"],"ingress":[{"ports":[{"port":0}]}]`)}, "port-open", ""},
		{"a well-known service by name", policy.Ingress{}, nil, policies{cnp("x", `"ingress":[{"toPorts":[{"ports":[{"port":"http"}]}]}]`)}, "not-evaluable", "may be a well-known service"},
		{"one large block is not everyone", policy.Ingress{}, nil, policies{peers("x", eighths(true))}, "", ""},
		{"several in one policy are", policy.Ingress{}, nil, policies{peers("x", eighths(false))}, "port-open", "add up to more than"},
		{"and so they are over two policies", policy.Ingress{}, nil, policies{peers("x", eighths(true)), peers("y", `{"ipBlock":{"cidr":"17.0.0.0/8"}}`)}, "port-open", "NetworkPolicy"},
		{"blocks on another port do not count", policy.Ingress{}, nil, policies{np("x", `"policyTypes":["Ingress"],"ingress":[{"from":[{"ipBlock":{"cidr":"0.0.0.0/0"}}],"ports":[{"port":80}]}]`)}, "", ""},
		{"blocks on a port that is not known may", policy.Ingress{}, nil, policies{np("x", `"policyTypes":["Ingress"],"ingress":[{"from":[{"ipBlock":{"cidr":"0.0.0.0/0"}}],"ports":[{"protocol":"tcp"}]}]`)}, "not-evaluable", "tcp"},
		{"half of IPv6", policy.Ingress{}, nil, policies{cnp("x", `"ingress":[{"fromCIDR":["2000::/3"]}]`)}, "port-open", "add up"},
		{"a provider's network of IPv6", policy.Ingress{}, nil, policies{cnp("x", `"ingress":[{"fromCIDR":["2001:db8::/32"]}]`)}, "", ""},
		{"all of IPv4 as mapped addresses", policy.Ingress{}, nil, policies{peers("x", `{"ipBlock":{"cidr":"::ffff:0:0/96"}}`)}, "port-open", "add up"},
		{"a block of the pod network", policy.Ingress{PodCIDRs: []string{"10.244.0.0/16"}}, nil, policies{peers("x", `{"ipBlock":{"cidr":"10.244.7.0/24"}}`)}, "port-open", "pod network"},
		{"a block beside the pod network", policy.Ingress{PodCIDRs: []string{"10.244.0.0/16"}}, nil, policies{peers("x", `{"ipBlock":{"cidr":"10.245.7.0/24"}}`)}, "", ""},
		{"pods with the sandboxes' own label", policy.Ingress{}, nil, policies{peers("x", `{"podSelector":{"matchLabels":{"sandbox.namzu.ai/template":"task"}}}`)}, "port-open", "other sandboxes of this namespace"},
		{"the same, by choice", policy.Ingress{InsecureAllowSiblings: true}, nil, policies{peers("x", `{"podSelector":{"matchLabels":{"sandbox.namzu.ai/template":"task"}}}`)}, "", ""},
		{"that choice does not open the cluster", policy.Ingress{InsecureAllowSiblings: true}, nil, policies{peers("x", `{"namespaceSelector":{}}`)}, "port-open", "any namespace"},
		{"one sandbox by its own label is no sibling", policy.Ingress{}, nil, policies{peers("x", `{"podSelector":{"matchLabels":{"agents.x-k8s.io/sandbox-name-hash":"abc"}}}`)}, "", ""},
		{"all but one by that label are", policy.Ingress{}, nil, policies{peers("x", `{"podSelector":{"matchExpressions":[{"key":"agents.x-k8s.io/sandbox-name-hash","operator":"NotIn","values":["abc"]}]}}`)}, "port-open", "other sandboxes"},
		{"this namespace by its name", policy.Ingress{}, nil, policies{peers("x", `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"lab-7"}}}`)}, "port-open", "other sandboxes"},
		{"another namespace by its name", policy.Ingress{}, nil, policies{peers("x", `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"ops"}}}`)}, "", ""},
		{"namespaces by a label that this one may have", policy.Ingress{}, nil, policies{peers("x", `{"namespaceSelector":{"matchLabels":{"team":"ops"}}}`)}, "not-evaluable", "labels that are not known here"},
		{"by a label that it has not", policy.Ingress{}, map[string]string{"team": "lab"}, policies{peers("x", `{"namespaceSelector":{"matchLabels":{"team":"ops"}}}`)}, "", ""},
		{"by a label that it has", policy.Ingress{}, map[string]string{"team": "ops"}, policies{peers("x", `{"namespaceSelector":{"matchLabels":{"team":"ops"}}}`)}, "port-open", "other sandboxes"},
		{"named pods of such namespaces are no siblings", policy.Ingress{}, nil, policies{peers("x", `{"namespaceSelector":{"matchLabels":{"team":"ops"}},"podSelector":{"matchLabels":{"role":"host"}}}`)}, "", ""},
		{"every namespace but one", policy.Ingress{}, nil, policies{peers("x", `{"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["lab-7"]}]}}`)}, "port-open", "any namespace"},
		{"pods of this namespace in Cilium", policy.Ingress{}, nil, policies{cnp("x", `"ingress":[{"fromEndpoints":[{}]}]`)}, "port-open", "other sandboxes"},
		{"the world by its reserved label", policy.Ingress{}, nil, policies{cnp("x", `"ingress":[{"fromEndpoints":[{"matchLabels":{"reserved:world":""}}]}]`)}, "port-open", "entity world"},
		{"IPv4 outside", policy.Ingress{}, nil, policies{entities("world-ipv4")}, "port-open", "everyone"},
		{"nodes", policy.Ingress{}, nil, policies{entities("remote-node"), cnp("y", `"ingress":[{"fromNodes":[{}]}]`), entities("kube-apiserver")}, "", ""},
		{"nobody", policy.Ingress{}, nil, policies{entities("none")}, "", ""},
		{"what comes in through an Ingress", policy.Ingress{}, nil, policies{entities("ingress")}, "not-evaluable", "may be anyone"},
		{"pods that Cilium does not manage", policy.Ingress{}, nil, policies{entities("unmanaged")}, "not-evaluable", "may be anyone"},
		{"pods by their service account", policy.Ingress{}, nil, policies{cnp("x", `"ingress":[{"fromEndpoints":[{"matchLabels":{"io.cilium.k8s.policy.serviceaccount":"default"}}]}]`)}, "not-evaluable", "may admit"},
		{"ICMP is not the agent's port", policy.Ingress{}, nil, policies{cnp("x", `"ingress":[{"icmps":[{"fields":[{"type":8}]}]}]`)}, "", ""},
		{"a policy of the whole cluster", policy.Ingress{}, nil, policies{strings.Replace(cnp("x", `"ingress":[{"fromEntities":["cluster"]}]`), "CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy", 1)}, "port-open", "Clusterwide"},
		{"pods of the whole cluster, without a namespace", policy.Ingress{}, nil, policies{strings.Replace(cnp("x", `"ingress":[{"fromEndpoints":[{}]}]`), "CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy", 1)}, "port-open", "any namespace"},
		{"an administrator's Allow", policy.Ingress{}, nil, policies{`{"kind":"AdminNetworkPolicy","metadata":{"name":"a"},"spec":{"subject":{"namespaces":{}},"ingress":[{"action":"Allow","from":[{"namespaces":{}}]}]}}`}, "port-open", "AdminNetworkPolicy"},
		{"an administrator's Allow on another port", policy.Ingress{}, nil, policies{`{"kind":"AdminNetworkPolicy","metadata":{"name":"a"},"spec":{"subject":{"namespaces":{}},"ingress":[{"action":"Allow","from":[{"namespaces":{}}],"ports":[{"portNumber":{"protocol":"TCP","port":80}}]}]}}`}, "", ""},
		{"an administrator's Allow by the port's name", policy.Ingress{}, nil, policies{`{"kind":"AdminNetworkPolicy","metadata":{"name":"a"},"spec":{"subject":{"namespaces":{}},"ingress":[{"action":"Allow","from":[{"namespaces":{}}],"ports":[{"namedPort":"agent"}]}]}}`}, "port-open", "AdminNetworkPolicy"},
	} {
		t.Run(c.about, func(t *testing.T) {
			p := sandbox("agents.x-k8s.io/sandbox-name-hash", "abc")
			p.Namespace, p.NamespaceLabels = "lab-7", c.labels
			got := policy.JudgeIngress(c.config, "", lists(t, append([]string{baseline}, c.policies...)...), policy.Cilium, p, 1024)
			if string(got.Refusal) != c.want || c.want != "" && !strings.Contains(text(got.Culprit), jsonEscaped(c.says)) {
				t.Errorf("got %q by %s, want %q with %q", got.Refusal, text(got.Culprit), c.want, c.says)
			}
		})
	}
}

// A policy that is about to go away does not close anything.
func TestDeletedPoliciesDoNotCount(t *testing.T) {
	deleting := strings.Replace(baseline, `"metadata":{`, `"metadata":{"deletionTimestamp":"2026-11-29T19:33:27Z",`, 1)
	p := sandbox()
	p.Namespace = "lab-7"
	if got := policy.JudgeIngress(policy.Ingress{}, "", lists(t, deleting), policy.Core, p, 1024); got.Refusal != policy.NoCoveringPolicy {
		t.Errorf("got %q, want no covering policy", got.Refusal)
	}
	open := strings.Replace(np("x", ingressFrom(`{"namespaceSelector":{}}`)), `"metadata":{`, `"metadata":{"deletionTimestamp":"2026-11-29T19:33:27Z",`, 1)
	if got := policy.JudgeIngress(policy.Ingress{}, "", lists(t, baseline, open), policy.Core, p, 1024); got.Refusal != policy.PortOpen {
		t.Errorf("got %q, want the port open for as long as the policy is there", got.Refusal)
	}
	manifest, err := translationJSON{Engine: "core", Policy: policyJSON{Kind: "deny-all"}}.translate(t)
	if err != nil {
		t.Fatal(err)
	}
	leaving := lists(t, text(manifest))
	leaving.Core[0]["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-29T19:33:27Z"
	if got, err := policy.JudgeUnion(manifest, leaving, policy.Core, builderPod); err != nil || got.Refusal != policy.NoEnforcingPolicy {
		t.Errorf("got %q, %v; want no enforcing policy", got.Refusal, err)
	}
}
