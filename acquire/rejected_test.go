package acquire_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/probe"
)

// A claim that the controller refuses ends the wait with its first look.
func TestRejectedClaim(t *testing.T) {
	for name, c := range map[string]struct {
		backend          func(*acquire.Config)
		reason           string
		message          string
		labelsAreToBlame bool
	}{
		"the pool is not there": {
			backend: func(c *acquire.Config) { c.Pool = "nowhere" },
			reason:  "WarmPoolNotFound", message: `SandboxWarmPool "nowhere" not found`,
		},
		"a pod label of a domain that is not allowed": {
			backend: func(c *acquire.Config) { c.PodLabels = map[string]string{"example.com/x": "y"} },
			reason:  "InvalidMetadata", message: "not in the allowlist", labelsAreToBlame: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, setup{backend: c.backend})
				w.sim.ResetRequests()
				start := time.Now()
				_, err := w.backend.Create(t.Context(), acquire.Options{})
				e := asError(t, err)
				if e.Reason != acquire.ReasonClaimRejected || e.Retryable || e.ControllerReason != c.reason || !strings.Contains(e.ControllerMessage, c.message) {
					t.Errorf("got %+v", e)
				}
				if text := err.Error(); !strings.Contains(text, c.reason) || !strings.Contains(text, "not continued") {
					t.Errorf("text %q", text)
				}
				rejected, ok := errors.AsType[*acquire.RejectedError](err)
				if !ok || c.labelsAreToBlame != (len(rejected.PodLabels) > 0) {
					t.Errorf("cause %v", e.Err)
				}
				if d := time.Since(start); d > time.Second {
					t.Errorf("took %v: the budget was waited out", d)
				}
				if log := w.log(); log[0] != "create sandboxclaims" || log[len(log)-1] != "delete sandboxclaims" || len(log) > 5 {
					t.Errorf("requests: %q", log)
				}
				w.nothingLeft()
			})
		})
	}
}

// pool makes a cold pool whose pods behave as told.
func pool(behave string) func(*sim.Config) {
	return func(c *sim.Config) {
		c.Templates = []map[string]any{{
			"metadata": map[string]any{"name": "task"},
			"spec": map[string]any{"service": true, "podTemplate": map[string]any{
				"metadata": map[string]any{
					"labels":      map[string]any{"sandbox.namzu.ai/template": "task"},
					"annotations": map[string]any{"sim/behave": behave},
				},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "agent", "image": "agent:1", "env": []any{
					map[string]any{"name": "NAMZU_AGENT_TCP_PORT", "value": "1024"},
					map[string]any{"name": "NAMZU_AGENT_BIND_TOKEN", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.uid"}}},
				}}}},
			}},
		}}
		c.Pools = []map[string]any{{
			"metadata": map[string]any{"name": "pool"},
			"spec":     map[string]any{"replicas": 0, "sandboxTemplateRef": map[string]any{"name": "task"}},
		}}
	}
}

// When the time is up, the pod's own status says why.
func TestDiagnosis(t *testing.T) {
	for behave, want := range map[string]struct {
		reason    acquire.Reason
		retryable bool
		podReason string
	}{
		"unschedulable": {acquire.ReasonCapacity, true, "Unschedulable"},
		"imagepull":     {acquire.ReasonImagePull, false, "ImagePullBackOff"},
		"invalidimage":  {acquire.ReasonImagePull, false, "InvalidImageName"},
		"neverpull":     {acquire.ReasonImagePull, false, "ErrImageNeverPull"},
		"configerror":   {acquire.ReasonPodFailed, false, "CreateContainerConfigError"},
		"createerror":   {acquire.ReasonPodFailed, false, "CreateContainerError"},
		"crashloop":     {acquire.ReasonPodFailed, false, "CrashLoopBackOff"},
		"notready":      {acquire.ReasonNotReady, true, ""},
		"pending":       {acquire.ReasonNotReady, true, ""},
	} {
		for _, direct := range []bool{false, true} {
			t.Run(behave+map[bool]string{false: "/pool", true: "/direct"}[direct], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, setup{sim: pool(behave), backend: func(c *acquire.Config) {
						c.ReadyTimeout = 5 * time.Second
						if direct {
							c.Pool, c.AgentAddress = "", acquire.ByPodIP
						}
					}})
					start := time.Now()
					_, err := w.backend.Create(t.Context(), acquire.Options{})
					e := asError(t, err)
					if e.Reason != want.reason || e.Retryable != want.retryable || e.PodReason != want.podReason {
						t.Errorf("got %s, retryable %v, pod says %q: %v", e.Reason, e.Retryable, e.PodReason, err)
					}
					if d := time.Since(start); d > 7*time.Second {
						t.Errorf("took %v", d)
					}
					w.nothingLeft()
				})
			})
		}
	}
}

// A pool hands out a member whose pod has ended. It never comes back, another
// claim may do better.
func TestDeadMember(t *testing.T) {
	for _, behave := range []string{"failed", "succeeded"} {
		t.Run(behave, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, setup{sim: pool(behave)})
				if err := w.sim.Patch("sandboxwarmpools", "pool", map[string]any{"spec": map[string]any{"replicas": 1}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				start := time.Now()
				_, err := w.backend.Create(t.Context(), acquire.Options{})
				e := asError(t, err)
				if e.Reason != acquire.ReasonPodFailed || !e.Retryable || !strings.HasPrefix(e.ControllerReason, "Pod") {
					t.Errorf("got %v", err)
				}
				if d := time.Since(start); d > time.Second {
					t.Errorf("took %v: the budget was waited out", d)
				}
				w.nothingLeft()
			})
		})
	}
}

// A claim that no controller looks at says so at the end.
func TestNoController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{
			sim:     func(c *sim.Config) { c.Bind = time.Hour },
			backend: func(c *acquire.Config) { c.ReadyTimeout = 5 * time.Second },
		})
		_, err := w.backend.Create(t.Context(), acquire.Options{})
		if e := asError(t, err); e.Reason != acquire.ReasonNotReady || !strings.Contains(err.Error(), "no controller has looked at it") {
			t.Errorf("got %v", err)
		}
		w.nothingLeft()
	})
}

// A guest with privileges is refused by the probe and given back before anybody
// holds it.
func TestPrivilegedGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{sim: func(c *sim.Config) {
			c.Guest = func(_ map[string]any, g *guest.Config) { g.Confine = false }
		}})
		_, err := w.backend.Create(t.Context(), acquire.Options{})
		e := asError(t, err)
		refused, ok := errors.AsType[*probe.Error](err)
		if e.Reason != acquire.ReasonProbe || e.Retryable || e.Stage != acquire.StageProbe || !ok || refused.Reason != probe.ReasonPrivileged {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(err.Error(), "NoNewPrivs=0") {
			t.Errorf("the error does not name what is wrong: %v", err)
		}
		w.nothingLeft()
	})
}

// A guest that accepts and never answers does not hold a create for longer than
// the probe's own clock.
func TestSilentGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{backend: func(c *acquire.Config) {
			c.DialContext = func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				t.Cleanup(func() { far.Close() })
				go func() {
					buf := make([]byte, 1024)
					for {
						if _, err := far.Read(buf); err != nil {
							return
						}
					}
				}()
				return near, nil
			}
		}})
		start := time.Now()
		_, err := w.backend.Create(t.Context(), acquire.Options{})
		e := asError(t, err)
		if e.Reason != acquire.ReasonProbe || !e.Retryable {
			t.Errorf("got %v", err)
		}
		if d := time.Since(start); d > 27*time.Second {
			t.Errorf("took %v", d)
		}
		w.nothingLeft()
	})
}

func TestConfig(t *testing.T) {
	client, err := k8s.New(k8s.Config{Server: "https://127.0.0.1:1", Namespace: "ns", Token: func(context.Context) (string, error) { return "", errors.New("asked for a token") }})
	if err != nil {
		t.Fatal(err)
	}
	good := acquire.Config{Template: "task"}
	for name, c := range map[string]struct {
		change func(*acquire.Config)
		want   []string
	}{
		"zero but for the template": {func(*acquire.Config) {}, nil},
		"no template":               {func(c *acquire.Config) { c.Template = "" }, []string{"Template"}},
		"names that leave their segment of a path": {
			func(c *acquire.Config) { c.Template, c.Pool = "../x", "a/b" }, []string{"Template", "Pool"}},
		"a runtime class for pods that run already": {
			func(c *acquire.Config) { c.RuntimeClass, c.Pool = "kata", "pool" }, []string{"RuntimeClass", "Pool", "podTemplate"}},
		"ports":                  {func(c *acquire.Config) { c.AgentPort = 65536 }, []string{"AgentPort"}},
		"an unknown mode":        {func(c *acquire.Config) { c.AgentAddress = "dns" }, []string{"AgentAddress"}},
		"a negative timeout":     {func(c *acquire.Config) { c.ReadyTimeout = -1 }, []string{"ReadyTimeout"}},
		"a negative interval":    {func(c *acquire.Config) { c.PollInterval = -1 }, []string{"PollInterval"}},
		"a TTL under the bound":  {func(c *acquire.Config) { c.TTL = 79 * time.Second }, []string{"TTL", "1m20s"}},
		"a TTL that just fits":   {func(c *acquire.Config) { c.TTL = 80 * time.Second }, nil},
		"a TTL of years":         {func(c *acquire.Config) { c.TTL = 1e4 * time.Hour }, []string{"TTL"}},
		"labels that are none":   {func(c *acquire.Config) { c.ClaimLabels = map[string]string{"a b": "c"} }, []string{"ClaimLabels", "a b"}},
		"a label value too long": {func(c *acquire.Config) { c.PodLabels = map[string]string{"x": strings.Repeat("a", 64)} }, []string{"PodLabels", "x"}},
		"the template's label":   {func(c *acquire.Config) { c.PodLabels = map[string]string{"sandbox.namzu.ai/template": "x"} }, []string{"PodLabels"}},
		"all at once": {
			func(c *acquire.Config) { c.Template, c.AgentPort, c.TTL = "", -1, 1 }, []string{"Template", "AgentPort", "TTL"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := good
			c.change(&config)
			_, err := acquire.New(client, config)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %q", err, want)
				}
			}
		})
	}
	if _, err := acquire.New(nil, good); err == nil {
		t.Error("a nil client is accepted")
	}
	labels := map[string]string{"a": "b"}
	backend, err := acquire.New(client, acquire.Config{Template: "task", PodLabels: labels})
	if err != nil {
		t.Fatal(err)
	}
	labels["a b"] = "changed after New"
	if err := backend.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := backend.Close(t.Context()); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
