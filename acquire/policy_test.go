package acquire_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/policy"
)

// guarded is a template without a policy of its own, whose pods the baseline
// policy of an operator protects.
func guarded(c *sim.Config) {
	template := sim.Template("task")
	spec := template["spec"].(map[string]any)
	spec["networkPolicyManagement"] = "Unmanaged"
	delete(spec, "networkPolicy")
	c.Templates = []map[string]any{template}
}

// baseline lets only hosts reach the agent's port.
func baseline() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": "baseline"},
		"spec": map[string]any{
			"podSelector": map[string]any{"matchLabels": map[string]any{"sandbox.namzu.ai/template": "task"}},
			"policyTypes": []any{"Ingress"},
			"ingress": []any{map[string]any{
				"from":  []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"namzu.ai/component": "host"}}}},
				"ports": []any{map[string]any{"protocol": "TCP", "port": 1024}},
			}},
		},
	}
}

// opening is a policy that lets what it says out of, or into, every pod of the
// template.
func opening(name, direction string, rule map[string]any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"podSelector":              map[string]any{"matchLabels": map[string]any{"sandbox.namzu.ai/template": "task"}},
			"policyTypes":              []any{direction},
			strings.ToLower(direction): []any{rule},
		},
	}
}

// applyEgress puts the policy that the configuration stands for into the
// cluster.
func (w *world) applyEgress() {
	w.t.Helper()
	manifest, err := w.backend.EgressManifest(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(manifest)
}

func (w *world) apply(object map[string]any) {
	w.t.Helper()
	resource := "networkpolicies"
	if object["kind"] == "CiliumNetworkPolicy" {
		resource = "ciliumnetworkpolicies"
	}
	if err := w.sim.Apply(resource, object); err != nil {
		w.t.Fatal(err)
	}
}

func TestPolicies(t *testing.T) {
	egress := &policy.Egress{Policy: policy.DenyAll{}}
	world := map[string]any{"to": []any{map[string]any{"ipBlock": map[string]any{"cidr": "0.0.0.0/0"}}}}
	for name, c := range map[string]struct {
		egress  *policy.Egress
		ingress policy.Ingress
		objects []map[string]any // besides the egress policy
		bare    bool             // without the egress policy
		refusal policy.Refusal   // "" for a sandbox
	}{
		"ingress is verified by default":      {objects: []map[string]any{baseline()}},
		"nothing closes the agent's port":     {refusal: policy.NoCoveringPolicy},
		"nobody asks":                         {ingress: policy.Ingress{InsecureUnverified: true}},
		"something opens the agent's port":    {objects: []map[string]any{baseline(), opening("all", "Ingress", map[string]any{})}, refusal: policy.PortOpen},
		"egress as configured":                {egress: egress, objects: []map[string]any{baseline()}},
		"the egress policy is not applied":    {egress: egress, bare: true, objects: []map[string]any{baseline()}, refusal: policy.NotApplied},
		"another policy opens more":           {egress: egress, objects: []map[string]any{baseline(), opening("world", "Egress", world)}, refusal: policy.PolicyWidensEgress},
		"a policy that selects nobody":        {egress: egress, objects: []map[string]any{baseline(), {"metadata": map[string]any{"name": "else"}, "spec": map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}}, "policyTypes": []any{"Egress"}, "egress": []any{map[string]any{}}}}}},
		"cilium, as configured":               {egress: &policy.Egress{Policy: policy.Static{AllowedHosts: []string{"pkg.example.org"}}, Engine: policy.Cilium}, objects: []map[string]any{baseline()}},
		"cilium, not applied":                 {egress: &policy.Egress{Policy: policy.Static{AllowedHosts: []string{"pkg.example.org"}}, Engine: policy.Cilium}, bare: true, objects: []map[string]any{baseline()}, refusal: policy.NotApplied},
		"a profile, whose label the pod gets": {egress: &policy.Egress{Policy: policy.DenyAll{}, Profile: "closed", ProfileLabelKey: "sandbox.users.io/profile"}, objects: []map[string]any{baseline()}},
	} {
		for _, direct := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "/pool", true: "/direct"}[direct], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, setup{sim: guarded, backend: func(b *acquire.Config) {
						b.Ingress = c.ingress
						if c.egress != nil {
							b.Egress = c.egress
						}
						if direct {
							b.Pool, b.AgentAddress = "", acquire.ByPodIP
						}
					}})
					for _, o := range c.objects {
						w.apply(o)
					}
					if c.egress != nil && !c.bare {
						w.applyEgress()
					}
					w.sim.ResetRequests()
					sb, err := w.backend.Create(t.Context(), acquire.Options{})
					if c.refusal == "" {
						if err != nil {
							t.Fatal(err)
						}
						r := sb.Report().Policies
						if verified := len(r.Ingress)+len(r.Egress) > 0; verified == c.ingress.InsecureUnverified {
							t.Errorf("report: %+v", r)
						}
						sb.Release(t.Context())
						w.nothingLeft()
						return
					}
					if err == nil {
						sb.Release(t.Context())
						t.Fatalf("got a sandbox, want it refused: %s", c.refusal)
					}
					refused, ok := errors.AsType[*policy.Error](err)
					if e := asError(t, err); !ok || refused.Refusal != c.refusal || e.Reason != acquire.ReasonPolicy || e.Stage != acquire.StageVerify || e.Retryable {
						t.Errorf("got %v, want %s", err, c.refusal)
					}
					if w.guest != 0 {
						t.Error("the guest was dialled before its policies were judged")
					}
					if posted := slices.Contains(w.log(), "create sandboxes"); direct && posted {
						t.Error("a Sandbox was created whose policies are refused by the labels that it would have")
					}
					w.nothingLeft()
				})
			})
		}
	}
}

// The policies are listed once for many creates, while the claim binds, and not
// at all for those after a pass.
func TestPolicyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{sim: guarded, backend: func(b *acquire.Config) {
			b.Egress, b.Ingress = &policy.Egress{Policy: policy.DenyAll{}}, policy.Ingress{}
		}})
		w.apply(baseline())
		w.applyEgress()
		count := func() (lists int) {
			for _, line := range w.log() {
				if line == "list networkpolicies" {
					lists++
				}
			}
			return lists
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				sb, err := w.backend.Create(t.Context(), acquire.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				sb.Release(t.Context())
			})
		}
		wg.Wait()
		if n := count(); n != 1 {
			t.Errorf("8 creates at once listed the policies %d times, want once for ingress and egress together", n)
		}
		time.Sleep(time.Minute)
		w.sim.ResetRequests()
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r := sb.Report(); !r.Policies.Remembered || r.Requests > 5 || count() != 0 {
			t.Errorf("a create after a pass: %q, %+v", w.log(), r.Policies)
		}
		sb.Release(t.Context())

		// What is added later is noticed when the pass has expired.
		w.apply(opening("world", "Egress", map[string]any{}))
		time.Sleep(5 * time.Minute)
		_, err = w.backend.Create(t.Context(), acquire.Options{})
		if refused, ok := errors.AsType[*policy.Error](err); !ok || refused.Refusal != policy.PolicyWidensEgress {
			t.Errorf("five minutes after the namespace was opened: %v", err)
		}
		// And a refusal is not remembered.
		if err := w.sim.Delete("networkpolicies", "world"); err != nil {
			t.Fatal(err)
		}
		sb, err = w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Errorf("after the policy was taken away: %v", err)
		} else {
			sb.Release(t.Context())
		}
		w.nothingLeft()
	})
}

// One caller who gives up does not take down those who share its reading.
func TestPolicyReadingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Bool
		w := newWorld(t, setup{
			sim: func(c *sim.Config) {
				guarded(c)
				c.Fault = func(r *sim.Request) *sim.Fault {
					if r.Verb == "list" && r.Resource == "networkpolicies" && held.CompareAndSwap(false, true) {
						return &sim.Fault{Delay: 2 * time.Second}
					}
					return nil
				}
			},
			backend: func(b *acquire.Config) { b.Ingress = policy.Ingress{} },
		})
		w.apply(baseline())
		cause := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.backend.Create(ctx, acquire.Options{}); err != cause {
				t.Errorf("the one who gave up: got %v, want its cause", err)
			}
		})
		time.Sleep(100 * time.Millisecond)
		wg.Go(func() {
			sb, err := w.backend.Create(t.Context(), acquire.Options{})
			if err != nil {
				t.Errorf("the other: %v", err)
				return
			}
			sb.Release(t.Context())
		})
		wg.Wait()
		w.nothingLeft()
	})
}

// A list that cannot be read, or not whole, refuses.
func TestPolicyListFails(t *testing.T) {
	for name, c := range map[string]struct {
		fault  func(*sim.Request) *sim.Fault
		reason acquire.Reason
		says   string
	}{
		"403":         {faults["403"], acquire.ReasonPolicy, "rant list on networkpolicies"},
		"404 plain":   {faults["404 plain"], acquire.ReasonPolicy, "networkpolicies"},
		"503":         {faults["503"], acquire.ReasonAPIUnreachable, "503"},
		"half a body": {faults["half a body"], acquire.ReasonAPIUnreachable, ""},
		"HTML":        {faults["HTML"], acquire.ReasonProtocol, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, setup{
					sim: func(s *sim.Config) {
						guarded(s)
						s.Fault = func(r *sim.Request) *sim.Fault {
							if r.Verb == "list" && r.Resource == "networkpolicies" {
								return c.fault(r)
							}
							return nil
						}
					},
					backend: func(b *acquire.Config) { b.Ingress = policy.Ingress{} },
				})
				w.apply(baseline())
				_, err := w.backend.Create(t.Context(), acquire.Options{})
				if e := asError(t, err); e.Reason != c.reason || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %s", err, c.reason)
				}
				w.nothingLeft()
			})
		})
	}
}

// The policy of one sandbox is written when it is asked for, and not before.
func TestSetNetworkPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{sim: guarded})
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := sb.SetNetworkPolicy(t.Context(), []string{"a.example.org"}); err == nil || !strings.Contains(err.Error(), "PerSandbox") {
			t.Errorf("without a configuration: %v", err)
		}
		sb.Release(t.Context())
		if _, err := acquire.New(w.client, acquire.Config{
			Template: "task", Pool: "pool",
			PodLabels: map[string]string{"sandbox.users.io/p": "x"},
			Egress:    &policy.Egress{Policy: policy.DenyAll{}, Profile: "p", ProfileLabelKey: "sandbox.users.io/p"},
		}); err == nil || !strings.Contains(err.Error(), "sandbox.users.io/p") {
			t.Errorf("a label of the configuration and of the profile: %v", err)
		}
		if _, err := acquire.New(w.client, acquire.Config{Template: "task", Egress: &policy.Egress{Policy: policy.Static{AllowedHosts: []string{"a.example.org"}}}}); err == nil {
			t.Error("hosts are accepted for an engine that knows no names")
		}
	})
}
