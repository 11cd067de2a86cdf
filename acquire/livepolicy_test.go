package acquire_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// put creates an object with the administrator's token, and deletes it when the
// test ends.
func put(t *testing.T, admin *k8s.Client, r k8s.Resource, o k8s.Object) {
	t.Helper()
	if _, err := admin.Create(t.Context(), r, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := admin.Delete(ctx, r, o.Name(), k8s.DeleteOptions{}); err != nil && !k8s.IsNotFound(err) {
			t.Error(err)
		}
	})
}

func resourceOf(o k8s.Object) k8s.Resource {
	if o.Text("kind") == k8s.CiliumNetworkPolicies.Kind {
		return k8s.CiliumNetworkPolicies
	}
	return k8s.NetworkPolicies
}

// livePolicyTemplate makes a template whose pods have no policy of their own but
// the rig's, which lets hosts in.
func livePolicyTemplate(t *testing.T, name string) {
	liveTemplate(t, name, func(spec k8s.Object) {
		spec["networkPolicyManagement"] = "Unmanaged"
		delete(spec, "networkPolicy")
		spec.Map("podTemplate", "metadata")["labels"] = map[string]any{"sandbox.namzu.ai/template": name}
	})
}

// widening is a policy for the pods of a template that lets everything out.
func widening(template, engine string) k8s.Object {
	if engine == string(policy.Cilium) {
		return k8s.Object{
			"apiVersion": k8s.CiliumNetworkPolicies.APIVersion(), "kind": k8s.CiliumNetworkPolicies.Kind,
			"metadata": map[string]any{"name": template + "-wide"},
			"spec": map[string]any{
				"endpointSelector": map[string]any{"matchLabels": map[string]any{"sandbox.namzu.ai/template": template}},
				"egress":           []any{map[string]any{"toEntities": []any{"all"}}},
			},
		}
	}
	return k8s.Object{
		"apiVersion": k8s.NetworkPolicies.APIVersion(), "kind": k8s.NetworkPolicies.Kind,
		"metadata": map[string]any{"name": template + "-wide"},
		"spec": map[string]any{
			"podSelector": map[string]any{"matchLabels": map[string]any{"sandbox.namzu.ai/template": template}},
			"policyTypes": []any{"Egress"},
			"egress":      []any{map[string]any{}},
		},
	}
}

// drifted is a policy with one more rule than it should have.
func drifted(manifest k8s.Object) k8s.Object {
	o := manifest.Clone()
	rule := map[string]any{"to": []any{map[string]any{"ipBlock": map[string]any{"cidr": "192.0.2.0/24"}}}}
	if resourceOf(o) == k8s.CiliumNetworkPolicies {
		rule = map[string]any{"toCIDR": []any{"192.0.2.0/24"}}
	}
	spec := o.Map("spec")
	rules, _ := spec["egress"].([]any)
	spec["egress"] = append(slices.Clone(rules), rule)
	return o
}

// Each kind of policy against what fits it, is missing, has drifted or is
// widened by another one, on a real API server.
func TestLivePolicies(t *testing.T) {
	for name, egress := range map[string]*policy.Egress{
		"deny-all":        {Policy: policy.DenyAll{}},
		"allow-all":       {Policy: policy.AllowAll{}},
		"static":          {Policy: policy.Static{AllowedHosts: []string{"pkg.example.org"}}, Engine: policy.Cilium},
		"resolver":        {Policy: policy.Resolver{Resolve: func(context.Context) ([]string, error) { return []string{"pkg.example.org"}, nil }}, Engine: policy.Cilium},
		"no-network":      {Policy: policy.NoNetwork{}},
		"public-internet": {Policy: policy.PublicInternet{}},
	} {
		t.Run(name, func(t *testing.T) {
			admin, client := liveClient(t, "RIG_ADMIN_TOKEN_FILE"), liveClient(t, "RIG_TOKEN_FILE")
			template := "live-" + name
			livePolicyTemplate(t, template)
			create := func(t *testing.T, want policy.Refusal) {
				t.Helper()
				backend := liveBackend(t, func(c *acquire.Config) { c.Template, c.Pool, c.Egress = template, template, egress })
				sb, err := backend.Create(t.Context(), acquire.Options{})
				if want == "" {
					if err != nil {
						t.Fatal(err)
					}
					if len(sb.Report().Policies.Egress) == 0 {
						t.Errorf("report: %+v", sb.Report().Policies)
					}
					if err := sb.Release(t.Context()); err != nil {
						t.Error(err)
					}
					goneFrom(t, client, k8s.SandboxClaims, sb.Report().Object)
					return
				}
				if err == nil {
					sb.Release(t.Context())
					t.Fatalf("got a sandbox, want it refused: %s", want)
				}
				e := asError(t, err)
				if refused, ok := errors.AsType[*policy.Error](err); !ok || refused.Refusal != want || e.Cleanup != nil {
					t.Errorf("got %v, want %s", err, want)
				}
				goneFrom(t, client, k8s.SandboxClaims, e.Object)
			}
			manifest, err := liveBackend(t, func(c *acquire.Config) { c.Template, c.Pool, c.Egress = template, template, egress }).EgressManifest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Run("missing", func(t *testing.T) { create(t, policy.NotApplied) })
			t.Run("fits", func(t *testing.T) {
				put(t, admin, resourceOf(manifest), manifest)
				create(t, "")
			})
			t.Run("drifted", func(t *testing.T) {
				put(t, admin, resourceOf(manifest), drifted(manifest))
				create(t, policy.Mismatch)
			})
			t.Run("widened", func(t *testing.T) {
				put(t, admin, resourceOf(manifest), manifest)
				wide := widening(template, string(egress.Engine))
				put(t, admin, resourceOf(wide), wide)
				want := policy.PolicyWidensEgress
				if name == "allow-all" {
					want = "" // there is nothing more to let out
				}
				create(t, want)
			})
		})
	}
}

// What is added later is noticed when the pass has expired.
func TestLivePolicyAddedLater(t *testing.T) {
	admin := liveClient(t, "RIG_ADMIN_TOKEN_FILE")
	const template = "live-later"
	livePolicyTemplate(t, template)
	backend := liveBackend(t, func(c *acquire.Config) {
		c.Template, c.Pool, c.PolicyMaxAge = template, template, 3*time.Second
		c.Egress = &policy.Egress{Policy: policy.DenyAll{}}
	})
	manifest, err := backend.EgressManifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(t, admin, resourceOf(manifest), manifest)
	sb, err := backend.Create(t.Context(), acquire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Release(t.Context())
	wide := widening(template, "")
	put(t, admin, resourceOf(wide), wide)
	timer := time.NewTimer(12 * time.Second) // the pass, and the lists behind it
	<-timer.C
	_, err = backend.Create(t.Context(), acquire.Options{})
	if refused, ok := errors.AsType[*policy.Error](err); !ok || refused.Refusal != policy.PolicyWidensEgress {
		t.Errorf("after the pass has expired: %v", err)
	}
}

// Two lists at once for one sandbox: the last one is in force, behind a real
// admission fence.
func TestLiveSetNetworkPolicy(t *testing.T) {
	admin := liveClient(t, "RIG_ADMIN_TOKEN_FILE")
	allowLabels(t, admin, "sandbox.users.io,sandbox.namzu.ai")
	fence := liveFence(t, admin)
	const template = "live-own"
	livePolicyTemplate(t, template)
	backend := liveBackend(t, func(c *acquire.Config) {
		c.Template, c.Pool = template, template
		c.Egress = &policy.Egress{Policy: policy.DenyAll{}, PerSandbox: &policy.PerSandbox{Engine: policy.Cilium, AdmissionPolicyName: fence}}
	})
	manifest, err := backend.EgressManifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(t, admin, resourceOf(manifest), manifest)
	sb, err := backend.Create(t.Context(), acquire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Release(t.Context())
	if err := sb.SetNetworkPolicy(t.Context(), []string{"first.example.org"}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	started := make(chan struct{})
	wg.Go(func() {
		close(started)
		if err := sb.SetNetworkPolicy(t.Context(), []string{"second.example.org"}); err != nil {
			t.Error(err)
		}
	})
	<-started
	timer := time.NewTimer(5 * time.Millisecond) // so that it is certainly the later one
	<-timer.C
	wg.Go(func() {
		if err := sb.SetNetworkPolicy(t.Context(), []string{"third.example.org"}); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	stored, err := admin.Get(t.Context(), k8s.CiliumNetworkPolicies, policy.PerSandboxNamePrefix+sb.Report().ObjectUID)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(stored.Map("spec"))
	if !strings.Contains(string(text), "third.example.org") || strings.Contains(string(text), "second.example.org") {
		t.Errorf("in force is %s, want the last list", text)
	}
	if err := sb.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	goneFrom(t, admin, k8s.CiliumNetworkPolicies, stored.Name())
}

// allowLabels sets the label domains that the controller takes.
func allowLabels(t *testing.T, admin *k8s.Client, domains string) {
	t.Helper()
	system, err := admin.In("agent-sandbox-system")
	if err != nil {
		t.Fatal(err)
	}
	config := k8s.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	before, err := system.Get(t.Context(), config, "agent-sandbox-config")
	if err != nil {
		t.Fatal(err)
	}
	set := func(ctx context.Context, domains string) error {
		_, err := system.MergePatch(ctx, config, "agent-sandbox-config", k8s.Object{"data": map[string]any{"allowed-label-domains": domains}})
		return err
	}
	if err := set(t.Context(), domains); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := set(ctx, before.Text("data", "allowed-label-domains")); err != nil {
			t.Error(err)
		}
	})
}

// liveFence applies the admission fence of deploy/ and returns its name.
func liveFence(t *testing.T, admin *k8s.Client) string {
	t.Helper()
	data, err := os.ReadFile("../deploy/fence.json")
	if err != nil {
		t.Fatal(err)
	}
	// What an operator fills in: who the host is, and where its sandboxes are.
	text := strings.ReplaceAll(string(data), "namzu-sandboxes:namzu-sandbox-host", admin.Namespace()+":sandbox-host")
	list, err := k8s.ParseObject([]byte(strings.ReplaceAll(text, "namzu-sandboxes", admin.Namespace())))
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, v := range list.List("items") {
		entry, _ := v.(map[string]any)
		o := k8s.Object(entry)
		switch o.Text("kind") {
		case k8s.ValidatingAdmissionPolicies.Kind:
			name = o.Name()
			put(t, admin, k8s.ValidatingAdmissionPolicies, o)
		case k8s.ValidatingAdmissionPolicyBindings.Kind:
			put(t, admin, k8s.ValidatingAdmissionPolicyBindings, o)
		}
	}
	if name == "" {
		t.Fatal("deploy/fence.json has no ValidatingAdmissionPolicy")
	}
	awaitFence(t, admin)
	return name
}

// awaitFence waits until the API server refuses what the fence is there to
// refuse: a policy of the host's that is no sandbox's own.
func awaitFence(t *testing.T, admin *k8s.Client) {
	t.Helper()
	host := liveClient(t, "RIG_TOKEN_FILE")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 400 {
		_, err := host.Create(t.Context(), k8s.CiliumNetworkPolicies, widening("anybody", string(policy.Cilium)))
		if k8s.KindOf(err) == k8s.Forbidden && strings.Contains(err.Error(), "rule 1") {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Delete(t.Context(), k8s.CiliumNetworkPolicies, "anybody-wide", k8s.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
	t.Fatal("the fence lets the host write any policy")
}

// BenchmarkLivePolicies compares a warm create whose pass is remembered with one
// that verifies nothing, one after the other in turns: medians in ms, and the
// mean numbers of requests.
func BenchmarkLivePolicies(b *testing.B) {
	const rounds = 30
	client := liveClient(b, "RIG_TOKEN_FILE")
	verified := liveBackend(b, nil)
	plain := liveBackend(b, func(c *acquire.Config) { c.Ingress = policy.Ingress{InsecureUnverified: true} })
	if sb, err := verified.Create(b.Context(), acquire.Options{}); err != nil { // the pass to be remembered
		b.Fatal(err)
	} else if err := sb.Release(b.Context()); err != nil {
		b.Fatal(err)
	}
	for range b.N {
		var took [2][]float64
		var requests [2]int
		for range rounds {
			for i, backend := range []*acquire.Backend{verified, plain} {
				waitForPool(b, client)
				sb, err := backend.Create(b.Context(), acquire.Options{})
				if err != nil {
					b.Fatal(err)
				}
				took[i] = append(took[i], sb.Report().Total().Seconds()*1e3)
				requests[i] += sb.Report().Requests
				if err := sb.Release(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(median(took[0]), "verified-ms")
		b.ReportMetric(median(took[1]), "unverified-ms")
		b.ReportMetric(float64(requests[0])/rounds, "verified-requests")
		b.ReportMetric(float64(requests[1])/rounds, "unverified-requests")
	}
}
