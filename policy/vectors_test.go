package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// The files in testdata are cases of an earlier implementation of the same checks, with what it answers. Where this package
// answers better on purpose, a table next to the test says which case, what is wanted and why.

type vector[Input any] struct {
	ID     string
	Op     string
	Check  string
	About  string
	Input  Input
	Expect json.RawMessage
	Want   json.RawMessage
	Why    string
}

// vectors reads all cases of a file and fails unless there are exactly count of them.
func vectors[V any](t testing.TB, file string, count int) []V {
	t.Helper()
	var content struct{ Cases []V }
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	decode(t, raw, &content)
	if len(content.Cases) != count {
		t.Fatalf("%s has %d cases, want %d", file, len(content.Cases), count)
	}
	return content.Cases
}

func decode(t testing.TB, raw []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatalf("decode %.200s: %v", raw, err)
	}
}

// override is an answer that differs from the recorded one.
type override struct{ want, why string }

// used fails for an override that no case asked for, so that the tables stay true.
func used(t *testing.T, overrides map[string]override, seen map[string]bool) {
	t.Helper()
	for id := range overrides {
		if !seen[id] {
			t.Errorf("the table of better answers names %s, which is no case or needs no other answer", id)
		}
	}
}

// jsonEqual compares two values as JSON.
func jsonEqual(t testing.TB, a, b any) bool {
	t.Helper()
	return reflect.DeepEqual(plain(t, a), plain(t, b))
}

func plain(t testing.TB, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func text(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

type policyJSON struct {
	Kind         string
	AllowedHosts []string
	ExceptCIDRs  []string `json:"exceptCidrs"`
}

type narrowingJSON struct {
	Ports          []int
	HostPorts      map[string][]int
	DNSNames       json.RawMessage `json:"dnsNames"`
	TLSServerNames bool            `json:"tlsServerNames"`
	TLSPorts       []int           `json:"tlsPorts"`
}

type perSandboxJSON struct {
	Engine                     string
	AdmissionPolicyName        string
	AdmissionPolicyBindingName string
	LabelKey                   string
	Narrowing                  *narrowingJSON
}

type egressJSON struct {
	Policy            policyJSON
	Engine            string
	NetworkPolicyName string
	CiliumNarrowing   *narrowingJSON
	Profile           string
	ProfileLabelKey   string
	PerSandbox        *perSandboxJSON
}

func (p policyJSON) policy(t testing.TB) policy.Policy {
	t.Helper()
	switch p.Kind {
	case "deny-all":
		return policy.DenyAll{}
	case "allow-all":
		return policy.AllowAll{}
	case "no-network":
		return policy.NoNetwork{}
	case "public-internet":
		return policy.PublicInternet{ExceptCIDRs: p.ExceptCIDRs}
	case "static":
		return policy.Static{AllowedHosts: p.AllowedHosts}
	case "resolver":
		return policy.Resolver{Resolve: func(context.Context) ([]string, error) {
			t.Error("the resolver was called")
			return nil, nil
		}}
	}
	t.Fatalf("unknown kind %q", p.Kind)
	return nil
}

func (n *narrowingJSON) narrowing(t testing.TB) *policy.Narrowing {
	t.Helper()
	if n == nil {
		return nil
	}
	out := &policy.Narrowing{Ports: n.Ports, HostPorts: n.HostPorts, TLSServerNames: n.TLSServerNames, TLSPorts: n.TLSPorts}
	switch string(n.DNSNames) {
	case "", "false", "null":
	case "true":
		out.DNSNames = &policy.DNSNames{}
	default:
		out.DNSNames = &policy.DNSNames{}
		decode(t, n.DNSNames, out.DNSNames)
	}
	return out
}

func (e *egressJSON) egress(t testing.TB) *policy.Egress {
	t.Helper()
	if e == nil {
		return nil
	}
	out := &policy.Egress{
		Policy: e.Policy.policy(t), Engine: policy.Engine(e.Engine), NetworkPolicyName: e.NetworkPolicyName,
		CiliumNarrowing: e.CiliumNarrowing.narrowing(t), Profile: e.Profile, ProfileLabelKey: e.ProfileLabelKey,
	}
	if p := e.PerSandbox; p != nil {
		out.PerSandbox = p.perSandbox(t)
	}
	return out
}

func (p *perSandboxJSON) perSandbox(t testing.TB) *policy.PerSandbox {
	t.Helper()
	return &policy.PerSandbox{
		Engine: policy.Engine(p.Engine), AdmissionPolicyName: p.AdmissionPolicyName,
		AdmissionPolicyBindingName: p.AdmissionPolicyBindingName, LabelKey: p.LabelKey, Narrowing: p.Narrowing.narrowing(t),
	}
}

// translationJSON is the part of a case that is translated.
type translationJSON struct {
	Engine string
	Policy policyJSON
	Target *struct {
		Namespace, Name, Template string
		Profile                   *struct{ Key, Value string }
	}
	Narrowing       *narrowingJSON
	ResolvedHosts   []string
	OwnerReferences []map[string]any
}

// translate validates and translates as the package does at construction.
func (in translationJSON) translate(t testing.TB) (k8s.Object, error) {
	t.Helper()
	e := &policy.Egress{Policy: in.Policy.policy(t), Engine: policy.Engine(in.Engine), CiliumNarrowing: in.Narrowing.narrowing(t)}
	target := policy.Target{Namespace: "lab-7", Name: "builder-egress", Selector: map[string]string{"sandbox.namzu.ai/template": "builder"}}
	if in.Target != nil {
		target.Namespace, target.Name = in.Target.Namespace, in.Target.Name
		target.Selector = map[string]string{"sandbox.namzu.ai/template": in.Target.Template}
		if p := in.Target.Profile; p != nil {
			target.Selector[p.Key] = p.Value
		}
	}
	if len(in.OwnerReferences) == 1 {
		target.Owner = in.OwnerReferences[0]
	}
	if err := policy.ValidateEgress(e, false); err != nil {
		return nil, err
	}
	hosts := in.ResolvedHosts
	if in.Policy.Kind == "static" {
		hosts = in.Policy.AllowedHosts
	}
	return policy.Translate(e, target, hosts)
}
