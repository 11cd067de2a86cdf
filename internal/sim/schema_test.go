package sim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/sim"
)

func TestSchemas(t *testing.T) {
	sandbox := func(spec string) string {
		return `{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox","metadata":{"name":"s"},"spec":` + spec + `}`
	}
	pod := func(spec string) string { return sandbox(`{"podTemplate":{"spec":` + spec + `}}`) }
	for _, tt := range []struct {
		name, kind, text string
		unknown          []string
		refusal          string
	}{
		{"the least Sandbox", "Sandbox", pod(`{"containers":[{"name":"a"}]}`), nil, ""},
		{"a pod without containers", "Sandbox", pod(`{}`), nil, "spec.podTemplate.spec.containers: Required value"},
		{"no pod at all", "Sandbox", sandbox(`{}`), nil, "spec.podTemplate: Required value"},
		{"an unknown mode", "Sandbox", sandbox(`{"operatingMode":"Asleep","podTemplate":{"spec":{"containers":[{"name":"a"}]}}}`), nil, `spec.operatingMode: Unsupported value: "Asleep": supported values: "Running", "Suspended"`},
		{"DeleteForeground is for claims", "Sandbox", sandbox(`{"shutdownPolicy":"DeleteForeground","podTemplate":{"spec":{"containers":[{"name":"a"}]}}}`), nil, `Unsupported value: "DeleteForeground"`},
		{"lifecycle is for claims", "Sandbox", sandbox(`{"lifecycle":{},"podTemplate":{"spec":{"containers":[{"name":"a"}]}}}`), []string{"spec.lifecycle"}, ""},
		{"deep in a pod", "Sandbox", pod(`{"containers":[{"name":"a","env":[{"name":"x","nope":1}]},{"name":"b","nope":2}],"nope":3}`), []string{"spec.podTemplate.spec.containers[0].env[0].nope", "spec.podTemplate.spec.containers[1].nope", "spec.podTemplate.spec.nope"}, ""},
		{"quantities as numbers and texts", "Sandbox", pod(`{"containers":[{"name":"a","resources":{"limits":{"cpu":1,"memory":"1Gi"}}}]}`), nil, ""},
		{"a quantity that is none", "Sandbox", pod(`{"containers":[{"name":"a","resources":{"limits":{"memory":"much"}}}]}`), nil, `spec.podTemplate.spec.containers[0].resources.limits.memory in body should match`},
		{"a quantity of another type", "Sandbox", pod(`{"containers":[{"name":"a","resources":{"limits":{"memory":true}}}]}`), nil, `must be of type integer,string: "boolean"`},
		{"a fraction where a number is whole", "SandboxWarmPool", `{"kind":"SandboxWarmPool","metadata":{"name":"p"},"spec":{"replicas":1.5,"sandboxTemplateRef":{"name":"t"}}}`, nil, `spec.replicas in body must be of type integer: "number"`},
		{"several mistakes", "SandboxClaim", `{"kind":"SandboxClaim","metadata":{"name":"B"},"spec":{"lifecycle":{"shutdownPolicy":"x"}}}`, nil, `SandboxClaim.extensions.agents.x-k8s.io "B" is invalid: [metadata.name: Invalid value: "B": a lowercase RFC 1123 subdomain`},
		{"two containers of a name", "Sandbox", pod(`{"containers":[{"name":"a"},{"name":"a"}]}`), nil, `spec.podTemplate.spec.containers[1]: Duplicate value: {"name":"a"}`},
		{"two of the same port", "Sandbox", pod(`{"containers":[{"name":"a","ports":[{"containerPort":1},{"containerPort":1}]}]}`), nil, `Duplicate value: {"containerPort":1,"protocol":"TCP"}`},
		{"rules that were not come to", "Sandbox", sandbox(`{}`), nil, "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		{"any Cilium policy", "CiliumNetworkPolicy", `{"kind":"CiliumNetworkPolicy","metadata":{"name":"c"},"spec":{"anything":[1,{"goes":true}]}}`, nil, ""},
		{"labels that are no object", "SandboxClaim", `{"kind":"SandboxClaim","metadata":{"name":"c","labels":5},"spec":{"warmPoolRef":{"name":"p"}}}`, nil, "cannot unmarshal number into Go struct field ObjectMeta.labels"},
		{"an owner that is no object", "SandboxClaim", `{"kind":"SandboxClaim","metadata":{"name":"c","ownerReferences":["x"]},"spec":{"warmPoolRef":{"name":"p"}}}`, nil, "not modelled: an element of metadata.ownerReferences"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kept, unknown, refusal, err := sim.Admit(tt.kind, tt.text)
			if err != nil || !slices.Equal(unknown, tt.unknown) || (tt.refusal == "") != (refusal == "") || !strings.Contains(refusal, tt.refusal) {
				t.Errorf("unknown %q, refusal %q, %v; want %q and %q; kept %s", unknown, refusal, err, tt.unknown, tt.refusal, kept)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	for kind, tt := range map[string]struct{ text, want string }{
		"Sandbox":         {`{"kind":"Sandbox","metadata":{"name":"s"},"spec":{"podTemplate":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":1}]}]}}}}`, `{"operatingMode":"Running","podTemplate":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":1,"protocol":"TCP"}]}]}},"shutdownPolicy":"Retain"}`},
		"SandboxClaim":    {`{"kind":"SandboxClaim","metadata":{"name":"s"},"spec":{"warmPoolRef":{"name":"p"},"lifecycle":{}}}`, `{"lifecycle":{"shutdownPolicy":"Retain"},"warmPoolRef":{"name":"p"}}`},
		"SandboxWarmPool": {`{"kind":"SandboxWarmPool","metadata":{"name":"s"},"spec":{"sandboxTemplateRef":{"name":"t"},"updateStrategy":{}}}`, `{"replicas":1,"sandboxTemplateRef":{"name":"t"},"updateStrategy":{"type":"OnReplenish"}}`},
	} {
		kept, _, refusal, err := sim.Admit(kind, tt.text)
		if err != nil || refusal != "" || !strings.Contains(kept, `"spec":`+tt.want+`}`) {
			t.Errorf("%s: %s %s %v, want spec %s", kind, kept, refusal, err, tt.want)
		}
	}
}

// FuzzAdmit: what is kept once is kept again, whole.
func FuzzAdmit(f *testing.F) {
	f.Add("SandboxClaim", plainClaim)
	f.Add("Sandbox", `{"kind":"Sandbox","metadata":{"name":"s","labels":{"a":"b"}},"spec":{"nope":1,"podTemplate":{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":1}}}]}}}}`)
	f.Add("SandboxTemplate", `{"metadata":{"ownerReferences":[1]},"spec":{"podTemplate":{"spec":[]}}}`)
	f.Add("SandboxWarmPool", `{"spec":{"replicas":null}}`)
	f.Fuzz(func(t *testing.T, kind, text string) {
		kept, _, refusal, err := sim.Admit(kind, text)
		if err != nil || kept == "" {
			return
		}
		again, unknown, refusalAgain, err := sim.Admit(kind, kept)
		if err != nil || refusal == "" && len(unknown) > 0 || refusal == "" && !sameJSON(again, kept) || (refusal == "") != (refusalAgain == "") {
			t.Errorf("%s %s: kept %s (%s), then %s (%s), unknown %q, %v", kind, text, kept, refusal, again, refusalAgain, unknown, err)
		}
	})
}
