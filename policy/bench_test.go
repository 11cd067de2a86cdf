package policy_test

import (
	"fmt"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// crowd is a namespace with n policies, one in fifty of which selects the pod.
func crowd(t testing.TB, manifest k8s.Object, n int) policy.Policies {
	t.Helper()
	p := policy.Policies{Core: []k8s.Object{manifest}}
	for i := range n - 1 {
		app := fmt.Sprintf("app-%d", i)
		selector := map[string]any{"matchLabels": map[string]any{"app": app}}
		if i%50 == 0 {
			selector = map[string]any{"matchExpressions": []any{map[string]any{"key": "sandbox.namzu.ai/template", "operator": "Exists"}}}
		}
		peer := map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "kube-system"}}, "podSelector": map[string]any{"matchLabels": map[string]any{"k8s-app": "kube-dns"}}}
		p.Core = append(p.Core, object("NetworkPolicy", fmt.Sprintf("policy-%d", i), map[string]any{
			"podSelector": selector, "policyTypes": []any{"Ingress", "Egress"},
			"egress":  []any{map[string]any{"to": []any{peer}, "ports": []any{map[string]any{"protocol": "UDP", "port": 53}}}},
			"ingress": []any{map[string]any{"from": []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"role": "host"}}}}}},
		}))
	}
	return stored(t, p)
}

// Five thousand policies are judged, and the one that opens more is found among them.
func TestFiveThousandPolicies(t *testing.T) {
	manifest, err := translationJSON{Engine: "core", Policy: policyJSON{Kind: "deny-all"}}.translate(t)
	if err != nil {
		t.Fatal(err)
	}
	p := crowd(t, manifest, 5000)
	if out, in := judge(t, manifest, p); out != "" || in != "" {
		t.Fatalf("egress %q, ingress %q; want two passes", out, in)
	}
	p.Core[4321]["spec"] = map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Egress"}, "egress": []any{map[string]any{}}}
	got, err := policy.JudgeUnion(manifest, p, policy.Core, builderPod)
	if err != nil || got.Refusal != policy.PolicyWidensEgress || got.Culprit.Name != "policy-4320" || len(got.Examined) != 5000 {
		t.Errorf("got %q by %s of %d, %v; want policy-4320", got.Refusal, text(got.Culprit), len(got.Examined), err)
	}
}

func BenchmarkUnion5000(b *testing.B) {
	manifest, err := translationJSON{Engine: "core", Policy: policyJSON{Kind: "deny-all"}}.translate(b)
	if err != nil {
		b.Fatal(err)
	}
	p := crowd(b, manifest, 5000)
	b.ReportAllocs()
	for b.Loop() {
		got, err := policy.JudgeUnion(manifest, p, policy.Core, builderPod)
		if err != nil || got.Refusal != "" {
			b.Fatal(got.Refusal, err)
		}
	}
}

func BenchmarkIngress5000(b *testing.B) {
	manifest, err := translationJSON{Engine: "core", Policy: policyJSON{Kind: "deny-all"}}.translate(b)
	if err != nil {
		b.Fatal(err)
	}
	p := crowd(b, manifest, 5000)
	b.ReportAllocs()
	for b.Loop() {
		if got := policy.JudgeIngress(policy.Ingress{}, "", p, policy.Core, builderPod, 1024); got.Refusal != "" {
			b.Fatal(got.Refusal)
		}
	}
}
