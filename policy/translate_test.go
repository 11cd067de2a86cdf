package policy_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/sandlot-go/sandlot/policy"
)

// refusalClass names an error as the recorded cases do.
func refusalClass(err error) (class, field, value string) {
	if e, ok := errors.AsType[*policy.HostError](err); ok {
		return "KubernetesNetworkPolicyHostError", "", e.Host
	}
	e, ok := errors.AsType[*policy.ConfigError](err)
	if !ok {
		return err.Error(), "", ""
	}
	class = map[policy.ConfigReason]string{
		policy.UnenforceablePolicy:  "KubernetesUnenforceableEgressPolicyError",
		policy.InvalidPolicy:        "KubernetesEgressPolicyConfigError",
		policy.NarrowingUnsupported: "KubernetesEgressNarrowingUnsupportedError",
		policy.InvalidProfile:       "KubernetesEgressProfileConfigError",
		policy.InvalidPerSandbox:    "KubernetesPerSandboxEgressConfigError",
		policy.WorkspacePerSandbox:  "KubernetesWorkspacePerSandboxEgressConfigError",
	}[e.Reason]
	return class, e.Field, e.Value
}

// betterTranslations are the translations that differ from the recorded ones.
var betterTranslations = map[string]override{
	"tr-06": {`["10.0.0.0/8","172.16.0.0/12","192.168.0.0/16","100.64.0.0/10","169.254.0.0/16","127.0.0.0/8","168.63.129.16/32","198.51.100.0/24","192.0.2.0/24"]`,
		"an exception with host bits is written without them: the API server warns about them, and the meaning is the same"},
}

func TestTranslate(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range vectors[vector[translationJSON]](t, "policy-translate.json", 31) {
		t.Run(c.ID, func(t *testing.T) {
			var want struct {
				Kind, PolicyKind, Refused, Field, Host, Engine string
				Manifest                                       map[string]any
			}
			decode(t, c.Expect, &want)
			got, err := c.Input.translate(t)
			if want.Refused != "" {
				class, field, value := refusalClass(err)
				if class != want.Refused || want.Field != field && want.Field != "" || want.Host != "" && want.Host != value {
					t.Fatalf("%s: got %v, want %s of %s%s", c.About, err, want.Refused, want.Field, want.Host)
				}
				if e, ok := errors.AsType[*policy.ConfigError](err); ok && want.PolicyKind != "" && string(e.Kind) != want.PolicyKind {
					t.Errorf("%s: kind is %s, want %s", c.About, e.Kind, want.PolicyKind)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", c.About, err)
			}
			if b, ok := betterTranslations[c.ID]; ok {
				seen[c.ID] = true
				var except []any
				if err := json.Unmarshal([]byte(b.want), &except); err != nil {
					t.Fatal(err)
				}
				rules := want.Manifest["spec"].(map[string]any)["egress"].([]any)
				rules[1].(map[string]any)["to"].([]any)[0].(map[string]any)["ipBlock"].(map[string]any)["except"] = except
			}
			if !jsonEqual(t, got, want.Manifest) {
				t.Errorf("%s:\ngot  %s\nwant %s", c.About, text(got), text(want.Manifest))
			}
			if got.Text("kind") != want.Kind || string(c.Input.Policy.policy(t).Kind()) != want.PolicyKind {
				t.Errorf("%s: kind %s of %s, want %s of %s", c.About, got.Text("kind"), c.Input.Policy.policy(t).Kind(), want.Kind, want.PolicyKind)
			}
		})
	}
	used(t, betterTranslations, seen)
}

// A duplicate exception, or one that is a private range anyway, is written once. A mapped one is of the IPv6 block.
func TestTranslateDropsRepeatedExceptions(t *testing.T) {
	in := translationJSON{Engine: "core", Policy: policyJSON{Kind: "public-internet", ExceptCIDRs: []string{"203.0.113.9/24", "203.0.113.0/24", "10.0.0.0/8", "FC00::/7", "::ffff:198.51.100.0/120"}}}
	got, err := in.translate(t)
	if err != nil {
		t.Fatal(err)
	}
	rules := got.List("spec", "egress")
	to := rules[1].(map[string]any)["to"].([]any)
	for i, want := range []int{8, 4} {
		if except := to[i].(map[string]any)["ipBlock"].(map[string]any)["except"].([]any); len(except) != want {
			t.Errorf("block %d has exceptions %v, want %d of them", i, except, want)
		}
	}
}

// A resolver that runs elsewhere is named in every kind that allows lookups.
func TestTranslateNamesTheConfiguredResolver(t *testing.T) {
	dns := &policy.DNSServer{Namespace: "openshift-dns", PodLabels: map[string]string{"dns": "default"}, Ports: []int{5353}}
	for _, p := range []policy.Policy{policy.DenyAll{}, policy.PublicInternet{}, policy.Static{AllowedHosts: []string{"a.example"}}} {
		e := &policy.Egress{Policy: p, Engine: policy.Cilium, DNS: dns}
		got, err := policy.Translate(e, policy.Target{Namespace: "lab-7", Name: "x"}, []string{"a.example"})
		if err != nil {
			t.Fatal(err)
		}
		first := text(got.List("spec", "egress")[0])
		want := `{"ports":[{"port":5353,"protocol":"UDP"},{"port":5353,"protocol":"TCP"}],"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"openshift-dns"}},"podSelector":{"matchLabels":{"dns":"default"}}}]}`
		if p.Kind() == policy.KindStatic {
			want = `{"toEndpoints":[{"matchLabels":{"k8s:dns":"default","k8s:io.kubernetes.pod.namespace":"openshift-dns"}}],"toPorts":[{"ports":[{"port":"5353","protocol":"ANY"}],"rules":{"dns":[{"matchPattern":"*"}]}}]}`
		}
		if first != want {
			t.Errorf("%s:\ngot  %s\nwant %s", p.Kind(), first, want)
		}
	}
}
