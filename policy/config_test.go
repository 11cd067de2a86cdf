package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

func TestConfiguration(t *testing.T) {
	type input struct {
		Entry          string
		Egress         *egressJSON
		Template       string
		Extra          map[string]string
		TemplateLabels map[string]string
	}
	for _, c := range vectors[vector[input]](t, "policy-config.json", 29) {
		t.Run(c.ID, func(t *testing.T) {
			var want struct {
				OK                   bool
				Refused, Field, Name string
				Value                *string
				Labels               map[string]string
			}
			decode(t, c.Expect, &want)
			e := c.Input.Egress.egress(t)
			var err error
			switch c.Op {
			case "wiring":
				if e != nil {
					err = policy.ValidateEgress(e, c.Input.Entry == "workspace")
				}
			case "policyName":
				var name string
				if name, err = policy.PolicyName(e, c.Input.Template); name != want.Name {
					t.Errorf("%s: the name is %q, want %q", c.About, name, want.Name)
				}
			case "podLabels":
				var labels map[string]string
				if labels, err = policy.PodLabels(e, c.Input.Extra); err == nil && c.Input.TemplateLabels != nil {
					labels = policy.DirectLabels(c.Input.Template, c.Input.TemplateLabels, labels)
				}
				if err == nil && !jsonEqual(t, labels, want.Labels) {
					t.Errorf("%s: the labels are %v, want %v", c.About, labels, want.Labels)
				}
			default:
				t.Fatalf("unknown op %q", c.Op)
			}
			if want.Refused == "" {
				if err != nil {
					t.Fatalf("%s: %v", c.About, err)
				}
				return
			}
			if err == nil {
				t.Fatalf("%s: not refused", c.About)
			}
			class, field, value := refusalClass(err)
			if class != want.Refused || field != want.Field && want.Field != "" || want.Value != nil && value != *want.Value {
				t.Errorf("%s: got %s of %s=%q (%v), want %s of %s", c.About, class, field, value, err, want.Refused, want.Field)
			}
		})
	}
}

// betterHosts are the entries that are answered otherwise than recorded.
var betterHosts = map[string]override{
	"host-23": {"too-long", "DNS allows 63 characters in a label, so that the entry could never match"},
}

func TestHosts(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range vectors[vector[struct{ Host json.RawMessage }]](t, "policy-hosts.json", 24) {
		t.Run(c.ID, func(t *testing.T) {
			var want struct {
				Canonical, Refused string
				Entries            []any
			}
			decode(t, c.Expect, &want)
			if b, ok := betterHosts[c.ID]; ok {
				seen[c.ID] = true
				want.Refused = b.want
			}
			var host string
			if err := json.Unmarshal(c.Input.Host, &host); err != nil {
				if want.Refused != "not-a-string" {
					t.Fatal(err)
				}
				return // the type of AllowedHosts refuses it
			}
			canonical, problem := policy.CanonicalHost(host)
			if string(problem) != want.Refused {
				t.Fatalf("%s: %q has problem %q, want %q", c.About, host, problem, want.Refused)
			}
			if want.Refused != "" {
				err := &policy.HostError{Host: canonical, Problem: problem}
				if !strings.HasPrefix(err.Error(), "policy: ") || !strings.Contains(err.Error(), "Nothing was written") {
					t.Errorf("%s: the error is %q", c.About, err)
				}
				return
			}
			if got := policy.HostEntries(canonical, ""); canonical != want.Canonical || !jsonEqual(t, got, want.Entries) {
				t.Errorf("%s: %q is %q %s, want %q %s", c.About, host, canonical, text(got), want.Canonical, text(want.Entries))
			}
		})
	}
	used(t, betterHosts, seen)
}

func TestCIDRs(t *testing.T) {
	for _, c := range vectors[vector[json.RawMessage]](t, "policy-cidr.json", 20) {
		t.Run(c.ID, func(t *testing.T) {
			if c.Op == "relate" {
				var in struct{ Outer, Inner string }
				var want struct{ Contains, Overlap bool }
				decode(t, c.Input, &in)
				decode(t, c.Expect, &want)
				outer, err := policy.ParseCIDR(in.Outer)
				inner, err2 := policy.ParseCIDR(in.Inner)
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				if got := policy.SetContains(outer, inner); got != want.Contains {
					t.Errorf("%s: %s contains %s: %v, want %v", c.About, outer, inner, got, want.Contains)
				}
				if got := policy.SetOverlaps(outer, inner); got != want.Overlap {
					t.Errorf("%s: %s overlaps %s: %v, want %v", c.About, outer, inner, got, want.Overlap)
				}
				return
			}
			var in string
			var want *struct {
				Version, Bits int
				Base          string
			}
			decode(t, c.Input, &in)
			decode(t, c.Expect, &want)
			got, err := policy.ParseCIDR(in)
			if (err == nil) != (want != nil) {
				t.Fatalf("%s: %q gives %v, %v, want %+v", c.About, in, got, err, want)
			}
			if want == nil {
				return
			}
			version := 6
			if got.Addr().Is4() {
				version = 4
			}
			base := fmt.Sprintf("0x%x", new(big.Int).SetBytes(got.Addr().AsSlice()))
			if version != want.Version || got.Bits() != want.Bits || base != want.Base {
				t.Errorf("%s: %q is IPv%d %s/%d, want %+v", c.About, in, version, base, got.Bits(), *want)
			}
		})
	}
}

func TestSelectors(t *testing.T) {
	type input struct {
		Flavour, Namespace string
		PodLabels          map[string]string
	}
	for _, c := range vectors[vector[json.RawMessage]](t, "policy-selector.json", 30) {
		t.Run(c.ID, func(t *testing.T) {
			var in input
			var raw map[string]any
			var want string
			decode(t, c.Input, &in)
			decode(t, c.Input, &raw)
			decode(t, c.Expect, &want)
			selector, present := raw["selector"]
			pod := policy.Pod{Namespace: in.Namespace, Labels: in.PodLabels}
			got := []string{"no", "unknown", "yes"}[policy.MatchSelector(selector, present, in.Flavour == "cilium", pod)]
			if got != want {
				t.Errorf("%s: %s matches %v: %s, want %s", c.About, text(selector), in.PodLabels, got, want)
			}
		})
	}
}

// New refuses what no request is needed for, names the field, and does no I/O: the client's server does not exist.
func TestNewRefuses(t *testing.T) {
	client, err := k8s.New(k8s.Config{Server: "https://192.0.2.1", Namespace: "lab-7", Token: func(context.Context) (string, error) { return "t", nil }})
	if err != nil {
		t.Fatal(err)
	}
	static := func(hosts ...string) *policy.Egress {
		return &policy.Egress{Policy: policy.Static{AllowedHosts: hosts}, Engine: policy.Cilium}
	}
	narrowed := func(n policy.Narrowing, hosts ...string) *policy.Egress {
		e := static(hosts...)
		e.CiliumNarrowing = &n
		return e
	}
	for _, c := range []struct {
		about, field string
		config       policy.Config
	}{
		{"no namespace", "namespace", policy.Config{Template: "task"}},
		{"no template", "template", policy.Config{Namespace: "lab-7"}},
		{"a port that is none", "agentPort", policy.Config{Namespace: "lab-7", Template: "task", AgentPort: 70000}},
		{"an unknown ingress engine", "ingress.engine", policy.Config{Namespace: "lab-7", Template: "task", Ingress: policy.Ingress{Engine: "calico"}}},
		{"a pod network that is no CIDR", "ingress.podCidrs", policy.Config{Namespace: "lab-7", Template: "task", Ingress: policy.Ingress{PodCIDRs: []string{"10.0.0.1"}}}},
		{"an unknown engine", "engine", policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{Engine: "calico"}}},
		{"an unknown way to verify", "verify", policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{Verify: "none"}}},
		{"an object name with a slash", "networkPolicyName", policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{NetworkPolicyName: "a/b"}}},
		{"a template whose policy name is too long", "template", policy.Config{Namespace: "lab-7", Template: strings.Repeat("t", 250), Egress: &policy.Egress{}}},
		{"an empty host list", "policy.allowedHosts", policy.Config{Namespace: "lab-7", Template: "task", Egress: static()}},
		{"a resolver without a function", "policy.resolve", policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{Policy: policy.Resolver{}, Engine: policy.Cilium}}},
		{"an exception that takes out everything", "policy.exceptCidrs", policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{Policy: policy.PublicInternet{ExceptCIDRs: []string{"::/0"}}}}},
		{"an exception with leading zeros", "policy.exceptCidrs", policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{Policy: policy.PublicInternet{ExceptCIDRs: []string{"010.0.0.0/8"}}}}},
		{"ports for a host that is not allowed", `ciliumNarrowing.hostPorts["b.example"]`, policy.Config{Namespace: "lab-7", Template: "task",
			Egress: narrowed(policy.Narrowing{HostPorts: map[string][]int{"b.example": {443}}}, "a.example")}},
		{"ports for a host twice", `ciliumNarrowing.hostPorts["a.example"]`, policy.Config{Namespace: "lab-7", Template: "task",
			Egress: narrowed(policy.Narrowing{HostPorts: map[string][]int{"A.example": {443}, "a.example": {22}}}, "a.example")}},
		{"ports for something that is no host", `ciliumNarrowing.hostPorts["*"]`, policy.Config{Namespace: "lab-7", Template: "task",
			Egress: narrowed(policy.Narrowing{HostPorts: map[string][]int{"*": {443}}}, "a.example")}},
		{"a label key whose prefix is no DNS name", "profileLabelKey", policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{ProfileLabelKey: "a..b/c"}}},
		{"a resolver's namespace that is none", "dns.namespace", policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{DNS: &policy.DNSServer{Namespace: "A"}}}},
		{"a resolver's port that is none", "dns.ports", policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{DNS: &policy.DNSServer{Ports: []int{0}}}}},
	} {
		_, err := policy.New(client, c.config)
		e, ok := errors.AsType[*policy.ConfigError](err)
		if !ok || e.Field != c.field {
			t.Errorf("%s: got %v, want a refusal of %s", c.about, err, c.field)
			continue
		}
		if !strings.HasPrefix(e.Error(), "policy: ") || !strings.Contains(e.Error(), c.field) {
			t.Errorf("%s: the error %q does not name %s", c.about, e, c.field)
		}
	}
	_, err = policy.New(client, policy.Config{Namespace: "lab-7", Template: "task", Egress: static("a.example", ".dev")})
	if e, ok := errors.AsType[*policy.HostError](err); !ok || e.Host != ".dev" {
		t.Errorf("a top-level domain: got %v, want a refusal of .dev", err)
	}
}

// The zero Egress denies all, and the labels of a pod follow from the configuration alone.
func TestZeroEgressDeniesAll(t *testing.T) {
	client, err := k8s.New(k8s.Config{Server: "https://192.0.2.1", Namespace: "other", Token: func(context.Context) (string, error) { return "t", nil }})
	if err != nil {
		t.Fatal(err)
	}
	v, err := policy.New(client, policy.Config{Namespace: "lab-7", Template: "task", Egress: &policy.Egress{Profile: "quiet",
		PerSandbox: &policy.PerSandbox{Engine: policy.Cilium, AdmissionPolicyName: "fence"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	m, err := v.Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.Name() != "task-quiet-egress" || m.Namespace() != "lab-7" || len(m.List("spec", "egress")) != 1 {
		t.Errorf("the object of a zero policy is %s", text(m))
	}
	want := map[string]string{"sandbox.namzu.ai/egress-profile": "quiet", "sandbox.namzu.ai/per-sandbox-egress": "namzu-task-1"}
	if got := v.Labels("namzu-task-1"); !jsonEqual(t, got, want) {
		t.Errorf("the labels are %v, want %v", got, want)
	}
	want["sandbox.namzu.ai/template"], want["app"] = "task", "x"
	if got := v.DirectLabels(map[string]string{"app": "x"}, "namzu-task-1"); !jsonEqual(t, got, want) {
		t.Errorf("the labels of a direct pod are %v, want %v", got, want)
	}
	if got := policy.MissingLabels(want, map[string]string{"app": "y", "sandbox.namzu.ai/template": "task"}); len(got) != 3 {
		t.Errorf("missing are %v, want three", got)
	}
}
