package acquire_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
)

// A handle stands for one claim, one Sandbox and one pod. What another hand does
// to any of them is noticed by the next renewal at the latest.
func TestLost(t *testing.T) {
	for name, do := range map[string]func(w *world, r acquire.Report) error{
		"the claim is deleted":   func(w *world, r acquire.Report) error { return w.sim.Delete("sandboxclaims", r.Object) },
		"the Sandbox is deleted": func(w *world, r acquire.Report) error { return w.sim.Delete("sandboxes", r.Sandbox) },
		"the pod is deleted":     func(w *world, r acquire.Report) error { return w.sim.Delete("pods", r.Pod) },
		"the Sandbox is suspended": func(w *world, r acquire.Report) error {
			return w.sim.Patch("sandboxes", r.Sandbox, map[string]any{"spec": map[string]any{"operatingMode": "Suspended"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, setup{})
				sb, err := w.backend.Create(t.Context(), acquire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := do(w, sb.Report()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				err = sb.Renew(t.Context())
				lost, ok := errors.AsType[*acquire.LostError](err)
				if !ok {
					t.Fatalf("renewal: got %v, want a *LostError", err)
				}
				<-sb.Done()
				if sb.Status() != acquire.StatusLost || sb.Err() == nil || lost.Sandbox != sb.Name() {
					t.Errorf("status %s, error %v", sb.Status(), sb.Err())
				}
				dials := w.guest
				if _, err := sb.Command(t.Context(), "true").Output(); !isLost(err) || !strings.Contains(err.Error(), "run a command") {
					t.Errorf("command: %v", err)
				}
				if _, err := sb.ReadFile(t.Context(), "x"); !isLost(err) {
					t.Errorf("read: %v", err)
				}
				if _, err := sb.WriteFile(t.Context(), "x", strings.NewReader("y")); !isLost(err) {
					t.Errorf("write: %v", err)
				}
				if w.guest != dials {
					t.Error("a guest was dialled for a sandbox that is lost")
				}
				if err := sb.Release(t.Context()); err != nil {
					t.Errorf("release of a lost sandbox: %v", err)
				}
				w.nothingLeft()
			})
		})
	}
}

func isLost(err error) bool {
	_, ok := errors.AsType[*acquire.LostError](err)
	return ok
}

// A replaced pod is not followed: its guest was never probed.
func TestReplacedPodIsNotFollowed(t *testing.T) {
	for _, mode := range []acquire.AddressMode{acquire.ByService, acquire.ByPodIP} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, setup{backend: func(c *acquire.Config) { c.AgentAddress = mode }})
				sb, err := w.backend.Create(t.Context(), acquire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := w.sim.Delete("pods", sb.Report().Pod); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				out, err := sb.Command(t.Context(), "echo", "hi").Output()
				if err == nil {
					t.Errorf("a command ran in another guest and said %q", out)
				}
				<-sb.Done()
				if !isLost(sb.Err()) {
					t.Errorf("got %v", sb.Err())
				}
				sb.Release(t.Context())
			})
		})
	}
}

// The lease moves the expiry while the handle is held and no longer.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{backend: func(c *acquire.Config) { c.TTL = 2 * time.Minute }})
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		born := time.Now()
		time.Sleep(time.Hour)
		if sb.Err() != nil || len(w.ours()) != 1 {
			t.Fatalf("after an hour: %v, %v", sb.Err(), w.ours())
		}
		if e := sb.Expiry(); e.Before(time.Now()) || e.After(time.Now().Add(2*time.Minute)) {
			t.Errorf("expiry %v at %v", e, time.Now())
		}
		out, err := sb.Command(t.Context(), "echo", "alive").Output()
		if err != nil || string(out) != "alive\n" {
			t.Errorf("%q, %v", out, err)
		}
		if err := sb.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		if got, want := sb.Expiry(), time.Now().Add(2*time.Minute).Truncate(time.Second); !got.Equal(want) {
			t.Errorf("after Renew: expiry %v, want %v", got, want)
		}
		// No implicit deletion: a host that goes leaves the sandbox to its lease.
		if err := w.backend.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(w.ours()) != 1 {
			t.Error("Close deleted a sandbox that is held")
		}
		time.Sleep(2*time.Minute + time.Second)
		if left := w.ours(); len(left) != 0 {
			t.Errorf("%v outlived its lease, born %v ago", left, time.Since(born))
		}
	})
}

// An API server that is away for less than the lease is survived; one that is
// away for longer is a lost lease.
func TestLeaseThroughOutage(t *testing.T) {
	for away, survives := range map[time.Duration]bool{30 * time.Second: true, 5 * time.Minute: false} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var down bool
				var failures int
				w := newWorld(t, setup{
					sim: func(c *sim.Config) {
						c.Fault = func(r *sim.Request) *sim.Fault {
							mu.Lock()
							defer mu.Unlock()
							if down && r.Verb == "patch" {
								return &sim.Fault{Code: 503}
							}
							return nil
						}
					},
					backend: func(c *acquire.Config) {
						c.TTL = 2 * time.Minute
						c.OnRenewalError = func(sandbox string, err error) {
							mu.Lock()
							defer mu.Unlock()
							failures++
						}
					},
				})
				sb, err := w.backend.Create(t.Context(), acquire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				set := func(v bool) {
					mu.Lock()
					defer mu.Unlock()
					down = v
				}
				time.Sleep(50 * time.Second) // the renewal is due soon
				set(true)
				time.Sleep(away)
				set(false)
				time.Sleep(10 * time.Second)
				if survives != (sb.Err() == nil) {
					t.Errorf("after %v without renewals: %v", away, sb.Err())
				}
				if failures == 0 {
					t.Error("no failed renewal was told")
				}
				sb.Release(t.Context())
				w.nothingLeft()
			})
		})
	}
}

// The API server's clock decides when an object expires, not the host's.
func TestClockSkew(t *testing.T) {
	for _, skew := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, setup{sim: func(c *sim.Config) {
					c.Now = func() time.Time { return time.Now().Add(skew) }
				}})
				// The first answer of the server tells its time.
				if _, err := w.client.Get(t.Context(), k8s.SandboxWarmPools, "pool"); err != nil {
					t.Fatal(err)
				}
				sb, err := w.backend.Create(t.Context(), acquire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if d := sb.Expiry().Sub(time.Now().Add(skew)); d < 59*time.Minute || d > 61*time.Minute {
					t.Errorf("expires in %v by the server's clock, want an hour", d)
				}
				time.Sleep(3 * time.Hour)
				if sb.Err() != nil {
					t.Errorf("lost: %v", sb.Err())
				}
				sb.Release(t.Context())
			})
		})
	}
}

// Files of any size come back as they went.
func TestFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{})
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Release(t.Context())
		big := bytes.Repeat([]byte("0123456789abcdef"), 9<<20/16)
		if n, err := sb.WriteFile(t.Context(), "dir/big", bytes.NewReader(big)); err != nil || n != int64(len(big)) {
			t.Fatalf("wrote %d: %v", n, err)
		}
		got, err := sb.ReadFile(t.Context(), "dir/big")
		if err != nil || sha256.Sum256(got) != sha256.Sum256(big) {
			t.Errorf("read %d bytes: %v", len(got), err)
		}
		part, size, err := sb.ReadRange(t.Context(), "dir/big", 1<<20+1, 5)
		if err != nil || string(part) != "12345" || size != int64(len(big)) {
			t.Errorf("range %q of %d: %v", part, size, err)
		}
		out, err := sb.Command(t.Context(), "wc", "-c", "dir/big").Output()
		if err != nil || !strings.HasPrefix(string(out), fmt.Sprint(len(big))) {
			t.Errorf("%q, %v", out, err)
		}
	})
}

// Many at once: more than the pool has, each its own.
func TestConcurrentCreates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		names := map[string]bool{}
		for i := range 20 {
			wg.Go(func() {
				sb, err := w.backend.Create(t.Context(), acquire.Options{})
				if err != nil {
					t.Errorf("create %d: %v", i, err)
					return
				}
				out, err := sb.Command(t.Context(), "echo", fmt.Sprint(i)).Output()
				if err != nil || string(out) != fmt.Sprintln(i) {
					t.Errorf("sandbox %d said %q, %v", i, out, err)
				}
				mu.Lock()
				names[sb.Name()] = true
				mu.Unlock()
				if err := sb.Release(t.Context()); err != nil {
					t.Errorf("release %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if len(names) != 20 {
			t.Errorf("20 creates got %d sandboxes", len(names))
		}
		w.nothingLeft()
	})
}
