package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

// podState is phase, readiness, address and what the container waits for.
func podState(o object) string {
	s := text(o, "status", "phase")
	if c := condition(o, "PodScheduled"); c != nil && text(c, "status") != "True" {
		s += " " + text(c, "reason")
	}
	if c := condition(o, "Ready"); c != nil {
		s += " Ready=" + text(c, "status")
	}
	if text(o, "status", "podIP") != "" {
		s += " ip"
	}
	if l, _ := at(o, "status", "containerStatuses").([]any); len(l) > 0 {
		for kind, v := range at(l[0], "state").(object) {
			s += fmt.Sprint(" ", kind, " ", text(v, "reason"))
		}
	}
	return s
}

// TestPodBehaviours goes through every word of sim/behave, on a direct Sandbox.
func TestPodBehaviours(t *testing.T) {
	running := func(rest string) string { return "15ms Running " + rest }
	for _, tt := range []struct {
		behave  string
		pod     []string // from the pod's creation
		sandbox string   // settled
	}{
		{"", []string{"0s Pending", "5ms Pending Ready=False waiting ContainerCreating", running("Ready=True ip running ")}, "True DependenciesReady: Pod is Ready; Service Exists"},
		{"pending", []string{"0s Pending"}, "False DependenciesNotReady: Pod exists with phase: Pending; Service Exists"},
		{"unschedulable", []string{"0s Pending", "5ms Pending Unschedulable"}, "False DependenciesNotReady: Pod exists with phase: Pending; Service Exists"},
		{"imagepull", []string{"0s Pending", "5ms Pending Ready=False ip waiting ErrImagePull", "1s Pending Ready=False ip waiting ImagePullBackOff"}, "False DependenciesNotReady: Pod exists with phase: Pending; Service Exists"},
		{"invalidimage", []string{"0s Pending", "5ms Pending Ready=False ip waiting InvalidImageName"}, "False DependenciesNotReady: Pod exists with phase: Pending; Service Exists"},
		{"neverpull", []string{"0s Pending", "5ms Pending Ready=False ip waiting ErrImageNeverPull"}, "False DependenciesNotReady: Pod exists with phase: Pending; Service Exists"},
		{"configerror", []string{"0s Pending", "5ms Pending Ready=False ip waiting CreateContainerConfigError"}, "False DependenciesNotReady: Pod exists with phase: Pending; Service Exists"},
		{"createerror", []string{"0s Pending", "5ms Pending Ready=False ip waiting CreateContainerError"}, "False DependenciesNotReady: Pod exists with phase: Pending; Service Exists"},
		{"crashloop", []string{"0s Pending", "5ms Pending Ready=False waiting ContainerCreating", running("Ready=False ip waiting CrashLoopBackOff")}, "False DependenciesNotReady: Pod is Running but not Ready; Service Exists"},
		{"notready", []string{"0s Pending", "5ms Pending Ready=False waiting ContainerCreating", running("Ready=False ip running ")}, "False DependenciesNotReady: Pod is Running but not Ready; Service Exists"},
		{"noip", []string{"0s Pending", "5ms Pending Ready=False waiting ContainerCreating", running("Ready=True running ")}, "False DependenciesNotReady: Pod is Ready but has no podIPs yet; Service Exists"},
		{"failed", []string{"0s Pending", "5ms Pending Ready=False waiting ContainerCreating", running("Ready=True ip running "), "115ms Failed Ready=False ip terminated Error"}, "False PodFailed: Pod failed"},
		{"succeeded", []string{"0s Pending", "5ms Pending Ready=False waiting ContainerCreating", running("Ready=True ip running "), "115ms Succeeded Ready=False ip terminated Completed"}, "False PodSucceeded: Pod completed successfully"},
	} {
		t.Run(tt.behave, func(t *testing.T) {
			bubble(t, sim.Config{Pools: []map[string]any{}}, func(e *env) {
				e.sandbox("s", nil)
				e.Patch("sandboxes", "s", object{"spec": object{"podTemplate": object{"metadata": object{"annotations": object{"sim/behave": tt.behave}}}}})
				e.sleep(30 * time.Millisecond)
				expectStates(t, e.states("pods", "s", 1500*time.Millisecond, podState), tt.pod...)
				sb := e.Get("sandboxes", "s")
				if got := ready(sb) + ": " + text(condition(sb, "Ready"), "message"); got != tt.sandbox {
					t.Errorf("the sandbox: %s, want %s", got, tt.sandbox)
				}
				finished := condition(sb, "Finished")
				if want := tt.behave == "failed" || tt.behave == "succeeded"; (finished != nil) != want {
					t.Errorf("Finished = %v, want it there: %t", finished, want)
				}
			})
		})
	}
}

func TestPodBehavioursOfARunningPod(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.claim("c", "pool", nil)
		e.sleep(time.Second)
		bound := text(e.Get("sandboxclaims", "c"), "status", "sandbox", "name")
		behave := func(word any) {
			if err := e.Patch("pods", bound, object{"metadata": object{"annotations": object{"sim/behave": word}}}); err != nil {
				t.Fatal(err)
			}
		}
		behave("notready")
		expectStates(t, e.states("sandboxclaims", "c", 100*time.Millisecond, ready), "0s True DependenciesReady", "20ms False DependenciesNotReady")
		behave(nil)
		expectStates(t, e.states("sandboxclaims", "c", 100*time.Millisecond, ready), "0s False DependenciesNotReady", "20ms True DependenciesReady")
		behave("failed")
		expectStates(t, e.states("sandboxclaims", "c", 100*time.Millisecond, ready), "0s True DependenciesReady", "20ms False PodFailed")
		claim := e.Get("sandboxclaims", "c")
		if text(condition(claim, "Finished"), "status") != "True" {
			t.Errorf("Finished = %v, want True", condition(claim, "Finished"))
		}
	})
}

func TestPodDelays(t *testing.T) {
	template := sim.Template("task")
	at(template, "spec", "podTemplate", "metadata").(object)["annotations"] = object{"sim/ready-delay": "700", "sim/delete-delay": "3s"}
	bubble(t, sim.Config{Templates: []map[string]any{template}, Pools: []map[string]any{sim.Pool("pool", "task", 0)}}, func(e *env) {
		e.claim("c", "pool", nil)
		e.sleep(40 * time.Millisecond)
		expectStates(t, e.states("pods", "c", time.Second, podState), "0s Pending", "5ms Pending Ready=False waiting ContainerCreating", "700ms Running Ready=True ip running ")
		e.Delete("pods", "c")
		old := text(e.Get("pods", "c"), "metadata", "uid")
		got := e.states("pods", "c", 4*time.Second, func(o object) string {
			return fmt.Sprint("old ", text(o, "metadata", "uid") == old, ", deleting ", at(o, "metadata", "deletionTimestamp") != nil)
		})
		expectStates(t, got, "0s old true, deleting true", "3s gone", "3.01s old false, deleting false")
	})
}

// TestForcedDeletion: with no grace the object is gone at once.
func TestForcedDeletion(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.claim("c", "pool", nil)
		e.sleep(time.Second)
		bound := text(e.Get("sandboxclaims", "c"), "status", "sandbox", "name")
		old := text(e.Get("pods", bound), "metadata", "uid")
		if r := e.deleted(podsPath + "/" + bound + "?gracePeriodSeconds=0"); r.code != 200 || r.body["kind"] != "Pod" || at(r.body, "metadata", "deletionGracePeriodSeconds") != 0.0 {
			t.Errorf("%d %s, want the pod without grace", r.code, r.raw)
		}
		if e.Get("pods", bound) != nil {
			t.Error("the pod is still there")
		}
		e.sleep(time.Second)
		if got := text(e.Get("pods", bound), "metadata", "uid"); got == old || got == "" {
			t.Errorf("pod uid %q, want another than %q", got, old)
		}
		if r := e.deleted(podsPath + "/" + bound); r.body["kind"] != "Pod" || at(r.body, "metadata", "deletionGracePeriodSeconds") != 5.0 {
			t.Errorf("a deletion with grace: %s, want the pod", r.raw)
		}
	})
}

func TestSuspendAndResume(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.sandbox("s", nil)
		e.sleep(time.Second)
		both := func(o object) string {
			c := condition(o, "Suspended")
			return fmt.Sprint(ready(o), ", Suspended ", text(c, "status"), " ", text(c, "reason"), ", generation ", at(c, "observedGeneration"), " of ", at(o, "metadata", "generation"),
				", ", at(o, "status", "podIPs") != nil, " ", text(o, "metadata", "annotations", "agents.x-k8s.io/pod-name"))
		}
		e.merge(sandboxesPath+"/s", `{"spec":{"operatingMode":"Suspended"}}`)
		expectStates(t, e.states("sandboxes", "s", time.Second, both),
			"0s True DependenciesReady, Suspended False NotSuspended, generation 1 of 2, true s",
			"10ms False SandboxSuspended, Suspended False PodTerminating, generation 2 of 2, true s",
			"40ms False SandboxSuspended, Suspended True PodTerminated, generation 2 of 2, false ")
		if text(e.Get("sandboxes", "s"), "status", "serviceFQDN") == "" {
			t.Error("the suspended sandbox lost its Service")
		}
		e.merge(sandboxesPath+"/s", `{"spec":{"operatingMode":"Running"}}`)
		expectStates(t, e.states("sandboxes", "s", time.Second, both),
			"0s False SandboxSuspended, Suspended True PodTerminated, generation 2 of 3, false ",
			"10ms False DependenciesNotReady, Suspended False NotSuspended, generation 3 of 3, false s",
			"30ms True DependenciesReady, Suspended False NotSuspended, generation 3 of 3, true s")
	})
}

// TestDisk: a volume claim outlives the pod and goes with its sandbox.
func TestDisk(t *testing.T) {
	volumes := []any{object{"metadata": object{"name": "workspace-disk"}, "spec": object{"accessModes": []any{"ReadWriteOnce"}, "volumeMode": "Block", "resources": object{"requests": object{"storage": "10Gi"}}}}}
	bubble(t, sim.Config{}, func(e *env) {
		e.sandbox("s", object{"volumeClaimTemplates": volumes})
		e.sleep(time.Second)
		disk := e.Get("persistentvolumeclaims", "workspace-disk-s")
		if text(disk, "status", "phase") != "Bound" || at(disk, "status", "capacity", "storage") != "10Gi" {
			t.Errorf("the disk: %s", encode(disk))
		}
		if got := encode(at(e.Get("pods", "s"), "spec", "volumes")); got != `[{"name":"workspace-disk","persistentVolumeClaim":{"claimName":"workspace-disk-s"}}]` {
			t.Errorf("the pod's volumes: %s", got)
		}
		if r := e.merge(sandboxesPath+"/s", `{"spec":{"volumeClaimTemplates":null}}`); r.code != 422 || text(r.body, "message") != `Sandbox.agents.x-k8s.io "s" is invalid: spec: Invalid value: volumeClaimTemplates is immutable` {
			t.Errorf("taking the disk away: %d %s", r.code, r.raw)
		}
		e.merge(sandboxesPath+"/s", `{"spec":{"operatingMode":"Suspended"}}`)
		e.sleep(time.Second)
		if e.Get("pods", "s") != nil || e.Get("persistentvolumeclaims", "workspace-disk-s") == nil {
			t.Error("after the suspend the pod is there or the disk is not")
		}
		e.deleted(sandboxesPath + "/s")
		e.sleep(time.Second)
		if e.Get("persistentvolumeclaims", "workspace-disk-s") != nil {
			t.Error("the disk outlives its sandbox")
		}
	})
}

// TestDirectSandboxIsNotSecured: the controller closes pods of pools and claims
// and no others.
func TestDirectSandboxIsNotSecured(t *testing.T) {
	open := sim.Template("open")
	spec := open["spec"].(object)
	delete(spec, "networkPolicy")
	delete(at(spec, "podTemplate", "spec").(object), "automountServiceAccountToken")
	bubble(t, sim.Config{Templates: []map[string]any{open}, Pools: []map[string]any{sim.Pool("pool", "open", 1)}}, func(e *env) {
		e.sandbox("s", object{"podTemplate": at(e.Get("sandboxtemplates", "open"), "spec", "podTemplate")})
		e.sleep(time.Second)
		for _, pod := range e.List("pods") {
			direct := text(pod, "metadata", "name") == "s"
			mounted := at(pod, "spec", "volumes") != nil
			if dns := text(pod, "spec", "dnsPolicy"); mounted != direct || (dns == "ClusterFirst") != direct || (text(pod, "metadata", "labels", "agents.x-k8s.io/sandbox-template-ref-hash") == "") != direct {
				t.Errorf("pod %s: token mounted %t, dnsPolicy %s, labels %v", text(pod, "metadata", "name"), mounted, dns, at(pod, "metadata", "labels"))
			}
		}
	})
}
