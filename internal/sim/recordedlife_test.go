package sim_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

// postDue creates a claim that ends that long from now.
func (e *env) postDue(due time.Duration, policy string) {
	e.Helper()
	e.post(rigClaims, rigClaim(claimID, object{"shutdownTime": time.Now().Add(due).UTC().Format("2006-01-02T15:04:05.000Z"), "shutdownPolicy": policy}))
}

func TestRecordedExpiry(t *testing.T) {
	life := recorded(t, "lifecycle")
	for _, tt := range []struct {
		name, policy string
		due, look    time.Duration
		states       any
	}{
		{"born expired", "Delete", -time.Minute, 200 * time.Millisecond, at(life, "bornExpiredDelete", "states")},
		{"Delete", "Delete", 2995 * time.Millisecond, 4 * time.Second, at(life, "dueIn3sDelete", "states")},
		{"Retain", "Retain", 2 * time.Second, 4 * time.Second, at(life, "retain", "states")},
		{"DeleteForeground", "DeleteForeground", 2 * time.Second, 4 * time.Second, at(life, "deleteForegroundExpiry")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, rig(t, 2), func(e *env) {
				e.sleep(453 * time.Millisecond)
				e.postDue(tt.due, tt.policy)
				e.expectRecordedStates("sandboxclaims", claimID, tt.look, tt.states)
				if tt.name != "Retain" {
					return
				}
				if got, want := mask(t, e.Get("sandboxclaims", claimID)), mask(t, at(life, "retain", "settled")); got != want {
					t.Errorf("settled: %s", firstDifference(got, want))
				}
				e.merge(rigClaims+"/"+claimID, `{"spec":{"lifecycle":{"shutdownTime":"2040-01-01T00:00:00.5Z"}}}`)
				e.sleep(time.Second)
				if got, want := mask(t, e.Get("sandboxclaims", claimID)), mask(t, at(life, "retainThenExtended")); got != want {
					t.Errorf("extended after its end: %s", firstDifference(got, want))
				}
			})
		})
	}
}

func TestRecordedDeletions(t *testing.T) {
	life := recorded(t, "lifecycle")
	t.Run("patched into the past", func(t *testing.T) {
		bubble(t, rig(t, 2), func(e *env) {
			e.postDue(time.Hour+time.Millisecond, "Delete")
			e.sleep(32 * time.Millisecond)
			e.merge(rigClaims+"/"+claimID, `{"spec":{"lifecycle":{"shutdownTime":"1999-12-31T23:59:59.166Z"}}}`)
			e.expectRecordedStates("sandboxclaims", claimID, 300*time.Millisecond, at(life, "patchedIntoThePast"))
			expectExchange(t, e.merge(rigClaims+"/"+claimID, `{"spec":{}}`), at(life, "patchGone"))
		})
	})
	t.Run("foreground", func(t *testing.T) {
		bubble(t, rig(t, 2), func(e *env) {
			e.postDue(time.Hour+time.Millisecond, "Delete")
			e.sleep(32 * time.Millisecond)
			exchange := at(life, "deleteForeground", "delete")
			expectExchange(t, e.deleted(rigClaims+"/"+claimID+"?propagationPolicy=Foreground"), exchange)
			exchange = at(life, "deleteForeground", "patchWhileDeleting")
			expectExchange(t, e.merge(rigClaims+"/"+claimID, `{"spec":{"lifecycle":{"shutdownTime":"2040-01-01T00:00:00.356Z"}}}`), exchange)
			e.expectRecordedStates("sandboxclaims", claimID, 300*time.Millisecond, at(life, "deleteForeground", "states"))
		})
	})
	t.Run("wrong uid, then orphaning", func(t *testing.T) {
		bubble(t, rig(t, 2), func(e *env) {
			e.postDue(time.Hour+time.Millisecond, "Delete")
			e.sleep(6 * time.Millisecond)
			options := `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"00000000-0000-4000-8000-000000000016"}}`
			expectExchange(t, e.do("DELETE", rigClaims+"/"+claimID, "application/json", options), at(life, "deleteWrongUid"))
			expectExchange(t, e.do("DELETE", rigClaims+"/"+claimID, "application/json", `{"propagationPolicy":"Orphan"}`), at(life, "deleteOrphan"))
			e.sleep(time.Second)
			if e.Get("sandboxclaims", claimID) != nil {
				t.Error("the claim is still there")
			}
		})
	})
}

func TestRecordedSandboxExpiry(t *testing.T) {
	for _, policy := range []string{"Delete", "Retain"} {
		t.Run(policy, func(t *testing.T) {
			want := recorded(t, "lifecycle", "sandboxExpiry"+policy)
			bubble(t, rig(t, 2), func(e *env) {
				e.post(rigSandboxes, object{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": object{"name": claimID, "namespace": "sandbox-rig"},
					"spec": object{"operatingMode": "Running", "service": true, "shutdownPolicy": policy,
						"shutdownTime": time.Now().Add(2005 * time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z"),
						"podTemplate":  at(rigTemplate(t, ""), "spec", "podTemplate")}})
				e.expectRecordedStates("sandboxes", claimID, 3*time.Second, at(want, "states"))
				if got := e.get(rigSandboxes + "/" + claimID).body; mask(t, got) != mask(t, at(want, "settled")) {
					t.Errorf("settled: %s", firstDifference(mask(t, got), mask(t, at(want, "settled"))))
				}
			})
		})
	}
}

// TestRecordedUnderAClaim is what a bound claim shows of what befalls its
// sandbox.
func TestRecordedUnderAClaim(t *testing.T) {
	under, more := recorded(t, "under-a-claim").(object), recorded(t, "more2").(object)
	suspend := func(e *env, bound, mode string) {
		e.Patch("sandboxes", bound, object{"spec": object{"operatingMode": mode}})
	}
	for _, tt := range []struct {
		name   string
		event  func(e *env, bound string)
		states any
	}{
		{"pod deleted", func(e *env, bound string) { e.Delete("pods", bound) }, at(under, "podDeleted", "states")},
		{"sandbox deleted", func(e *env, bound string) { e.Delete("sandboxes", bound) }, at(under, "sandboxDeleted", "states")},
		{"sandbox suspended", func(e *env, bound string) { suspend(e, bound, "Suspended") }, at(under, "sandboxSuspended", "states")},
		{"sandbox resumed", func(e *env, bound string) {
			suspend(e, bound, "Suspended")
			e.sleep(time.Second)
			suspend(e, bound, "Running")
		}, at(under, "sandboxSuspended", "resumed")},
		{"pod failed", func(e *env, bound string) {
			e.Patch("pods", bound, object{"metadata": object{"annotations": object{"sim/behave": "failed"}}})
		}, under["podFailed"]},
		{"readiness lost", func(e *env, bound string) {
			e.Patch("pods", bound, object{"metadata": object{"annotations": object{"sim/behave": "notready"}}})
		}, under["readinessLost"]},
		{"its sandbox expired and is kept", func(e *env, bound string) {
			e.Patch("sandboxes", bound, object{"spec": object{"shutdownTime": "1999-01-01T00:00:00Z"}})
		}, more["boundSandboxExpiredRetain"]},
		{"its sandbox expired and goes", func(e *env, bound string) {
			e.Patch("sandboxes", bound, object{"spec": object{"shutdownTime": "1999-01-01T00:00:00Z", "shutdownPolicy": "Delete"}})
		}, at(more, "boundSandboxExpiredDelete", "states")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, rig(t, 2), func(e *env) {
				e.postDue(time.Hour+time.Millisecond, "Delete")
				e.sleep(time.Second)
				tt.event(e, text(e.Get("sandboxclaims", claimID), "status", "sandbox", "name"))
				e.expectRecordedStates("sandboxclaims", claimID, 500*time.Millisecond, tt.states)
			})
		})
	}
	t.Run("pool deleted", func(t *testing.T) {
		cfg := rig(t, 2)
		cfg.Pools = []map[string]any{sim.Pool("p-x", "task", 1)}
		bubble(t, cfg, func(e *env) {
			e.post(rigClaims, object{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim", "metadata": object{"name": claimID},
				"spec": object{"warmPoolRef": object{"name": "p-x"}, "lifecycle": object{"shutdownPolicy": "Delete", "shutdownTime": "2040-01-01T00:00:00.1Z"}}})
			e.sleep(time.Second)
			e.Delete("sandboxwarmpools", "p-x")
			e.expectRecordedStates("sandboxclaims", claimID, time.Second, under["poolDeleted"])
			e.merge(rigClaims+"/"+claimID, `{"spec":{"lifecycle":{"shutdownTime":"2041-01-01T00:00:00Z"}}}`)
			e.sleep(time.Second)
			if got, want := mask(t, e.Get("sandboxclaims", claimID)), mask(t, under["renewalPoolGone"]); got != want {
				t.Errorf("renewed without its pool: %s", firstDifference(got, want))
			}
		})
	})
	t.Run("ttlSecondsAfterFinished", func(t *testing.T) {
		bubble(t, rig(t, 2), func(e *env) {
			claim := rigClaim(claimID, object{"shutdownTime": "2040-01-01T00:00:00.1Z", "shutdownPolicy": "Delete", "ttlSecondsAfterFinished": 1})
			e.post(rigClaims, claim)
			e.sleep(700 * time.Millisecond)
			e.Patch("pods", text(e.Get("sandboxclaims", claimID), "status", "sandbox", "name"), object{"metadata": object{"annotations": object{"sim/behave": "succeeded"}}})
			e.expectRecordedStates("sandboxclaims", claimID, time.Second, under["ttlAfterFinished"])
		})
	})
}

func TestRecordedColdClaims(t *testing.T) {
	more := recorded(t, "more2")
	cfg := rig(t, 2)
	cfg.Pools = []map[string]any{sim.Pool("p-y", "task", 0)}
	cfg.PodDelete = 800 * time.Millisecond
	claim := rigClaim(claimID, object{"shutdownTime": "2040-01-01T00:00:00.1Z", "shutdownPolicy": "Delete"})
	claim["spec"].(object)["warmPoolRef"] = object{"name": "p-y"}
	for _, name := range []string{"coldSandboxDeleted", "sameNameRightAfterDelete"} {
		t.Run(name, func(t *testing.T) {
			states := at(more, name).([]any)
			if name == "coldSandboxDeleted" {
				// Between two errors there was one that named the Service as well. Here the
				// old Service goes in the same instant as its sandbox's name is taken.
				states = append(states[:2:2], states[3:]...)
			}
			cfg := cfg
			if name == "sameNameRightAfterDelete" {
				cfg.Bind = 6 * time.Millisecond // sooner than the garbage collector takes the old sandbox
			}
			bubble(t, cfg, func(e *env) {
				e.post(rigClaims, claim)
				e.sleep(time.Second)
				if name == "coldSandboxDeleted" {
					e.Delete("sandboxes", claimID)
				} else {
					e.deleted(rigClaims + "/" + claimID)
					e.post(rigClaims, claim)
				}
				e.expectRecordedStates("sandboxclaims", claimID, 3*time.Second, states)
			})
		})
	}
}

func TestRecordedNames(t *testing.T) {
	cfg := rig(t, 2)
	cfg.Pools = []map[string]any{sim.Pool("long", "task", 0)}
	for _, name := range []string{"nameLength63", "nameLength64", "nameLength100"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, cfg, func(e *env) {
				want := recorded(t, "more", name)
				claim := claimOf(want, text(want, "metadata", "name"))
				claim["spec"].(object)["lifecycle"].(object)["shutdownTime"] = "2040-01-01T00:00:00.1Z"
				e.post(rigClaims, claim)
				e.sleep(3 * time.Second)
				if got := mask(t, e.Get("sandboxclaims", text(want, "metadata", "name"))); got != mask(t, want) {
					t.Error(firstDifference(got, mask(t, want)))
				}
			})
		})
	}
}

func TestRecordedWithoutService(t *testing.T) {
	template := rigTemplate(t, "nosvc")
	delete(template["spec"].(object), "service")
	bubble(t, sim.Config{Namespace: "sandbox-rig", Templates: []map[string]any{template}, Pools: []map[string]any{sim.Pool("nosvc", "nosvc", 1)}}, func(e *env) {
		sb := e.List("sandboxes")[0]
		if got, want := mask(t, sb["status"]), mask(t, recorded(t, "more", "serviceUnset", "sandbox")); got != want {
			t.Errorf("the sandbox: %s", firstDifference(got, want))
		}
	})
}

func TestRecordedControllerDown(t *testing.T) {
	bubble(t, rig(t, 2), func(e *env) {
		e.Pause()
		want := recorded(t, "controller-down", "claimFiveSecondsAfterPost")
		e.postDue(2*time.Second+305*time.Millisecond, "Delete")
		e.sleep(5 * time.Second)
		if got := mask(t, e.Get("sandboxclaims", claimID)); got != mask(t, want) {
			t.Error(firstDifference(got, mask(t, want)))
		}
		e.Resume()
		e.sleep(time.Second)
		if r := e.get(rigClaims + "/" + claimID); r.code != http.StatusNotFound {
			t.Errorf("a claim that expired while the controller was down: %d", r.code)
		}
	})
}

func TestRecordedExpiredToken(t *testing.T) {
	bubble(t, rig(t, 2), func(e *env) {
		exchange := recorded(t, "token-expired")
		expectExchange(t, e.replay(exchange, "Bearer of.another.day", "", ""), exchange)
	})
}

// TestRecordedResumeWhileTerminating is Ready with a dying pod.
func TestRecordedResumeWhileTerminating(t *testing.T) {
	cfg := rig(t, 0)
	cfg.PodDelete = 1200 * time.Millisecond
	bubble(t, cfg, func(e *env) {
		e.post(rigSandboxes, object{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": object{"name": claimID},
			"spec": object{"operatingMode": "Running", "service": true, "podTemplate": at(rigTemplate(t, ""), "spec", "podTemplate")}})
		e.sleep(time.Second)
		old := text(e.Get("pods", claimID), "metadata", "uid")
		e.merge(rigSandboxes+"/"+claimID, `{"spec":{"operatingMode":"Suspended"}}`)
		e.sleep(15 * time.Millisecond)
		e.merge(rigSandboxes+"/"+claimID, `{"spec":{"operatingMode":"Running"}}`)
		var seen []string
		last := ""
		for range 1500 {
			e.sleep(time.Millisecond)
			synctest.Wait()
			sb, pod := e.Get("sandboxes", claimID), e.Get("pods", claimID)
			if v := text(sb, "metadata", "resourceVersion") + text(pod, "metadata", "resourceVersion"); v == last {
				continue
			} else {
				last = v
			}
			var conditions [][]any
			for _, c := range at(sb, "status", "conditions").([]any) {
				conditions = append(conditions, []any{at(c, "type"), at(c, "status"), at(c, "reason"), at(c, "observedGeneration")})
			}
			podGet := 404
			if pod != nil {
				podGet = 200
			}
			s := mask(t, object{"generation": at(sb, "metadata", "generation"), "conditions": conditions, "podIPs": at(sb, "status", "podIPs"),
				"podGet": podGet, "oldUid": pod != nil && text(pod, "metadata", "uid") == old, "terminating": at(pod, "metadata", "deletionTimestamp") != nil})
			if len(seen) == 0 || seen[len(seen)-1] != s {
				seen = append(seen, s)
			}
		}
		for i, want := range recorded(t, "under-a-claim", "resumeWhileTerminating").([]any) {
			delete(want.(object), "atMs")
			if !strings.Contains(strings.Join(seen, "\n"), mask(t, want)) {
				all, _ := json.MarshalIndent(seen, "", " ")
				t.Fatalf("recorded state %d was not seen: %s\nseen: %s", i, mask(t, want), all)
			}
		}
	})
}
