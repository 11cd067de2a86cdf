package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/sandlot-go/sandlot/internal/jsontree"
	"github.com/sandlot-go/sandlot/k8s"
)

// difference is where a live object departs from its translation.
type difference struct {
	field  string
	reason string
}

// compareNamed returns the first difference between the object an operator applied and what the configuration translates to,
// nil when there is none. Lists are compared in order and nothing is guessed about equal meaning, except for what a server or
// an older host stores differently: an empty list of rules, and CIDRs with host bits.
func compareNamed(want, live k8s.Object) *difference {
	if _, ok := live["specs"]; ok {
		return &difference{"specs", fmt.Sprintf("specs is %s and should not be there: its rules are in force beside spec", jsonText(live["specs"]))}
	}
	wantSpec, _ := objectOf(want["spec"])
	liveSpec, _ := objectOf(live["spec"])
	differs := func(field string, wantValue, liveValue any) *difference {
		return &difference{field, fmt.Sprintf("%s is %s and should be %s", field, jsonText(liveValue), jsonText(wantValue))}
	}
	cilium := want.Text("kind") == k8s.CiliumNetworkPolicies.Kind
	selectorField := "podSelector"
	if cilium {
		selectorField = "endpointSelector"
	}
	if !equal(wantSpec[selectorField], liveSpec[selectorField]) {
		return differs("spec."+selectorField, wantSpec[selectorField], liveSpec[selectorField])
	}
	if !cilium {
		types, ok := liveSpec["policyTypes"].([]any)
		if !ok || !slices.Contains(types, any(egress.policyTyp)) {
			return differs("spec.policyTypes", wantSpec["policyTypes"], liveSpec["policyTypes"])
		}
	}
	wantRules, liveRules := canonicalBlocks(wantSpec["egress"]), canonicalBlocks(liveSpec["egress"])
	if liveRules == nil && !cilium {
		liveRules = []any{}
	}
	if !equal(wantRules, liveRules) {
		return differs("spec.egress", wantSpec["egress"], liveSpec["egress"])
	}
	if field, ok := foreignField(liveSpec, cilium); ok {
		return &difference{"spec." + field, fmt.Sprintf("spec.%s is %s and should not be there", field, jsonText(liveSpec[field]))}
	}
	for _, owner := range want.List("metadata", "ownerReferences") {
		if !slices.ContainsFunc(live.List("metadata", "ownerReferences"), func(v any) bool { return equal(owner, v) }) {
			return differs("metadata.ownerReferences", want.Field("metadata", "ownerReferences"), live.Field("metadata", "ownerReferences"))
		}
	}
	return nil
}

// foreignField returns a field of the spec that no translation has and that may change what it does.
func foreignField(spec map[string]any, cilium bool) (field string, ok bool) {
	if !cilium {
		return strayField(spec, "podSelector", "policyTypes", "ingress", "egress")
	}
	inert := []string{"endpointSelector", "egress", "description", "labels"}
	for _, field := range []string{"ingress", "ingressDeny", "egressDeny"} {
		if list, ok := listField(spec, field); ok && len(list) == 0 {
			inert = append(inert, field)
		}
	}
	if m, ok := objectOf(spec["enableDefaultDeny"]); ok && unknownField(m, "egress", "ingress") == "" && (m["egress"] == nil || m["egress"] == true) {
		inert = append(inert, "enableDefaultDeny")
	}
	return strayField(spec, inert...)
}

// canonicalBlocks returns rules with the CIDRs of their blocks in canonical form.
func canonicalBlocks(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = canonicalBlocks(e)
		}
		return out
	case k8s.Object:
		return canonicalBlocks(map[string]any(v))
	case map[string]any:
		out := maps.Clone(v)
		for key, e := range v {
			if key == "ipBlock" {
				out[key] = canonicalBlock(e)
			} else {
				out[key] = canonicalBlocks(e)
			}
		}
		return out
	}
	return v
}

func canonicalBlock(v any) any {
	m, ok := objectOf(v)
	if !ok {
		return v
	}
	out := maps.Clone(m)
	canonical := func(v any) any {
		if text, ok := v.(string); ok {
			if p, err := parseCIDR(text); err == nil {
				return p.String()
			}
		}
		return v
	}
	if cidr, ok := m["cidr"]; ok {
		out["cidr"] = canonical(cidr)
	}
	if except, ok := m["except"].([]any); ok {
		var list []any
		for _, e := range except {
			if c := canonical(e); !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
		out["except"] = list
	}
	return out
}

// equal compares two JSON values: lists in order, numbers by value, absent and null and empty apart.
func equal(a, b any) bool {
	if am, ok := objectOf(a); ok {
		bm, ok := objectOf(b)
		if !ok || len(am) != len(bm) {
			return false
		}
		for key, v := range am {
			w, ok := bm[key]
			if !ok || !equal(v, w) {
				return false
			}
		}
		return true
	}
	if al, ok := a.([]any); ok {
		bl, ok := b.([]any)
		return ok && slices.EqualFunc(al, bl, equal)
	}
	if an, ok := wholeNumber(a); ok {
		bn, ok := wholeNumber(b)
		return ok && an == bn
	}
	switch a.(type) {
	case nil, bool, string, json.Number, float64:
		return isScalar(b) && a == b
	}
	return false
}

func isScalar(v any) bool {
	switch v.(type) {
	case nil, bool, string, json.Number, float64:
		return true
	}
	return false
}

// jsonText writes a value of a policy for a message.
func jsonText(v any) string {
	if v == nil {
		return "absent"
	}
	raw, err := jsontree.Append(nil, v)
	if err != nil {
		return "unreadable"
	}
	return excerpt(string(raw), 1000)
}
