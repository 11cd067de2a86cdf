package deploy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
)

func trusting(t testing.TB, ca []byte) *http.Transport {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("RIG_CA holds no certificate")
	}
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
}

// A fenceCase is one request to the fence, with the first rule that refuses it.
type fenceCase struct {
	ID, Op, About, User, Verb string
	Object                    k8s.Object
	Expect                    struct {
		Admitted bool
		Rule     int
	}
}

// stricter are the recorded cases that the shipped fence decides otherwise: the
// earlier one admits them.
var stricter = map[string]int{
	"fz-18": 6, // every port of the resolver
	"fz-24": 5, // a policy that denies nothing
}

// moreCases are requests that the recorded ones do not have.
func moreCases(t testing.TB, good k8s.Object) []fenceCase {
	t.Helper()
	var out []fenceCase
	for _, c := range []struct {
		about, patch string // a merge patch of the object that is admitted
		rule         int
	}{
		{"an endPort behind the resolver's port", `{"spec":{"egress":[{"toEndpoints":[{"matchLabels":{"k8s:io.kubernetes.pod.namespace":"kube-system","k8s:k8s-app":"kube-dns"}}],"toPorts":[{"ports":[{"port":"53","endPort":65535}]}]}]}}`, 6},
		{"no ports in toPorts", `{"spec":{"egress":[{"toEndpoints":[{"matchLabels":{"k8s:io.kubernetes.pod.namespace":"kube-system","k8s:k8s-app":"kube-dns"}}],"toPorts":[{"ports":[]}]}]}}`, 6},
		{"port 0", `{"spec":{"egress":[{"toEndpoints":[{"matchLabels":{"k8s:io.kubernetes.pod.namespace":"kube-system","k8s:k8s-app":"kube-dns"}}],"toPorts":[{"ports":[{"port":"0"}]}]}]}}`, 6},
		{"every pod of the resolver's namespace", `{"spec":{"egress":[{"toEndpoints":[{"matchLabels":{"k8s:io.kubernetes.pod.namespace":"kube-system"}}],"toPorts":[{"ports":[{"port":"53"}]}]}]}}`, 6},
		{"an empty selector beside the resolver", `{"spec":{"egress":[{"toEndpoints":[{"matchLabels":{"k8s:io.kubernetes.pod.namespace":"kube-system","k8s:k8s-app":"kube-dns"}},{}],"toPorts":[{"ports":[{"port":"53"}]}]}]}}`, 6},
		{"no selector at all", `{"spec":{"egress":[{"toEndpoints":[],"toPorts":[{"ports":[{"port":"53"}]}]}]}}`, 6},
		{"a rule without peers", `{"spec":{"egress":[{}]}}`, 6},
		{"hosts and pods in one rule", `{"spec":{"egress":[{"toFQDNs":[{"matchName":"git.example"}],"toEndpoints":[{}]}]}}`, 6},
		{"a rule for every node", `{"spec":{"egress":[{"toNodes":[{}]}]}}`, 6},
		{"a field that is not known yet", `{"spec":{"egress":[{"toFQDNs":[{"matchName":"git.example"}],"toAnything":[{}]}]}}`, 6},
		{"a certificate of the cluster", `{"spec":{"egress":[{"toFQDNs":[{"matchName":"git.example"}],"toPorts":[{"ports":[{"port":"443"}],"terminatingTLS":{"secret":{"name":"x"}}}]}]}}`, 6},
		{"names on TLS ports", `{"spec":{"egress":[{"toFQDNs":[{"matchName":"git.example"}],"toPorts":[{"ports":[{"port":"443","protocol":"TCP"}],"serverNames":["git.example"]}]}]}}`, 0},
		{"rules for ingress that are none", `{"spec":{"ingress":[]}}`, 5},
		{"no default deny, for both directions", `{"spec":{"enableDefaultDeny":{"egress":false}}}`, 5},
		{"nodes instead of pods", `{"spec":{"nodeSelector":{}}}`, 5},
		{"a description", `{"spec":{"description":"x"}}`, 0},
		{"rules that deny", `{"spec":{"egressDeny":[{}]}}`, 5},
		{"no rules", `{"spec":{"egress":null}}`, 5},
		{"no selector", `{"spec":{"endpointSelector":null}}`, 4},
		{"the label with its source", `{"spec":{"endpointSelector":{"matchLabels":{"sandbox.namzu.ai/per-sandbox-egress":null,"k8s:sandbox.namzu.ai/per-sandbox-egress":"claim-9"}}}}`, 4},
		{"another label beside it", `{"spec":{"endpointSelector":{"matchLabels":{"tier":"gold"}}}}`, 4},
		{"no spec", `{"spec":null}`, 4},
		{"no owner", `{"metadata":{"ownerReferences":null}}`, 2},
		{"a Sandbox of another group", `{"metadata":{"ownerReferences":[{"apiVersion":"example.com/v1beta1","kind":"Sandbox","name":"claim-9","uid":"4d0c-77"}]}}`, 3},
		{"a Sandbox as the owner", `{"metadata":{"ownerReferences":[{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox","name":"claim-9","uid":"4d0c-77","blockOwnerDeletion":false}]}}`, 0},
		{"two stars", `{"spec":{"egress":[{"toFQDNs":[{"matchPattern":"**.pkg.example"}]}]}}`, 7},
		{"a star inside", `{"spec":{"egress":[{"toFQDNs":[{"matchPattern":"*.*.example"}]}]}}`, 7},
		{"a name with a star", `{"spec":{"egress":[{"toFQDNs":[{"matchName":"*"}]}]}}`, 7},
		{"upper case", `{"spec":{"egress":[{"toFQDNs":[{"matchName":"Git.Example"},{"matchPattern":"*.Pkg.Example"}]}]}}`, 0},
		{"an entry without a name", `{"spec":{"egress":[{"toFQDNs":[{}]}]}}`, 7},
		{"an entry of another kind", `{"spec":{"egress":[{"toFQDNs":[{"matchRegex":".*"}]}]}}`, 7},
	} {
		object := good.Clone()
		var patch k8s.Object
		if err := json.Unmarshal([]byte(c.patch), &patch); err != nil {
			t.Fatalf("%s: %v", c.about, err)
		}
		merge(object, patch)
		f := fenceCase{ID: "more", Op: "fence", About: c.about, User: fencedUser, Verb: "CREATE", Object: object}
		f.Expect.Admitted, f.Expect.Rule = c.rule == 0, c.rule
		out = append(out, f)
	}
	return out
}

// merge applies a merge patch (RFC 7386).
func merge(into, patch map[string]any) {
	for key, v := range patch {
		m, isObject := v.(map[string]any)
		old, wasObject := into[key].(map[string]any)
		switch {
		case v == nil:
			delete(into, key)
		case isObject && wasObject:
			merge(old, m)
		default:
			into[key] = v
		}
	}
}

const fencedUser = "system:serviceaccount:namzu-sandboxes:namzu-sandbox-host"

// fenceDecides sends the recorded requests to the real server. Whoever is not
// the host is the administrator here.
func (l *live) fenceDecides(ctx context.Context, t *testing.T, host *k8s.Client) {
	raw, err := os.ReadFile("../policy/testdata/policy-persandbox.json")
	if err != nil {
		t.Fatal(err)
	}
	var content struct{ Cases []fenceCase }
	if err := json.Unmarshal(raw, &content); err != nil {
		t.Fatal(err)
	}
	var cases []fenceCase
	for _, c := range content.Cases {
		if c.Op == "fence" {
			if rule, ok := stricter[c.ID]; ok {
				c.Expect.Admitted, c.Expect.Rule = false, rule
			}
			if c.ID == "fz-06" { // the server makes one of two that are equal
				c.Object.List("metadata", "ownerReferences")[1].(map[string]any)["uid"] = "4d0c-78"
			}
			cases = append(cases, c)
		}
	}
	if len(cases) != 24 {
		t.Fatalf("there are %d recorded cases", len(cases))
	}
	for _, c := range append(cases, moreCases(t, cases[0].Object)...) {
		c.Object.Map("metadata")["namespace"] = l.namespace
		name, client := c.Object.Name(), host
		if c.User != fencedUser {
			client = l.admin
		}
		var err error
		switch c.Verb {
		case "CREATE":
			_, err = client.Create(ctx, k8s.CiliumNetworkPolicies, c.Object)
		case "DELETE":
			if _, err := l.admin.Create(ctx, k8s.CiliumNetworkPolicies, l.policy(name, "{}")); err != nil {
				t.Fatalf("%s: %v", c.ID, err)
			}
			_, err = client.Delete(ctx, k8s.CiliumNetworkPolicies, name, k8s.DeleteOptions{})
		}
		want := fmt.Sprintf("rule %d:", c.Expect.Rule)
		switch {
		case c.Expect.Admitted && err != nil:
			t.Errorf("%s, %s: %v; want it admitted", c.ID, c.About, err)
		case !c.Expect.Admitted && (k8s.KindOf(err) != k8s.Forbidden || !strings.Contains(err.Error(), want)):
			t.Errorf("%s, %s: got %v, want it refused by %s", c.ID, c.About, err, want)
		}
		if _, err := l.admin.Delete(ctx, k8s.CiliumNetworkPolicies, name, k8s.DeleteOptions{}); err != nil && !k8s.IsNotFound(err) {
			t.Fatalf("%s: %v", c.ID, err)
		}
	}
}
