package sim_test

import (
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

// seen collects the masked states of an object for that long.
func (e *env) seen(resource, name string, d time.Duration) []string {
	e.Helper()
	var out []string
	for _, s := range e.states(resource, name, d, func(o object) string { return text(o, "metadata", "resourceVersion") }) {
		if s.object == nil {
			path := map[string]string{"sandboxclaims": rigClaims, "sandboxes": rigSandboxes}[resource]
			s.object = e.get(path + "/" + name).body
		}
		out = append(out, mask(e, s.object))
	}
	return out
}

// expectRecordedStates looks at an object and expects to see each recorded
// state, in order; the recorder may have missed some that are seen here.
func (e *env) expectRecordedStates(resource, name string, d time.Duration, states any) {
	e.Helper()
	expectInOrder(e, e.seen(resource, name, d), states)
}

func expectInOrder(t testing.TB, seen []string, states any) {
	t.Helper()
	next := 0
	for i, s := range states.([]any) {
		want := mask(t, at(s, "object"))
		found := next
		for found < len(seen) && seen[found] != want {
			found++
		}
		if found == len(seen) {
			closest := "nothing more was seen"
			if next < len(seen) {
				closest = firstDifference(seen[next], want)
			}
			t.Errorf("recorded state %d of %d was not seen in %d states; of the next one: %s", i, len(states.([]any)), len(seen), closest)
			return
		}
		next = found
	}
}

// claimOf is a claim as the recorder made it, from what the server answered.
func claimOf(answered any, name string) object {
	spec := at(answered, "spec")
	return object{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
		"metadata": object{"name": name, "namespace": "sandbox-rig"}, "spec": spec}
}

const claimID = "namzu-task-00000000-0000-4000-8000-000000000001"

func TestRecordedRefusals(t *testing.T) {
	envOK := rigTemplate(t, "envok")
	at(envOK, "spec").(object)["envVarsInjectionPolicy"] = "Allowed"
	container := at(envOK, "spec", "podTemplate", "spec", "containers").([]any)[0].(object)
	container["env"] = append(container["env"].([]any), object{"name": "B", "value": "1"})
	owned := rigTemplate(t, "owned")
	at(owned, "spec", "podTemplate", "metadata", "labels").(object)["sandbox.users.io/profile"] = "a"
	for name, c := range recorded(t, "claim-refusals").(object) {
		t.Run(name, func(t *testing.T) {
			cfg := rig(t, 2)
			cfg.Templates = append(cfg.Templates, envOK, owned)
			cfg.Pools = append(cfg.Pools, sim.Pool("envok", "envok", 0), sim.Pool("owned", "owned", 1), sim.Pool("orphan", "notemplate", 0))
			bubble(t, cfg, func(e *env) {
				create := at(c, "create")
				id := text(create, "request", "body", "metadata", "name")
				if name == "sandbox-of-that-name-exists" {
					if err := e.Apply("sandboxes", object{"metadata": object{"name": id},
						"spec": object{"podTemplate": at(rigTemplate(t, ""), "spec", "podTemplate")}}); err != nil {
						t.Fatal(err)
					}
				}
				expectExchange(t, e.replay(create, "Bearer "+e.Token(), "", ""), create)
				e.expectRecordedStates("sandboxclaims", id, time.Second, at(c, "states"))
				if got, want := mask(t, e.Get("sandboxclaims", id)), mask(t, at(c, "settled")); got != want {
					t.Errorf("settled: %s", firstDifference(got, want))
				}
				if want := at(c, "pod"); want != nil {
					bound := text(e.Get("sandboxclaims", id), "status", "sandbox", "name")
					if got := mask(t, e.Get("pods", bound)); got != mask(t, want) {
						t.Errorf("the pod: %s", firstDifference(got, mask(t, want)))
					}
				}
				switch name {
				case "pool-not-found":
					if err := e.Apply("sandboxwarmpools", sim.Pool("nopool", "task", 0)); err != nil {
						t.Fatal(err)
					}
					e.expectRecordedStates("sandboxclaims", id, time.Second, at(c, "thenPoolCreated", "states"))
				case "template-not-found":
					if err := e.Apply("sandboxtemplates", rigTemplate(t, "notemplate")); err != nil {
						t.Fatal(err)
					}
					e.expectRecordedStates("sandboxclaims", id, time.Second, at(c, "thenTemplateCreated", "states"))
				}
			})
		})
	}
}

// TestRecordedPodFailures leaves out what the recorder's stand-in for a kubelet
// did in its own way, see below.
func TestRecordedPodFailures(t *testing.T) {
	for name, c := range recorded(t, "pod-failures").(object) {
		t.Run(name, func(t *testing.T) {
			states := c
			if at(c, "claimStates") != nil {
				states = at(c, "claimStates")
			}
			switch name {
			case "imagepull", "crashloop":
				// There such a pod had no address and the claim started cold. A real
				// node gives it one before it pulls or starts anything, and so its
				// pool hands it out, as here.
				states = []any{}
			}
			pool := map[string]string{"pool-of-0": "p-empty"}[name]
			replicas := 0
			cfg := rig(t, 0)
			if pool == "" {
				pool, replicas = "p-"+name, 1
				template := rigTemplate(t, "t-"+name)
				note := object{"sim/behave": name}
				switch name {
				case "slow-1s":
					note = object{"sim/ready-delay": "1s"}
				case "slow-4s":
					note = object{"sim/ready-delay": "4s"}
				}
				at(template, "spec", "podTemplate", "metadata").(object)["annotations"] = note
				cfg.Templates = append(cfg.Templates, template)
			}
			bubble(t, cfg, func(e *env) {
				// The recorder's claims came in the middle of a second.
				e.sleep(400 * time.Millisecond)
				if err := e.Apply("sandboxwarmpools", sim.Pool(pool, "t-"+name, replicas)); err != nil {
					t.Fatal(err)
				}
				if name == "pool-of-0" {
					e.Patch("sandboxwarmpools", pool, object{"spec": object{"sandboxTemplateRef": object{"name": "task"}}})
				}
				if name == "failed" || name == "succeeded" || name == "notready" || name == "crashloop" || name == "imagepull" {
					e.sleep(time.Second)
				} else {
					e.sleep(100 * time.Millisecond)
				}
				e.post(rigClaims, object{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
					"metadata": object{"name": claimID, "namespace": "sandbox-rig"},
					"spec":     object{"warmPoolRef": object{"name": pool}, "lifecycle": object{"shutdownPolicy": "Delete", "shutdownTime": "2026-11-29T20:38:31.045Z"}}})
				e.expectRecordedStates("sandboxclaims", claimID, 7*time.Second, states)
				bound := text(e.Get("sandboxclaims", claimID), "status", "sandbox", "name")
				if want := at(c, "podStatus"); want != nil {
					got := e.Get("pods", bound)["status"].(object)
					for _, status := range []object{got, want.(object)} {
						forgivePod(name, status)
					}
					if got, want := mask(t, got), mask(t, want); got != want {
						t.Errorf("the pod's status: %s", firstDifference(got, want))
					}
				}
				if want := at(c, "sandbox"); want != nil && name != "imagepull" && name != "crashloop" {
					if got, want := mask(t, e.Get("sandboxes", bound)["status"]), mask(t, at(want, "status")); got != want {
						t.Errorf("the sandbox's status: %s", firstDifference(got, want))
					}
				}
			})
		})
	}
}

// forgivePod takes out of a pod's status what the stand-in did not do as a
// kubelet does: a container that runs has started; a pod that is waiting for an
// image has addresses and a start time and after a second is backing off; one
// whose container crashes is Running and counts restarts; one that ended well is
// not ready because it completed.
func forgivePod(name string, status object) {
	containers, _ := status["containerStatuses"].([]any)
	for _, c := range containers {
		c := c.(object)
		delete(c, "started")
		if name == "crashloop" || name == "imagepull" {
			delete(c, "restartCount")
			delete(c, "lastState")
		}
		if name == "imagepull" {
			delete(c, "state")
		}
	}
	switch name {
	case "crashloop", "imagepull":
		for _, k := range []string{"hostIP", "hostIPs", "podIP", "podIPs", "startTime", "phase"} {
			delete(status, k)
		}
	case "succeeded":
		for _, kind := range []string{"Ready", "ContainersReady"} {
			delete(condition(object{"status": status}, kind), "reason")
		}
	}
}
