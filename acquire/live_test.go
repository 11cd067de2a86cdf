package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
	"github.com/sandlot-go/sandlot/probe"
)

// liveClient returns a client of the real API server that the RIG_ variables
// name, with the token of one of its accounts. Without them the test is skipped.
func liveClient(t testing.TB, tokenFile string) *k8s.Client {
	t.Helper()
	server := os.Getenv("RIG_SERVER")
	if server == "" {
		t.Skip("no RIG_SERVER: the live tier needs a real API server, see the README")
	}
	token, err := os.ReadFile(os.Getenv(tokenFile))
	if err != nil {
		t.Fatalf("%s: %v", tokenFile, err)
	}
	client, err := k8s.New(k8s.Config{
		Server:    server,
		CAFile:    os.Getenv("RIG_CA"),
		Namespace: os.Getenv("RIG_NAMESPACE"),
		Token:     func(context.Context) (string, error) { return strings.TrimSpace(string(token)), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func liveConfig() acquire.Config {
	return acquire.Config{Template: os.Getenv("RIG_TEMPLATE"), Pool: os.Getenv("RIG_POOL"), AgentAddress: acquire.ByPodIP}
}

func liveBackend(t testing.TB, change func(*acquire.Config)) *acquire.Backend {
	t.Helper()
	client := liveClient(t, "RIG_TOKEN_FILE")
	config := liveConfig()
	if change != nil {
		change(&config)
	}
	backend, err := acquire.New(client, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := backend.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return backend
}

// goneFrom waits until the API server no longer has the object.
func goneFrom(t testing.TB, client *k8s.Client, r k8s.Resource, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := client.Get(ctx, r, name)
		if k8s.IsNotFound(err) {
			return
		}
		if err != nil {
			t.Fatalf("%s %s: %v", r.Kind, name, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s %s is still there", r.Kind, name)
		}
	}
}

func TestLiveCreate(t *testing.T) {
	for name, change := range map[string]func(*acquire.Config){
		"pool":              nil,
		"pool, watched":     func(c *acquire.Config) { c.Watch = true },
		"pool, by service":  func(c *acquire.Config) { c.AgentAddress = acquire.ByService },
		"direct, by pod IP": func(c *acquire.Config) { c.Pool = "" },
		"pool, pod label":   func(c *acquire.Config) { c.PodLabels = map[string]string{"sandbox.users.io/run": "live"} },
	} {
		t.Run(name, func(t *testing.T) {
			client := liveClient(t, "RIG_TOKEN_FILE")
			backend := liveBackend(t, change)
			sb, err := backend.Create(t.Context(), acquire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", sb.Report())
			out, err := sb.Command(t.Context(), "sh", "-c", "id -u; pwd").Output()
			if err != nil || !strings.HasPrefix(string(out), "65534\n") {
				t.Errorf("id: %q, %v", out, err)
			}
			if _, err := sb.WriteFile(t.Context(), "a/b", strings.NewReader("hello")); err != nil {
				t.Error(err)
			}
			if data, err := sb.ReadFile(t.Context(), "a/b"); err != nil || string(data) != "hello" {
				t.Errorf("read %q, %v", data, err)
			}
			before := sb.Expiry()
			timer := time.NewTimer(1100 * time.Millisecond) // stamps are whole seconds
			<-timer.C
			if err := sb.Renew(t.Context()); err != nil || !sb.Expiry().After(before) {
				t.Errorf("renew: %v, expiry %v after %v", err, sb.Expiry(), before)
			}
			if err := sb.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := sb.Report()
			if r.Kind == "SandboxClaim" {
				goneFrom(t, client, k8s.SandboxClaims, r.Object)
			}
			goneFrom(t, client, k8s.Sandboxes, r.Sandbox)
			goneFrom(t, client, k8s.Pods, r.Pod)
		})
	}
}

// liveTemplate makes a template like the rig's, changed, and a pool on it.
func liveTemplate(t *testing.T, name string, change func(spec k8s.Object)) {
	t.Helper()
	admin := liveClient(t, "RIG_ADMIN_TOKEN_FILE")
	source, err := admin.Get(t.Context(), k8s.SandboxTemplates, os.Getenv("RIG_TEMPLATE"))
	if err != nil {
		t.Fatal(err)
	}
	spec := source.Map("spec").Clone()
	change(spec)
	remove := func(r k8s.Resource, name string) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := admin.Delete(ctx, r, name, k8s.DeleteOptions{}); err != nil && !k8s.IsNotFound(err) {
			t.Error(err)
		}
	}
	make := func(r k8s.Resource, spec any) {
		o := k8s.Object{"apiVersion": r.APIVersion(), "kind": r.Kind, "metadata": map[string]any{"name": name, "namespace": admin.Namespace()}, "spec": spec}
		if _, err := admin.Create(t.Context(), r, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(r, name) })
	}
	make(k8s.SandboxTemplates, map[string]any(spec))
	make(k8s.SandboxWarmPools, map[string]any{"replicas": 1, "sandboxTemplateRef": map[string]any{"name": name}})
}

// A pod that nobody deprivileged is refused by the probe and given back.
func TestLivePrivilegedPod(t *testing.T) {
	for _, kind := range []string{"true", "bounding-set", "no-new-privs"} {
		t.Run(kind, func(t *testing.T) {
			client := liveClient(t, "RIG_TOKEN_FILE")
			name := "privileged-" + kind
			liveTemplate(t, name, func(spec k8s.Object) {
				metadata := spec.Map("podTemplate", "metadata")
				metadata["annotations"] = map[string]any{"rig/privileged": kind}
			})
			backend := liveBackend(t, func(c *acquire.Config) { c.Template, c.Pool = name, name })
			_, err := backend.Create(t.Context(), acquire.Options{})
			e := asError(t, err)
			refused, ok := errors.AsType[*probe.Error](err)
			if e.Reason != acquire.ReasonProbe || !ok || refused.Reason != probe.ReasonPrivileged || e.Cleanup != nil {
				t.Fatalf("got %v", err)
			}
			t.Log(err)
			goneFrom(t, client, k8s.SandboxClaims, e.Object)
			goneFrom(t, client, k8s.Sandboxes, e.Sandbox)
		})
	}
}

// What does not become ready is told by the cluster's own words.
func TestLiveFailures(t *testing.T) {
	for behave, want := range map[string]acquire.Reason{
		"unschedulable": acquire.ReasonCapacity,
		"imagepull":     acquire.ReasonImagePull,
		"crashloop":     acquire.ReasonPodFailed,
		"failed":        acquire.ReasonPodFailed,
		"notready":      acquire.ReasonNotReady,
	} {
		t.Run(behave, func(t *testing.T) {
			t.Parallel()
			client := liveClient(t, "RIG_TOKEN_FILE")
			name := "fails-" + behave
			liveTemplate(t, name, func(spec k8s.Object) {
				spec.Map("podTemplate", "metadata")["annotations"] = map[string]any{"rig/behave": behave}
			})
			backend := liveBackend(t, func(c *acquire.Config) { c.Template, c.Pool, c.ReadyTimeout = name, name, 4*time.Second })
			_, err := backend.Create(t.Context(), acquire.Options{})
			e := asError(t, err)
			if e.Reason != want || e.Cleanup != nil {
				t.Errorf("got %v, want %s", err, want)
			}
			t.Log(err)
			goneFrom(t, client, k8s.SandboxClaims, e.Object)
		})
	}
}

// An account without the rights is told so at once, and leaves nothing.
func TestLiveForbidden(t *testing.T) {
	client := liveClient(t, "RIG_POOR_TOKEN_FILE")
	config := liveConfig()
	config.Pool = ""
	backend, err := acquire.New(client, config)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close(t.Context())
	_, err = backend.Create(t.Context(), acquire.Options{})
	if e := asError(t, err); e.Reason != acquire.ReasonForbidden || e.Stage != acquire.StageTemplate || !strings.Contains(err.Error(), "sandboxtemplates") {
		t.Errorf("got %v", err)
	}
}

// A sandbox that another hand takes away is lost by the next renewal.
func TestLiveLost(t *testing.T) {
	admin := liveClient(t, "RIG_ADMIN_TOKEN_FILE")
	backend := liveBackend(t, nil)
	for _, r := range []k8s.Resource{k8s.Pods, k8s.Sandboxes, k8s.SandboxClaims} {
		t.Run(r.Kind, func(t *testing.T) {
			sb, err := backend.Create(t.Context(), acquire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			name := map[string]string{"Pod": sb.Report().Pod, "Sandbox": sb.Report().Sandbox, "SandboxClaim": sb.Report().Object}[r.Kind]
			if _, err := admin.Delete(t.Context(), r, name, k8s.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			// The garbage collector takes its time to follow.
			deadline := time.Now().Add(10 * time.Second)
			for err = nil; err == nil && time.Now().Before(deadline); {
				err = sb.Renew(t.Context())
			}
			if !isLost(err) {
				t.Errorf("renewal: %v", err)
			}
			if err := sb.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkLiveCreate compares the way to a bound pod, adaptive against a fixed
// poll of 50 ms, one after the other in turns. The numbers are medians, in ms,
// and the mean number of requests.
func BenchmarkLiveCreate(b *testing.B) {
	const rounds = 30
	client := liveClient(b, "RIG_TOKEN_FILE")
	backend := liveBackend(b, func(c *acquire.Config) { c.Ingress = policy.Ingress{InsecureUnverified: true} })
	for range b.N {
		var adaptive, fixed []float64
		var adaptiveRequests, fixedRequests int
		for i := range rounds {
			waitForPool(b, client)
			sb, err := backend.Create(b.Context(), acquire.Options{})
			if err != nil {
				b.Fatal(err)
			}
			r := sb.Report()
			d := time.Duration(0)
			for _, p := range r.Phases {
				if p.Stage == acquire.StagePost || p.Stage == acquire.StageBind || p.Stage == acquire.StagePod {
					d += p.Duration
				}
			}
			adaptive = append(adaptive, d.Seconds()*1e3)
			adaptiveRequests += r.Requests
			if err := sb.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
			waitForPool(b, client)
			took, requests := fixedPoll(b, client, fmt.Sprintf("fixed-%d-%d", time.Now().UnixNano(), i))
			fixed = append(fixed, took.Seconds()*1e3)
			fixedRequests += requests
		}
		b.ReportMetric(median(adaptive), "adaptive-ms")
		b.ReportMetric(median(fixed), "fixed50-ms")
		b.ReportMetric(median(fixed)/median(adaptive), "ratio")
		b.ReportMetric(float64(adaptiveRequests)/rounds, "adaptive-requests")
		b.ReportMetric(float64(fixedRequests)/rounds, "fixed50-requests")
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// waitForPool waits until every member of the pool can be adopted.
func waitForPool(b *testing.B, client *k8s.Client) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		pool, err := client.Get(b.Context(), k8s.SandboxWarmPools, os.Getenv("RIG_POOL"))
		if err != nil {
			b.Fatal(err)
		}
		ready, _ := pool.Int("status", "readyReplicas")
		if want, _ := pool.Int("spec", "replicas"); ready >= want {
			return
		}
		<-tick.C
	}
	b.Fatal("the pool does not fill")
}

// fixedPoll claims a sandbox and looks at once and every 50 ms.
func fixedPoll(b *testing.B, client *k8s.Client, name string) (took time.Duration, requests int) {
	b.Helper()
	start := time.Now()
	claim := k8s.Object{
		"apiVersion": k8s.SandboxClaims.APIVersion(), "kind": "SandboxClaim",
		"metadata": map[string]any{"name": name, "namespace": client.Namespace()},
		"spec": map[string]any{
			"warmPoolRef": map[string]any{"name": os.Getenv("RIG_POOL")},
			"lifecycle":   map[string]any{"shutdownTime": start.Add(time.Hour).UTC().Format(time.RFC3339), "shutdownPolicy": "Delete"},
		},
	}
	if _, err := client.Create(b.Context(), k8s.SandboxClaims, claim); err != nil {
		b.Fatal(err)
	}
	requests = 1
	for {
		o, err := client.Get(b.Context(), k8s.SandboxClaims, name)
		if err != nil {
			b.Fatal(err)
		}
		requests++
		if c, _ := o.Condition("Ready"); c.True() {
			if _, err := client.Get(b.Context(), k8s.Pods, o.Text("status", "sandbox", "name")); err != nil {
				b.Fatal(err)
			}
			requests++
			break
		}
		timer := time.NewTimer(50 * time.Millisecond)
		<-timer.C
	}
	took = time.Since(start)
	if _, err := client.Delete(b.Context(), k8s.SandboxClaims, name, k8s.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	return took, requests
}
