package podbind_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
)

// recorded reads a fixture, or a part of it.
func recorded(t testing.TB, file string, path ...string) k8s.Object {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "fixtures", file))
	if err != nil {
		t.Fatal(err)
	}
	o, err := k8s.ParseObject(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(path) > 0 {
		if o = o.Map(path...); o == nil {
			t.Fatalf("%s has no %v", file, path)
		}
	}
	return o
}

// states returns the objects of a recorded sequence of states.
func states(t testing.TB, list []any) []k8s.Object {
	t.Helper()
	if len(list) == 0 {
		t.Fatal("no recorded states")
	}
	var out []k8s.Object
	for _, v := range list {
		entry, _ := v.(map[string]any)
		o := k8s.Object(entry).Map("object")
		if o == nil {
			t.Fatalf("state without an object: %v", v)
		}
		out = append(out, o)
	}
	return out
}

func TestRecordedWarmClaim(t *testing.T) {
	seen := states(t, recorded(t, "claim-warm-states.json").List("states"))
	first, last := podbind.ClaimState(seen[0]), podbind.ClaimState(seen[len(seen)-1])
	if first.Phase != podbind.Waiting || first.Observed || first.Sandbox != "" {
		t.Errorf("claim without a status: got %+v, want it to be waiting and unobserved", first)
	}
	if last.Phase != podbind.Ready || !last.Observed || last.Sandbox != "pool-q674c" || len(last.PodIPs) != 1 {
		t.Errorf("bound claim: got %+v, want Ready on pool-q674c with an address", last)
	}
}

func TestRecordedRefusals(t *testing.T) {
	for name, want := range map[string]struct {
		phase  podbind.Phase
		reason string
	}{
		"pool-not-found":               {podbind.Rejected, "WarmPoolNotFound"},
		"template-not-found":           {podbind.Rejected, "TemplateNotFound"},
		"label-domain-refused":         {podbind.Rejected, "InvalidMetadata"},
		"label-without-domain":         {podbind.Rejected, "InvalidMetadata"},
		"label-value-too-long":         {podbind.Rejected, "InvalidMetadata"},
		"annotation-domain-refused":    {podbind.Rejected, "InvalidMetadata"},
		"env-disallowed":               {podbind.Rejected, "EnvVarsInjectionRejected"},
		"volumes-disallowed":           {podbind.Rejected, "VolumeClaimTemplatesError"},
		"label-domain-allowed":         {podbind.Ready, "DependenciesReady"},
		"env-allowed-cold":             {podbind.Ready, "DependenciesReady"},
		"label-override-conflict-warm": {podbind.Waiting, "ReconcilerError"}, // the same reason also passes
		"sandbox-of-that-name-exists":  {podbind.Waiting, "ReconcilerError"},
	} {
		t.Run(name, func(t *testing.T) {
			got := podbind.ClaimState(recorded(t, "claim-refusals.json", name, "settled"))
			if got.Phase != want.phase || got.Reason != want.reason {
				t.Errorf("got phase %v for reason %q, want %v for %q", got.Phase, got.Reason, want.phase, want.reason)
			}
			if got.Phase == podbind.Rejected && (got.Sandbox != "" || got.Message == "") {
				t.Errorf("a refusal names no sandbox and has a message, got %+v", got)
			}
		})
	}
}

func TestRecordedSandbox(t *testing.T) {
	seen := states(t, recorded(t, "sandbox-direct-states.json").List("states"))
	var phases []podbind.Phase
	for _, o := range seen {
		phases = append(phases, podbind.SandboxState(o).Phase)
	}
	last := podbind.SandboxState(seen[len(seen)-1])
	if phases[0] != podbind.Waiting || last.Phase != podbind.Ready {
		t.Errorf("phases of a direct Sandbox: %v, want waiting first and Ready at last", phases)
	}
	if last.FQDN == "" || last.Selector == "" || len(last.PodIPs) != 1 {
		t.Errorf("ready Sandbox: got %+v, want FQDN, selector and one address", last)
	}
}

// A Ready=True that the controller wrote for an older spec is what a GET right
// after a suspend shows, and a Suspended=True may stand beside a Ready=True
// after the resume.
func TestRecordedSuspendAndResume(t *testing.T) {
	stale := recorded(t, "sandbox-suspend.json", "patch", "response", "body")
	if c, _ := stale.Condition("Ready"); !c.True() {
		t.Fatalf("the fixture is to show the stale Ready=True, it has %+v", c)
	}
	if got := podbind.SandboxState(stale).Phase; got != podbind.Waiting {
		t.Errorf("Ready=True of an older generation: got phase %v, want waiting", got)
	}
	suspended := states(t, recorded(t, "sandbox-suspend.json").List("states"))
	if got := podbind.SandboxState(suspended[len(suspended)-1]); got.Phase != podbind.Ended || got.Reason != "SandboxSuspended" {
		t.Errorf("suspended Sandbox: got %+v, want ended", got)
	}
	resumed := states(t, recorded(t, "sandbox-resume.json").List("states"))
	if got := podbind.SandboxState(resumed[len(resumed)-1]); got.Phase != podbind.Ready {
		t.Errorf("resumed Sandbox: got %+v, want Ready", got)
	}
}

func TestRecordedFailures(t *testing.T) {
	for name, want := range map[string]podbind.Trouble{
		"unschedulable": podbind.Unschedulable,
		"imagepull":     podbind.ImagePull,
		"crashloop":     podbind.Crashing,
		"failed":        podbind.PodEnded,
		"succeeded":     podbind.PodEnded,
		"notready":      podbind.NoTrouble,
		"noip":          podbind.NoTrouble,
		"pending":       podbind.NoTrouble,
	} {
		t.Run(name, func(t *testing.T) {
			pod := k8s.Object{"status": map[string]any(recorded(t, "pod-failures.json", name, "podStatus"))}
			if got := podbind.Diagnose(pod); got.Trouble != want {
				t.Errorf("got %+v, want trouble %v", got, want)
			}
		})
	}
	claim := states(t, recorded(t, "pod-failures.json", "failed").List("claimStates"))
	if got := podbind.ClaimState(claim[len(claim)-1]); got.Phase != podbind.Failed || got.Reason != "PodFailed" {
		t.Errorf("claim over a failed pod: got %+v, want failed", got)
	}
	sandbox := recorded(t, "pod-failures.json", "unschedulable", "sandbox")
	if got := podbind.DiagnoseSandbox(sandbox); got.Trouble != podbind.Unschedulable || got.Message == "" {
		t.Errorf("the Sandbox of an unschedulable pod: got %+v, want the scheduler's words", got)
	}
}

func TestRecordedPod(t *testing.T) {
	pod := recorded(t, "pod-adopted.json", "afterReady")
	if !podbind.Live(pod) || podbind.IP(pod) == "" {
		t.Errorf("an adopted pod is live and has an address, got %v and %q", podbind.Live(pod), podbind.IP(pod))
	}
	pod.Map("metadata")["deletionTimestamp"] = "2026-11-29T19:51:26Z"
	if podbind.Live(pod) {
		t.Error("a pod with a deletionTimestamp is live")
	}
}

// FuzzStates feeds the readers objects of any shape.
func FuzzStates(f *testing.F) {
	f.Add([]byte(`{"metadata":{"generation":2},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}}`))
	f.Add([]byte(`{"metadata":[],"status":{"conditions":{"type":"Ready"},"sandbox":["x"],"podIPs":"10.0.0.1"}}`))
	f.Add([]byte(`{"status":{"conditions":[null,3,{"type":"Ready","status":true,"observedGeneration":"x"}],"podIPs":[{"ip":3}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m map[string]any
		if json.Unmarshal(data, &m) != nil || m == nil {
			return
		}
		o, err := k8s.ParseObject(data)
		if err != nil {
			return
		}
		if s := podbind.ClaimState(o); s.Phase == podbind.Ready && (s.Sandbox == "" || o.Deleting()) {
			t.Errorf("ready without a sandbox or while deleted: %s", data)
		}
		podbind.SandboxState(o)
		podbind.Diagnose(o)
		podbind.DiagnoseSandbox(o)
		podbind.IP(o)
		if podbind.Live(o) && o.UID() == "" {
			t.Errorf("live without a uid: %s", data)
		}
		podbind.SandboxBody(o, podbind.SandboxSpec{Name: "n", Namespace: "ns"})
	})
}
