package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/sim"
)

func claim(name, host string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": name, "labels": map[string]any{"host": host}},
		"spec":     map[string]any{"warmPoolRef": map[string]any{"name": "pool"}},
	}
}

func TestReleaseSelected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{sim: func(c *sim.Config) {
			c.Fault = func(r *sim.Request) *sim.Fault {
				switch {
				case r.Verb == "delete" && r.Name == "stuck":
					return faults["403"](r)
				case r.Verb == "delete" && r.Name == "gone":
					return faults["404"](r)
				case r.Verb == "delete" && r.Name == "slow" && r.N%2 == 0:
					return faults["429"](r)
				}
				return nil
			}
		}})
		for _, name := range []string{"one", "stuck", "gone", "slow", "two"} {
			if err := w.sim.Apply("sandboxclaims", claim(name, "mine")); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 30 {
			if err := w.sim.Apply("sandboxclaims", claim(fmt.Sprintf("other-%d", i), "theirs")); err != nil {
				t.Fatal(err)
			}
		}
		got, err := w.backend.ReleaseSelected(t.Context(), "host=mine", acquire.SelectOptions{})
		if err == nil || !strings.Contains(err.Error(), "SandboxClaim stuck") {
			t.Errorf("error %v does not name what failed", err)
		}
		slices.Sort(got.Deleted)
		if !slices.Equal(got.Deleted, []string{"one", "slow", "two"}) || !slices.Equal(got.AlreadyGone, []string{"gone"}) || !slices.Equal(got.Failed, []string{"stuck"}) {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Second)
		left := 0
		for _, o := range w.sim.List("sandboxclaims") {
			if labels, _ := o["metadata"].(map[string]any)["labels"].(map[string]any); labels["host"] == "theirs" {
				left++
			}
		}
		if left != 30 {
			t.Errorf("%d of 30 claims of another host are left", left)
		}
	})
}

func TestReleaseSelectedRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{})
		w.sim.ResetRequests()
		for _, selector := range []string{"", "  ", "!pinned", "pinned", "host!=mine", "host notin (a,b)", "a=b,", "a b", "=x", "host=mine,ä=b"} {
			if _, err := w.backend.ReleaseSelected(t.Context(), selector, acquire.SelectOptions{}); err == nil {
				t.Errorf("selector %q was accepted", selector)
			}
		}
		if log := w.log(); len(log) != 0 {
			t.Errorf("requests were sent: %q", log)
		}
		if _, err := w.backend.ReleaseSelected(t.Context(), "!pinned", acquire.SelectOptions{AllowBroad: true}); err != nil {
			t.Error(err)
		}
		if got, err := w.backend.ReleaseSelected(t.Context(), "host in (nobody), x!=y", acquire.SelectOptions{}); err != nil || len(got.Deleted) != 0 {
			t.Errorf("nothing to release: %+v, %v", got, err)
		}
	})
}

// A release has time of its own, and no more than that, whatever its caller has.
func TestReleaseHasTime(t *testing.T) {
	cause := errors.New("the user closed the tab")
	for _, tt := range []struct {
		name  string
		ended bool // the caller's context
		down  bool // the API server, for the deletion
		most  time.Duration
	}{
		{"the caller's time is up", true, false, 0},
		{"and nobody answers", true, true, time.Second},
		{"the caller has time without end, and nobody answers", false, true, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				down.Store(tt.down)
				w := newWorld(t, setup{sim: func(c *sim.Config) {
					c.Fault = func(r *sim.Request) *sim.Fault {
						if r.Verb == "delete" && down.Load() {
							return &sim.Fault{ResetBefore: true}
						}
						return nil
					}
				}})
				sb, err := w.backend.Create(t.Context(), acquire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.ended {
					cancel(cause)
				}
				start := time.Now()
				err = sb.Release(ctx)
				if took := time.Since(start); took > tt.most {
					t.Errorf("took %v, want %v at most", took, tt.most)
				}
				if (err != nil) != tt.down || tt.down && tt.ended && !errors.Is(err, cause) {
					t.Errorf("got %v", err)
				}
				if sb.Err() == nil {
					t.Error("the handle goes on")
				}
				down.Store(false)
				time.Sleep(time.Minute) // the Backend goes on trying
				w.nothingLeft()
			})
		})
	}
}

// Close with a context that has ended deletes what it can in a moment.
func TestCloseHasTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		w := newWorld(t, setup{sim: func(c *sim.Config) {
			c.Fault = func(r *sim.Request) *sim.Fault {
				if r.Verb == "delete" && down.Load() {
					return &sim.Fault{Code: http.StatusServiceUnavailable}
				}
				return nil
			}
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sb, err := w.backend.Create(ctx, acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := sb.Release(ctx); err == nil {
			t.Error("released although nothing can be deleted")
		}
		down.Store(false)
		if err := w.backend.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		w.nothingLeft()
	})
}

func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{})
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		other := claim("elsewhere", "x")
		other["spec"] = map[string]any{"warmPoolRef": map[string]any{"name": "another"}}
		if err := w.sim.Apply("sandboxclaims", other); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		got, err := w.backend.Capacity(t.Context())
		if want := (acquire.Capacity{Ready: 3, Desired: 3, Claims: 1}); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		sb.Release(t.Context())
	})
}

// With a watch the claim comes by itself.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*sim.Request) *sim.Fault
		gets  int // looks at the claim at most
	}{
		"granted":     {nil, 0},
		"not granted": {func(r *sim.Request) *sim.Fault { return faults["403"](r) }, 20},
		"not known":   {func(*sim.Request) *sim.Fault { return &sim.Fault{Code: 405} }, 20},
		"held back":   {func(*sim.Request) *sim.Fault { return &sim.Fault{Hang: true} }, 3},
		"cut at once": {func(*sim.Request) *sim.Fault { return &sim.Fault{ResetBefore: true} }, 20},
		"too old":     {func(*sim.Request) *sim.Fault { return &sim.Fault{Code: 410} }, 20},
		"not a stream": {func(*sim.Request) *sim.Fault {
			return &sim.Fault{Code: 200, ContentType: "text/html", Body: []byte("<html>")}
		}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, setup{
					sim: func(s *sim.Config) {
						s.Bind = 200 * time.Millisecond
						s.Fault = func(r *sim.Request) *sim.Fault {
							if r.Verb == "watch" && c.fault != nil {
								return c.fault(r)
							}
							return nil
						}
					},
					backend: func(c *acquire.Config) { c.Watch = true },
				})
				for range 2 {
					w.sim.ResetRequests()
					sb, err := w.backend.Create(t.Context(), acquire.Options{})
					if err != nil {
						t.Fatal(err)
					}
					gets := 0
					for _, line := range w.log() {
						if line == "get sandboxclaims" {
							gets++
						}
					}
					if gets > c.gets {
						t.Errorf("%d looks at the claim beside the watch, want at most %d", gets, c.gets)
					}
					sb.Release(t.Context())
				}
				if name == "not granted" && slices.Contains(w.log(), "watch sandboxclaims") {
					t.Error("a watch that was refused is tried again by the next create")
				}
			})
		})
	}
}
