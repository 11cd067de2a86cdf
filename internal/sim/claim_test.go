package sim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

func TestWarmBind(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		posted := e.claim("c", "pool", object{"lifecycle": object{"shutdownTime": "2030-01-01T00:00:00.999Z", "shutdownPolicy": "Delete"}})
		if posted.body["status"] != nil || at(posted.body, "metadata", "generation") != 1.0 {
			t.Errorf("POST answered status %v, generation %v; want none and 1", posted.body["status"], at(posted.body, "metadata", "generation"))
		}
		got := e.states("sandboxclaims", "c", 100*time.Millisecond, func(o object) string {
			notes, _ := at(o, "metadata", "annotations").(object)
			return fmt.Sprint(ready(o), " generation ", at(o, "metadata", "generation"), ", ", len(notes), " annotations")
		})
		expectStates(t, got,
			"0s - generation 1, 0 annotations",
			"5ms - generation 1, 1 annotations",
			"30ms True DependenciesReady generation 2, 2 annotations",
			"35ms True DependenciesReady generation 2, 3 annotations",
		)
		claim := e.Get("sandboxclaims", "c")
		if got := at(claim, "spec", "lifecycle", "shutdownTime"); got != "2030-01-01T00:00:00Z" {
			t.Errorf("shutdownTime = %v, want the fraction cut off", got)
		}
		if got := at(claim, "spec", "additionalPodMetadata"); encode(got) != "{}" {
			t.Errorf("additionalPodMetadata = %v, want {}", got)
		}
		bound := text(claim, "status", "sandbox", "name")
		sb, pod := e.Get("sandboxes", bound), e.Get("pods", bound)
		if got := encode(at(sb, "metadata", "labels")); got != fmt.Sprintf(`{"agents.x-k8s.io/claim-uid":%q,"agents.x-k8s.io/launch-type":"warm","agents.x-k8s.io/sandbox-template-ref-hash":"f448886c"}`, text(claim, "metadata", "uid")) {
			t.Errorf("labels of the bound sandbox: %s", got)
		}
		if _, ok := at(pod, "metadata", "labels").(object)["agents.x-k8s.io/claim-uid"]; ok {
			t.Error("the claim's uid reached the pod's labels")
		}
		if text(claim, "status", "sandbox", "podIPs") != "" || encode(at(claim, "status", "sandbox", "podIPs")) != encode([]string{text(pod, "status", "podIP")}) {
			t.Errorf("podIPs = %v, want the pod's %s", at(claim, "status", "sandbox", "podIPs"), text(pod, "status", "podIP"))
		}
		if got := len(e.List("sandboxes")); got != 4 {
			t.Errorf("%d sandboxes, want the bound one and three refilled", got)
		}
	})
}

func TestPoolRefill(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.claim("c", "pool", nil)
		got := e.states("sandboxwarmpools", "pool", 200*time.Millisecond, func(o object) string {
			return fmt.Sprint(at(o, "status", "readyReplicas"), " of ", at(o, "status", "replicas"))
		})
		expectStates(t, got, "0s 3 of 3", "40ms 2 of 2", "50ms 2 of 3", "80ms 3 of 3")
	})
}

func TestColdStart(t *testing.T) {
	bubble(t, sim.Config{Pools: []map[string]any{sim.Pool("pool", "task", 0)}}, func(e *env) {
		e.claim("c", "pool", nil)
		got := e.states("sandboxclaims", "c", 200*time.Millisecond, func(o object) string {
			return fmt.Sprint(ready(o), ": ", at(condition(o, "Ready"), "message"), "; ", encode(at(o, "status", "sandbox", "name")))
		})
		expectStates(t, got,
			"0s -: <nil>; null",
			`30ms False SandboxNotReady: Sandbox is not ready; "c"`,
			`40ms False DependenciesNotReady: Pod exists with phase: Pending; Service Exists; "c"`,
			`70ms True DependenciesReady: Pod is Ready; Service Exists; "c"`,
		)
		if got := text(e.Get("sandboxes", "c"), "metadata", "labels", "agents.x-k8s.io/launch-type"); got != "cold" {
			t.Errorf("launch-type = %q, want cold", got)
		}
	})
}

func TestLabelReachesThePodAfterTheBind(t *testing.T) {
	bubble(t, sim.Config{LabelDelay: 200 * time.Millisecond}, func(e *env) {
		e.claim("c", "pool", object{"additionalPodMetadata": object{"labels": object{"sandbox.users.io/profile": "offline"}}})
		e.sleep(30 * time.Millisecond)
		synctest.Wait()
		bound := text(e.Get("sandboxclaims", "c"), "status", "sandbox", "name")
		got := e.states("pods", bound, 300*time.Millisecond, func(o object) string {
			return text(o, "metadata", "labels", "sandbox.users.io/profile")
		})
		expectStates(t, got, "0s ", "200ms offline")
	})
}

// TestRefusals holds each verdict that a claim can get without a sandbox.
func TestRefusals(t *testing.T) {
	labels := func(k, v string) object {
		return object{"additionalPodMetadata": object{"labels": object{k: v}}}
	}
	vars := func(l ...any) object { return object{"env": l} }
	variable := func(name, container string) object {
		v := object{"name": name, "value": "1"}
		if container != "" {
			v["containerName"] = container
		}
		return v
	}
	open := sim.Template("open")
	at(open, "spec").(object)["envVarsInjectionPolicy"] = "Allowed"
	for _, tt := range []struct {
		name, pool      string
		extra           object
		reason, message string
	}{
		{"the pool is missing", "nopool", nil, "WarmPoolNotFound", `SandboxWarmPool "nopool" not found`},
		{"the template is missing", "orphan", nil, "TemplateNotFound", `SandboxTemplate "notemplate" not found`},
		{"a label of a domain that is not allowed", "pool", labels("namzu.dev/profile", "x"), "InvalidMetadata", `invalid additionalPodMetadata: failed to validate label "namzu.dev/profile": label domain "namzu.dev" is not in the allowlist`},
		{"a label without a domain", "pool", labels("profile", "x"), "InvalidMetadata", `invalid additionalPodMetadata: failed to validate label "profile": label "profile" must have a domain prefix (e.g. 'sandbox.users.io/my-label') to prevent opting into unintended policy domains`},
		{"a label key that is none", "pool", labels("sandbox.users.io/", "x"), "InvalidMetadata", `invalid additionalPodMetadata: failed to validate label "sandbox.users.io/": invalid label key: "sandbox.users.io/": name part must be non-empty; name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
		{"env that the template disallows", "pool", vars(variable("A", "")), "EnvVarsInjectionRejected", "environment variable injection rejected: environment variable injection is not allowed by the template policy"},
		{"env that is already there", "open", vars(variable("NAMZU_AGENT_TCP_PORT", "")), "ReconcilerError", `Error seen: environment variable override is not allowed by the template policy for variable "NAMZU_AGENT_TCP_PORT"`},
		{"env of an unknown container", "open", vars(variable("A", "nope")), "ReconcilerError", `Error seen: target container "nope" not found in template for environment variable "A"`},
		{"volumes that the template disallows", "pool", object{"volumeClaimTemplates": []any{object{"metadata": object{"name": "d"}, "spec": object{}}}}, "VolumeClaimTemplatesError", "failed to merge volume claim templates: volume claim templates are disallowed by the template"},
		{"born expired, and kept", "pool", object{"lifecycle": object{"shutdownTime": "1999-01-01T00:00:00Z", "shutdownPolicy": "Retain"}}, "ClaimExpired", "Claim expired. Sandbox cleanup initiated."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, sim.Config{
				Templates: []map[string]any{sim.Template("task"), open},
				Pools:     []map[string]any{sim.Pool("pool", "task", 1), sim.Pool("orphan", "notemplate", 0), sim.Pool("open", "open", 0)},
			}, func(e *env) {
				e.claim("c", tt.pool, tt.extra)
				got := e.states("sandboxclaims", "c", time.Second, ready)
				expectStates(t, got, "0s -", "30ms False "+tt.reason)
				last := e.Get("sandboxclaims", "c")
				if got := text(condition(last, "Ready"), "message"); got != tt.message {
					t.Errorf("message\n  %s\nwant\n  %s", got, tt.message)
				}
				if got := encode(at(last, "status", "sandbox")); got != "{}" {
					t.Errorf("status.sandbox = %s, want {}", got)
				}
			})
		})
	}
}

func TestRefusalsThatHeal(t *testing.T) {
	bubble(t, sim.Config{Pools: []map[string]any{sim.Pool("orphan", "late", 0)}}, func(e *env) {
		e.claim("pool", "latepool", nil)
		e.claim("template", "orphan", nil)
		e.sleep(time.Second)
		if err := e.Apply("sandboxwarmpools", sim.Pool("latepool", "task", 0)); err != nil {
			t.Fatal(err)
		}
		if err := e.Apply("sandboxtemplates", sim.Template("late")); err != nil {
			t.Fatal(err)
		}
		expectStates(t, e.states("sandboxclaims", "pool", 100*time.Millisecond, ready),
			"0s False WarmPoolNotFound", "10ms False SandboxNotReady", "20ms False DependenciesNotReady", "50ms True DependenciesReady")
		if got := ready(e.Get("sandboxclaims", "template")); got != "True DependenciesReady" {
			t.Errorf("the claim whose template came late: %s", got)
		}
	})
}

func TestLabelDomainsAreTheOperators(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		if err := e.Apply("configmaps", object{"metadata": object{"name": "agent-sandbox-config", "namespace": "agent-sandbox-system"},
			"data": object{"allowed-label-domains": "sandbox.users.io, Namzu.dev"}}); err != nil {
			t.Fatal(err)
		}
		e.claim("c", "pool", object{"additionalPodMetadata": object{"labels": object{"sub.namzu.dev/profile": "x"}}})
		e.sleep(50 * time.Millisecond)
		if got := ready(e.Get("sandboxclaims", "c")); got != "True DependenciesReady" {
			t.Errorf("claim with a label of an allowed domain: %s", got)
		}
	})
}

func TestMetadataConflictKeepsTheMember(t *testing.T) {
	owned := sim.Template("owned")
	at(owned, "spec", "podTemplate", "metadata", "labels").(object)["sandbox.users.io/profile"] = "a"
	bubble(t, sim.Config{Templates: []map[string]any{owned}, Pools: []map[string]any{sim.Pool("pool", "owned", 1)}}, func(e *env) {
		e.claim("c", "pool", object{"additionalPodMetadata": object{"labels": object{"sandbox.users.io/profile": "b"}},
			"lifecycle": object{"shutdownTime": "2030-01-01T00:00:00.5Z"}})
		e.sleep(time.Second)
		claim := e.Get("sandboxclaims", "c")
		if got := text(condition(claim, "Ready"), "message"); got != `Error seen: failed to complete adoption of "`+text(claim, "metadata", "annotations", "agents.x-k8s.io/sandbox-name")+`": metadata override conflict: label "sandbox.users.io/profile" is defined in template with value "a", but claim requests "b"` {
			t.Errorf("message %q", got)
		}
		if at(claim, "metadata", "generation") != int64(2) || text(claim, "metadata", "annotations", "agents.x-k8s.io/sandbox-name") == "" {
			t.Errorf("claim %s: want generation 2 and an assigned member", encode(claim["metadata"]))
		}
	})
}

func TestWaitingForAMemberWithoutAnAddress(t *testing.T) {
	slow := func(delay string) map[string]any {
		template := sim.Template("slow")
		at(template, "spec", "podTemplate", "metadata").(object)["annotations"] = object{"sim/ready-delay": delay}
		return template
	}
	for _, tt := range []struct {
		name, delay string
		want        []string
	}{
		{"the member's address comes within two seconds", "2500ms", []string{"0s -", "1.54s True DependenciesReady"}},
		{"it does not: a cold start, after two seconds", "4s", []string{"0s -", "2s False SandboxNotReady", "2.01s False DependenciesNotReady", "6.03s True DependenciesReady"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, sim.Config{Templates: []map[string]any{sim.Template("task"), slow(tt.delay)}}, func(e *env) {
				if err := e.Apply("sandboxwarmpools", sim.Pool("slow", "slow", 1)); err != nil {
					t.Fatal(err)
				}
				e.sleep(time.Second)
				e.claim("c", "slow", nil)
				expectStates(t, e.states("sandboxclaims", "c", 7*time.Second, ready)[:len(tt.want)], tt.want...)
			})
		})
	}
}
