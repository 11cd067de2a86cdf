package sim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

func due(d time.Duration, policy string) object {
	return object{"lifecycle": object{"shutdownTime": time.Now().Add(d).UTC().Format("2006-01-02T15:04:05.000Z"), "shutdownPolicy": policy}}
}

func TestExpiryIsExact(t *testing.T) {
	for _, tt := range []struct {
		name, pool, policy string
		due                time.Duration
		want               []string
	}{
		{"to the whole second before the stamp, since the bind cuts it", "pool", "Delete", 3837 * time.Millisecond,
			[]string{"0s -", "30ms True DependenciesReady", "3s False ClaimExpired", "3.01s gone"}},
		{"a cold claim's stamp keeps its fraction", "empty", "Delete", 3835 * time.Millisecond,
			[]string{"0s -", "30ms False SandboxNotReady", "40ms False DependenciesNotReady", "70ms True DependenciesReady", "3.835s False ClaimExpired", "3.845s gone"}},
		{"in the past", "pool", "Delete", -time.Second, []string{"0s -", "30ms False ClaimExpired", "40ms gone"}},
		{"in the foreground", "pool", "DeleteForeground", 2 * time.Second, []string{"0s -", "30ms True DependenciesReady", "2s False ClaimExpired", "2.07s gone"}},
		{"kept", "pool", "Retain", 2 * time.Second, []string{"0s -", "30ms True DependenciesReady", "2s False ClaimExpired"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, sim.Config{Pools: []map[string]any{sim.Pool("pool", "task", 1), sim.Pool("empty", "task", 0)}}, func(e *env) {
				e.claim("c", tt.pool, due(tt.due, tt.policy))
				expectStates(t, e.states("sandboxclaims", "c", 5*time.Second, ready), tt.want...)
				if got := len(e.List("pods")); got != 1 {
					t.Errorf("%d pods are left, want the pool's one", got)
				}
			})
		})
	}
}

func TestRenewal(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.claim("c", "pool", due(3*time.Second, "Delete"))
		e.sleep(2 * time.Second)
		r := e.merge(claimsPath+"/c", encode(object{"spec": due(5*time.Second, "Delete")}))
		if r.code != 200 || at(r.body, "metadata", "generation") != 3.0 || at(condition(r.body, "Ready"), "observedGeneration") != 2.0 {
			t.Errorf("renewal: %d %s, want generation 3, observed 2", r.code, r.raw)
		}
		again := e.merge(claimsPath+"/c", encode(object{"spec": due(5*time.Second, "Delete")}))
		if text(again.body, "metadata", "resourceVersion") != text(r.body, "metadata", "resourceVersion") {
			t.Error("the same value twice was a write")
		}
		expectStates(t, e.states("sandboxclaims", "c", 6*time.Second, func(o object) string {
			return fmt.Sprint(ready(o), " ", at(condition(o, "Ready"), "observedGeneration"))
		}), "0s True DependenciesReady 2", "10ms True DependenciesReady 3", "5s False ClaimExpired 3", "5.01s gone")
	})
}

func TestRenewalOfAnExpiredClaimThatIsKept(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.claim("c", "pool", due(time.Second, "Retain"))
		e.sleep(500 * time.Millisecond)
		first := text(e.Get("sandboxclaims", "c"), "status", "sandbox", "name")
		e.sleep(time.Second)
		if got := encode(at(e.Get("sandboxclaims", "c"), "status", "sandbox")); got != "{}" {
			t.Errorf("status.sandbox of the expired claim: %s, want {}", got)
		}
		e.merge(claimsPath+"/c", encode(object{"spec": due(time.Hour, "Retain")}))
		e.sleep(time.Second)
		claim := e.Get("sandboxclaims", "c")
		if got := text(claim, "status", "sandbox", "name"); ready(claim) != "True DependenciesReady" || got == first || got == "" {
			t.Errorf("%s %q, want Ready with another sandbox than %q", ready(claim), got, first)
		}
	})
}

// TestDeletionReachesThePod: what is owned goes after its owner, and in the
// foreground before it.
func TestDeletionReachesThePod(t *testing.T) {
	for _, tt := range []struct {
		query                    string
		kind                     string
		claim, sandbox, pod, svc time.Duration
	}{
		{"", "Status", 0, 10 * time.Millisecond, 2020 * time.Millisecond, 20 * time.Millisecond},
		{"?propagationPolicy=Background", "Status", 0, 10 * time.Millisecond, 2020 * time.Millisecond, 20 * time.Millisecond},
		{"?propagationPolicy=Foreground", "SandboxClaim", 2040 * time.Millisecond, 2030 * time.Millisecond, 2020 * time.Millisecond, 20 * time.Millisecond},
	} {
		t.Run(tt.query, func(t *testing.T) {
			bubble(t, sim.Config{PodDelete: 2 * time.Second}, func(e *env) {
				e.claim("c", "pool", nil)
				e.sleep(time.Second)
				bound := text(e.Get("sandboxclaims", "c"), "status", "sandbox", "name")
				begin := time.Now()
				r := e.deleted(claimsPath + "/c" + tt.query)
				if r.code != 200 || r.body["kind"] != tt.kind {
					t.Errorf("%d %s, want 200 with kind %s", r.code, r.raw, tt.kind)
				}
				gone := make(map[string]time.Duration)
				for time.Since(begin) < 3*time.Second {
					synctest.Wait()
					for resource, name := range map[string]string{"sandboxclaims": "c", "sandboxes": bound, "pods": bound, "services": bound} {
						if _, ok := gone[resource]; !ok && e.Get(resource, name) == nil {
							gone[resource] = time.Since(begin)
						}
					}
					e.sleep(time.Millisecond)
				}
				want := map[string]time.Duration{"sandboxclaims": tt.claim, "sandboxes": tt.sandbox, "pods": tt.pod, "services": tt.svc}
				if fmt.Sprint(gone) != fmt.Sprint(want) {
					t.Errorf("gone after %v, want %v", gone, want)
				}
			})
		})
	}
}

func TestOrphaningLeavesTheSandbox(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.claim("c", "pool", nil)
		e.sleep(time.Second)
		bound := text(e.Get("sandboxclaims", "c"), "status", "sandbox", "name")
		e.deleted(claimsPath + "/c?propagationPolicy=Orphan")
		e.sleep(time.Second)
		sb := e.Get("sandboxes", bound)
		if e.Get("sandboxclaims", "c") != nil || sb == nil || at(sb, "metadata", "ownerReferences") != nil || e.Get("pods", bound) == nil {
			t.Errorf("claim %v, sandbox %s", e.Get("sandboxclaims", "c"), encode(sb))
		}
	})
}

func TestFinalizersHoldAnObject(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.claim("c", "pool", nil)
		e.merge(claimsPath+"/c", `{"metadata":{"finalizers":["example.com/mine"]}}`)
		r := e.deleted(claimsPath + "/c")
		if r.body["kind"] != "SandboxClaim" || text(r.body, "metadata", "deletionTimestamp") == "" {
			t.Errorf("%s, want the object with a deletionTimestamp", r.raw)
		}
		if again := e.deleted(claimsPath + "/c"); again.code != 200 || text(again.body, "metadata", "resourceVersion") != text(r.body, "metadata", "resourceVersion") {
			t.Errorf("again: %d %s", again.code, again.raw)
		}
		e.sleep(time.Minute)
		if ready(e.Get("sandboxclaims", "c")) != "-" {
			t.Error("the controller worked on a claim that is being deleted")
		}
		e.merge(claimsPath+"/c", `{"metadata":{"finalizers":null}}`)
		if e.Get("sandboxclaims", "c") != nil {
			t.Error("the claim outlives its last finalizer")
		}
	})
}

func TestBurst(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		for i := range 8 {
			e.claim(fmt.Sprint("c", i), "pool", nil)
		}
		e.sleep(time.Second)
		warm, names := 0, make(map[string]bool)
		for i := range 8 {
			claim := e.Get("sandboxclaims", fmt.Sprint("c", i))
			if ready(claim) != "True DependenciesReady" {
				t.Errorf("claim %d: %s", i, ready(claim))
			}
			bound := text(claim, "status", "sandbox", "name")
			names[bound] = true
			if text(e.Get("sandboxes", bound), "metadata", "labels", "agents.x-k8s.io/launch-type") == "warm" {
				warm++
			}
		}
		if warm != 3 || len(names) != 8 {
			t.Errorf("%d warm and %d different sandboxes, want 3 and 8", warm, len(names))
		}
	})
}

func TestPause(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.Pause()
		e.claim("c", "pool", nil)
		e.sleep(time.Hour)
		if claim := e.Get("sandboxclaims", "c"); ready(claim) != "-" || at(claim, "metadata", "annotations") != nil {
			t.Errorf("without a controller: %s", encode(claim))
		}
		e.Resume()
		expectStates(t, e.states("sandboxclaims", "c", 100*time.Millisecond, ready), "0s True DependenciesReady")
	})
}

func TestPoolIsScaled(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		for _, n := range []int{5, 1, 0} {
			if err := e.Patch("sandboxwarmpools", "pool", object{"spec": object{"replicas": n}}); err != nil {
				t.Fatal(err)
			}
			if err := e.WaitReady(e.Context()); err != nil {
				t.Fatal(err)
			}
			e.sleep(time.Second)
			if got := len(e.List("pods")); got != n {
				t.Errorf("%d pods, want %d", got, n)
			}
		}
		e.Delete("sandboxtemplates", "task")
		e.sleep(time.Second)
		if e.Get("networkpolicies", "task-network-policy") != nil {
			t.Error("the template's policy outlives it")
		}
	})
}

func TestClaimsFQDN(t *testing.T) {
	bubble(t, sim.Config{ServiceFQDN: true}, func(e *env) {
		e.claim("c", "pool", nil)
		e.sleep(time.Second)
		claim := e.Get("sandboxclaims", "c")
		bound := text(claim, "status", "sandbox", "name")
		if got := text(claim, "status", "sandbox", "serviceFQDN"); got != bound+".sandbox-sim.svc.cluster.local" {
			t.Errorf("serviceFQDN = %q", got)
		}
	})
}

// TestTemplatePolicy: the controller keeps a template's policy as the template
// says, until that says that it is nobody's business.
func TestTemplatePolicy(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		patch := func(spec object) {
			t.Helper()
			if err := e.Patch("sandboxtemplates", "task", object{"spec": spec}); err != nil {
				t.Fatal(err)
			}
			e.sleep(time.Second)
		}
		policy := func() object { return e.Get("networkpolicies", "task-network-policy") }
		if got := encode(at(policy(), "spec", "policyTypes")); got != `["Ingress","Egress"]` || at(policy(), "spec", "egress") == nil {
			t.Errorf("at first: %s", encode(policy()))
		}
		patch(object{"networkPolicy": object{"egress": nil}})
		if at(policy(), "spec", "egress") != nil || at(policy(), "metadata", "generation") != int64(2) {
			t.Errorf("without egress rules: %s", encode(policy()))
		}
		e.Delete("networkpolicies", "task-network-policy")
		e.sleep(time.Second)
		if policy() == nil {
			t.Error("a deleted policy did not come back")
		}
		patch(object{"networkPolicyManagement": "Unmanaged"})
		if policy() != nil {
			t.Errorf("unmanaged: %s", encode(policy()))
		}
	})
}
