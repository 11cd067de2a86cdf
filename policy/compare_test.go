package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

func TestNamedObject(t *testing.T) {
	type input struct {
		translationJSON
		Live json.RawMessage
	}
	for _, c := range vectors[vector[input]](t, "policy-named-object.json", 22) {
		t.Run(c.ID, func(t *testing.T) {
			var want struct{ Result, Field string }
			decode(t, c.Expect, &want)
			manifest, err := c.Input.translate(t)
			if err != nil {
				t.Fatal(err)
			}
			var live k8s.Object
			decode(t, c.Input.Live, &live)
			if live == nil {
				if want.Result != "not-applied" {
					t.Fatalf("%s: want %s of an object that is not there", c.About, want.Result)
				}
				return // TestCheckNamedObject has the request
			}
			field, reason := policy.CompareNamed(manifest, live)
			if field != want.Field || (field == "") != (want.Result == "ok") {
				t.Errorf("%s: differs in %q (%s), want %s %q", c.About, field, reason, want.Result, want.Field)
			}
		})
	}
}

// Fields beside the selector and the rules may undo them, and are compared too.
func TestNamedObjectComparesTheWholeSpec(t *testing.T) {
	static := translationJSON{Engine: "cilium", Policy: policyJSON{Kind: "static", AllowedHosts: []string{"x.example"}}}
	core := translationJSON{Engine: "core", Policy: policyJSON{Kind: "public-internet", ExceptCIDRs: []string{"203.0.113.0/24"}}}
	for _, c := range []struct {
		about, field string
		in           translationJSON
		change       func(o k8s.Object, spec map[string]any)
	}{
		{"default deny switched off", "spec.enableDefaultDeny", static, func(_ k8s.Object, s map[string]any) { s["enableDefaultDeny"] = map[string]any{"egress": false} }},
		{"default deny switched on says nothing new", "", static, func(_ k8s.Object, s map[string]any) { s["enableDefaultDeny"] = map[string]any{"egress": true} }},
		{"default deny of a wrong type", "spec.enableDefaultDeny", static, func(_ k8s.Object, s map[string]any) { s["enableDefaultDeny"] = "no" }},
		{"deny rules", "spec.egressDeny", static, func(_ k8s.Object, s map[string]any) { s["egressDeny"] = []any{map[string]any{}} }},
		{"an empty list of deny rules is inert", "", static, func(_ k8s.Object, s map[string]any) { s["egressDeny"] = []any{} }},
		{"ingress rules", "spec.ingress", static, func(_ k8s.Object, s map[string]any) { s["ingress"] = []any{map[string]any{}} }},
		{"a node selector", "spec.nodeSelector", static, func(_ k8s.Object, s map[string]any) { s["nodeSelector"] = map[string]any{} }},
		{"a field that is null is not there", "", static, func(_ k8s.Object, s map[string]any) { s["nodeSelector"] = nil }},
		{"a description is inert", "", static, func(_ k8s.Object, s map[string]any) { s["description"] = "egress of x" }},
		{"a field that is not known", "spec.future", core, func(_ k8s.Object, s map[string]any) { s["future"] = true }},
		{"ingress rules of a NetworkPolicy are another matter", "", core, func(_ k8s.Object, s map[string]any) { s["ingress"] = []any{map[string]any{}} }},
		{"the same exception with host bits, as older hosts wrote it", "", core, func(_ k8s.Object, s map[string]any) {
			block := s["egress"].([]any)[1].(map[string]any)["to"].([]any)[0].(map[string]any)["ipBlock"].(map[string]any)
			except := block["except"].([]any)
			except[len(except)-1] = "203.0.113.7/24"
		}},
		{"an exception that is missing", "spec.egress", core, func(_ k8s.Object, s map[string]any) {
			block := s["egress"].([]any)[1].(map[string]any)["to"].([]any)[0].(map[string]any)["ipBlock"].(map[string]any)
			block["except"] = block["except"].([]any)[:3]
		}},
	} {
		manifest, err := c.in.translate(t)
		if err != nil {
			t.Fatal(err)
		}
		var live k8s.Object
		decode(t, []byte(text(manifest)), &live)
		c.change(live, live["spec"].(map[string]any))
		if field, reason := policy.CompareNamed(manifest, live); field != c.field {
			t.Errorf("%s: differs in %q (%s), want %q", c.about, field, reason, c.field)
		}
	}
}
