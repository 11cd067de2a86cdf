package acquire_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
)

// A warm create whose first look finds the bind done sends three requests and
// no more, and Release one.
func TestWarmCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{sim: func(c *sim.Config) { c.Bind = 10 * time.Millisecond }})
		w.sim.ResetRequests()
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := w.log(), []string{"create sandboxclaims", "get sandboxclaims", "get pods"}; !reflect.DeepEqual(got, want) {
			t.Errorf("requests of a warm create: got %q, want %q", got, want)
		}
		r := sb.Report()
		if !r.Warm || r.Requests != 3 || r.Retries != 0 || r.Sandbox != sb.Name() || r.Kind != "SandboxClaim" || r.PodUID == "" {
			t.Errorf("report: %+v", r)
		}
		if r.Object == r.Sandbox || !strings.HasPrefix(r.Object, "namzu-task-") {
			t.Errorf("claim %s bound to %s: a pool member keeps its name", r.Object, r.Sandbox)
		}
		if got := stages(r); !reflect.DeepEqual(got, []acquire.Stage{"post", "bind", "pod", "verify", "probe"}) {
			t.Errorf("phases: %v", got)
		}
		if r.Privileges.Privileged() != nil {
			t.Errorf("privileges: %+v", r.Privileges)
		}
		out, err := sb.Command(t.Context(), "sh", "-c", "echo hi; echo there >&2").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "hi\n") || !strings.Contains(string(out), "there\n") {
			t.Errorf("command: %q, %v", out, err)
		}
		w.sim.ResetRequests()
		if err := sb.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := sb.Release(t.Context()); err != nil {
			t.Errorf("second release: %v", err)
		}
		if got, want := w.log(), []string{"delete sandboxclaims"}; !reflect.DeepEqual(got, want) {
			t.Errorf("requests of a release: got %q, want %q", got, want)
		}
		w.nothingLeft()
	})
}

func stages(r acquire.Report) []acquire.Stage {
	var out []acquire.Stage
	for _, p := range r.Phases {
		out = append(out, p.Stage)
	}
	return out
}

// The claim carries what it must and nothing that would cost it the warm pool.
func TestClaimBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{backend: func(c *acquire.Config) {
			c.ClaimLabels = map[string]string{"sandbox.namzu.ai/host-instance": "h1"}
		}})
		before := time.Now()
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		body, err := k8s.ParseObject(w.sim.Requests()[0].Body)
		if err != nil {
			t.Fatal(err)
		}
		want := k8s.Object{
			"apiVersion": "extensions.agents.x-k8s.io/v1beta1",
			"kind":       "SandboxClaim",
			"metadata": map[string]any{
				"name": sb.Report().Object, "namespace": w.sim.Namespace(),
				"labels": map[string]any{"sandbox.namzu.ai/host-instance": "h1"},
			},
			"spec": map[string]any{
				"warmPoolRef": map[string]any{"name": "pool"},
				"lifecycle": map[string]any{
					"shutdownTime":   before.Add(time.Hour).UTC().Format(time.RFC3339),
					"shutdownPolicy": "Delete",
				},
			},
		}
		if !reflect.DeepEqual(body, want) {
			t.Errorf("claim:\n got %v\nwant %v", body, want)
		}
		sb.Release(t.Context())
	})
}

func TestDirectCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{backend: func(c *acquire.Config) { c.Pool, c.AgentAddress = "", acquire.ByPodIP }})
		w.sim.ResetRequests()
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log := w.log()
		if len(log) < 4 || log[0] != "get sandboxtemplates" || log[1] != "create sandboxes" || log[len(log)-1] != "get pods" {
			t.Errorf("requests of a direct create: %q", log)
		}
		if r := sb.Report(); r.Warm || r.Kind != "Sandbox" || r.Object != r.Sandbox || stages(r)[0] != acquire.StageTemplate {
			t.Errorf("report: %+v", r)
		}
		pod := k8s.Object(w.sim.Get("pods", sb.Name()))
		if pod.Labels()["sandbox.namzu.ai/template"] != "task" {
			t.Errorf("the pod's labels are %v: no policy finds it", pod.Labels())
		}
		if v, ok := pod.Bool("spec", "automountServiceAccountToken"); v || !ok {
			t.Error("the pod of a direct Sandbox holds a token for the API server")
		}
		if err := sb.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.nothingLeft()
	})
}

// The service mode dials the name that a later controller publishes, resolved
// at every dial.
func TestServiceAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{sim: func(c *sim.Config) { c.ServiceFQDN = true }})
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a := sb.Report().Address; !strings.Contains(a, ".svc.cluster.local:1024") {
			t.Errorf("dialled %s, want the Service's name", a)
		}
		if err := sb.Renew(t.Context()); err != nil {
			t.Errorf("renewing a claim with that status: %v", err)
		}
		sb.Release(t.Context())
	})
}

func TestColdStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{sim: func(c *sim.Config) {
			c.Pools = []map[string]any{{"metadata": map[string]any{"name": "pool"}, "spec": map[string]any{"replicas": 0, "sandboxTemplateRef": map[string]any{"name": "task"}}}}
			c.PodReady = 3 * time.Second
		}})
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r := sb.Report(); r.Warm || r.Sandbox != r.Object || r.Total() < 3*time.Second {
			t.Errorf("report of a cold start: %+v", r)
		}
		sb.Release(t.Context())
		w.nothingLeft()
	})
}

// A label that was asked for reaches the pod some time after the bind. Nobody
// speaks to the guest before it is there.
func TestRequiredLabel(t *testing.T) {
	labels := map[string]string{"sandbox.users.io/egress": "none"}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{
			sim:     func(c *sim.Config) { c.LabelDelay = 300 * time.Millisecond },
			backend: func(c *acquire.Config) { c.PodLabels = labels },
		})
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := k8s.Object(w.sim.Get("pods", sb.Name())).Labels()["sandbox.users.io/egress"]; got != "none" || !sb.Report().Warm {
			t.Errorf("label %q, warm %v", got, sb.Report().Warm)
		}
		sb.Release(t.Context())
	})
}

func TestRequiredLabelNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{
			sim: func(c *sim.Config) { c.LabelDelay = time.Hour },
			backend: func(c *acquire.Config) {
				c.PodLabels = map[string]string{"sandbox.users.io/egress": "none"}
				c.ReadyTimeout = 2 * time.Second
			},
		})
		start := time.Now()
		_, err := w.backend.Create(t.Context(), acquire.Options{})
		e := asError(t, err)
		if e.Reason != acquire.ReasonLabelNotObserved || e.Stage != acquire.StagePod || !e.Retryable {
			t.Errorf("got %+v", e)
		}
		label, ok := errors.AsType[*acquire.LabelError](err)
		if !ok || label.Key != "sandbox.users.io/egress" || label.Pod == "" {
			t.Errorf("got %v", err)
		}
		if d := time.Since(start); d < 2*time.Second || d > 3100*time.Millisecond {
			t.Errorf("took %v, want the ready timeout and no more than the cleanup's second", d)
		}
		if w.guest != 0 {
			t.Errorf("the guest was dialled %d times before its pod had the label", w.guest)
		}
		w.nothingLeft()
	})
}

func TestRefusedControls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{})
		w.sim.ResetRequests()
		_, err := w.backend.Create(t.Context(), acquire.Options{MemoryLimitMiB: 1, MaxProcesses: 1, Env: map[string]string{"A": "b"}})
		for _, want := range []string{"cannot enforce per-sandbox", "memory limit", "process limit", "environment variables", "SandboxTemplate task"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, want)
			}
		}
		if asError(t, err).Reason != acquire.ReasonInvalidRequest {
			t.Errorf("got %v", err)
		}
		sb, err := w.backend.Create(t.Context(), acquire.Options{Env: map[string]string{}})
		if err != nil {
			t.Fatalf("an empty environment asks for nothing: %v", err)
		}
		sb.Release(t.Context())
		cause := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		w.sim.ResetRequests()
		if _, err := w.backend.Create(ctx, acquire.Options{}); err != cause {
			t.Errorf("create under an ended context: got %v, want its cause itself", err)
		}
		if log := w.log(); len(log) != 0 {
			t.Errorf("requests were sent: %q", log)
		}
	})
}
