package acquire_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
)

// The caller goes away while a request is on its way, before or after it had
// its effect. It gets its own cause back, and nothing stays behind.
func TestAbortAtEveryRequest(t *testing.T) {
	for _, at := range []request{getTemplate, postSandbox, getSandbox, directPod, postClaim, getClaim, getPod} {
		for name, fault := range map[string]sim.Fault{"unanswered": {Hang: true}, "answered too late": {HangAfter: true}} {
			t.Run(at.String()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cause := errors.New("the user closed the tab")
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					w := newWorld(t, setup{
						sim: func(c *sim.Config) {
							c.Fault = func(r *sim.Request) *sim.Fault {
								if r.Verb != at.verb || r.Resource != at.resource {
									return nil
								}
								time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
								f := fault
								return &f
							}
						},
						backend: func(c *acquire.Config) {
							if at.direct {
								c.Pool, c.AgentAddress = "", acquire.ByPodIP
							}
						},
					})
					start := time.Now()
					if _, err := w.backend.Create(ctx, acquire.Options{}); err != cause {
						t.Errorf("got %v, want the caller's cause itself", err)
					}
					if d := time.Since(start); d > 2*time.Second {
						t.Errorf("took %v after the abort", d)
					}
					w.nothingLeft()
				})
			})
		}
	}
}

// The caller goes away, and the POST takes effect after the create has looked
// whether it had any.
func TestLatePost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		late   time.Duration // after the caller went away
		closes bool          // the Backend is closed at once
		within time.Duration // the claim is gone by then
		seen   bool          // after the create and Close have returned
	}{
		{"noticed by the Backend", 3 * time.Second, false, 6 * time.Second, true},
		{"noticed by Close", 500 * time.Millisecond, true, 2 * time.Second, false},
		{"after Close, left to its expiry", 3 * time.Second, true, 3 * time.Minute, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cause := errors.New("the user closed the tab")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				w := newWorld(t, setup{
					sim: func(c *sim.Config) {
						c.Fault = func(r *sim.Request) *sim.Fault {
							if r.Verb != "create" || r.Resource != "sandboxclaims" {
								return nil
							}
							time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
							return &sim.Fault{Late: tt.late}
						}
					},
					backend: func(c *acquire.Config) { c.TTL = 2 * time.Minute },
				})
				if _, err := w.backend.Create(ctx, acquire.Options{}); err != cause {
					t.Errorf("got %v, want the caller's cause itself", err)
				}
				start := time.Now()
				if tt.closes {
					if err := w.backend.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
				seen := false
				for len(w.ours()) > 0 || time.Since(start) <= tt.late {
					seen = seen || len(w.ours()) > 0
					if time.Since(start) > tt.within {
						t.Fatalf("after %v: %q", tt.within, w.ours())
					}
					time.Sleep(10 * time.Millisecond)
				}
				if seen != tt.seen {
					t.Errorf("the claim was seen: %t, want %t", seen, tt.seen)
				}
				if n := len(w.leakStates()); n > 0 {
					t.Errorf("%d leaks reported", n)
				}
			})
		})
	}
}

// The caller goes away while the guest is being probed.
func TestAbortDuringProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the user closed the tab")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		w := newWorld(t, setup{backend: func(c *acquire.Config) {
			c.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				cancel(cause)
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
		}})
		if _, err := w.backend.Create(ctx, acquire.Options{}); err != cause {
			t.Errorf("got %v, want the caller's cause itself", err)
		}
		w.nothingLeft()
	})
}

// The API server cannot be reached from the n-th connection on, each request
// making its own: what was created before is reported, and deleted when the
// server is back.
func TestUnreachableServer(t *testing.T) {
	for _, direct := range []bool{false, true} {
		for n := 1; n <= 4; n++ {
			t.Run(map[bool]string{false: "pool", true: "direct"}[direct]+"/"+string(rune('0'+n)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testUnreachable(t, direct, n) })
			})
		}
	}
}

func testUnreachable(t *testing.T, direct bool, from int) {
	w := newWorld(t, setup{
		sim: func(c *sim.Config) { c.Bind = 10 * time.Millisecond },
		backend: func(c *acquire.Config) {
			if direct {
				c.Pool, c.AgentAddress = "", acquire.ByPodIP
			}
		},
	})
	w.server.SetKeepAlivesEnabled(false)
	var down atomic.Bool
	down.Store(true)
	w.refuseFrom(from, func() error {
		if !down.Load() {
			return nil
		}
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	})
	sb, err := w.backend.Create(t.Context(), acquire.Options{})
	if err == nil {
		if from <= 3 {
			t.Error("a create takes three requests at least")
		}
		down.Store(false)
		if err := sb.Release(t.Context()); err != nil {
			t.Error(err)
		}
		w.nothingLeft()
		return
	}
	e := asError(t, err)
	if e.Reason != acquire.ReasonAPIUnreachable || !e.Retryable {
		t.Errorf("got %v", err)
	}
	posted := len(w.ours()) > 0
	if posted && e.Cleanup == nil {
		t.Errorf("%v are left and the error does not say so", w.ours())
	}
	if posted != (len(w.leakStates()) > 0) {
		t.Errorf("left: %v, leaks reported: %v", w.ours(), w.leakStates())
	}
	down.Store(false)
	time.Sleep(time.Minute)
	w.nothingLeft()
	if states := w.leakStates(); posted && states[len(states)-1] != acquire.LeakReleased {
		t.Errorf("leaks: %v, want the last word to be released", states)
	}
}

// The DELETE that takes back a failed create goes wrong, once or for a while.
func TestCleanupFaults(t *testing.T) {
	for name := range faults {
		if name == "404" || name == "another's object" || name == "wrong shape" || name == "an array" {
			continue // these say that the object is gone, or was deleted
		}
		for _, lasting := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "/once", true: "/for a while"}[lasting], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testCleanupFault(t, name, lasting) })
			})
		}
	}
}

func testCleanupFault(t *testing.T, name string, lasting bool) {
	var deletes atomic.Int32
	var over atomic.Bool
	w := newWorld(t, setup{
		sim: func(c *sim.Config) {
			c.Fault = func(r *sim.Request) *sim.Fault {
				switch {
				case r.Verb == "get" && r.Resource == "pods":
					return faults["403"](r)
				case r.Verb == "delete" && (deletes.Add(1) == 1 || lasting) && !over.Load():
					return faults[name](r)
				}
				return nil
			}
		},
		client: func(c *k8s.Config) { c.MaxObjectBytes = bodyLimit },
	})
	start := time.Now()
	_, err := w.backend.Create(t.Context(), acquire.Options{})
	e := asError(t, err)
	if e.Reason != acquire.ReasonForbidden {
		t.Errorf("the failure itself must be told, not that of the cleanup: %v", err)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("took %v, the cleanup has a second", d)
	}
	if e.Cleanup == nil {
		t.Error("the error does not say that the deletion failed")
	}
	if states := w.leakStates(); len(states) == 0 || states[0] != acquire.LeakPending {
		t.Errorf("leaks: %v, want it pending", states)
	}
	time.Sleep(2 * time.Minute)
	over.Store(true)
	time.Sleep(2 * time.Minute)
	w.nothingLeft()
	if states := w.leakStates(); len(states) != 2 || states[1] != acquire.LeakReleased {
		t.Errorf("leaks: %v, want pending, then released", states)
	}
}

// Close drains what could not be deleted, and says what it had to give up.
func TestCloseDrains(t *testing.T) {
	for _, recovers := range []bool{true, false} {
		t.Run(map[bool]string{true: "recovers", false: "does not"}[recovers], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				down.Store(true)
				w := newWorld(t, setup{sim: func(c *sim.Config) {
					c.Fault = func(r *sim.Request) *sim.Fault {
						if r.Verb == "delete" && down.Load() {
							return &sim.Fault{Code: http.StatusServiceUnavailable}
						}
						if r.Resource == "pods" {
							return faults["403"](r)
						}
						return nil
					}
				}})
				_, err := w.backend.Create(t.Context(), acquire.Options{})
				if asError(t, err).Cleanup == nil {
					t.Fatal("the deletion was to fail")
				}
				if recovers {
					time.AfterFunc(3*time.Second, func() { down.Store(false) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err = w.backend.Close(ctx)
				if recovers {
					if err != nil {
						t.Errorf("Close: %v", err)
					}
					w.nothingLeft()
				} else {
					states := w.leakStates()
					if !errors.Is(err, context.DeadlineExceeded) || states[len(states)-1] != acquire.LeakAbandoned {
						t.Errorf("Close: %v, leaks %v: want it to say what it gave up", err, states)
					}
				}
				if _, err := w.backend.Create(t.Context(), acquire.Options{}); !errors.Is(err, acquire.ErrClosed) {
					t.Errorf("create after Close: %v", err)
				}
			})
		})
	}
}
