package k8s_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

func TestARequestHasItsOwnBound(t *testing.T) {
	blackhole := func(c *k8s.Config) {
		c.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	}
	for _, c := range []struct {
		why        string
		handle     func(int, http.ResponseWriter, *http.Request)
		edit       func(*k8s.Config)
		want       time.Duration
		notApplied bool
		code       int
	}{
		{"a silent server, by default", hang, nil, 30 * time.Second, false, 0},
		{"a silent server, with a bound", hang, func(c *k8s.Config) { c.RequestTimeout = time.Second }, time.Second, false, 0},
		{"no connection", hang, blackhole, 30 * time.Second, true, 0},
		{"a body that stops", func(n int, w http.ResponseWriter, r *http.Request) {
			reply(w, 200, `{"kind":`)
			w.(http.Flusher).Flush()
			hang(n, w, r)
		}, nil, 30 * time.Second, false, 200},
		{"a body that drips", func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				io.WriteString(w, " ")
				w.(http.Flusher).Flush()
				pause(r, time.Second)
			}
		}, nil, 30 * time.Second, false, 200},
		{"the body of an error that stops", func(n int, w http.ResponseWriter, r *http.Request) {
			reply(w, 409, `{"kind":`)
			w.(http.Flusher).Flush()
			hang(n, w, r)
		}, nil, 30 * time.Second, false, 409},
		{"the token and the answer together", func(_ int, w http.ResponseWriter, r *http.Request) {
			pause(r, 20*time.Second)
			reply(w, 201, claim("a"))
		}, func(c *k8s.Config) {
			c.Token = func(context.Context) (string, error) { time.Sleep(20 * time.Second); return secret, nil }
		}, 30 * time.Second, false, 0},
		{"a repetition after a 401 as well", func(n int, w http.ResponseWriter, r *http.Request) {
			pause(r, 20*time.Second)
			accept("T3")(n, w, r)
		}, func(c *k8s.Config) { c.Token, _ = tokens("T1", "T2") }, 30 * time.Second, false, 0},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.edit == nil {
					c.edit = func(*k8s.Config) {}
				}
				client, _ := serve(t, c.handle, c.edit)
				start := time.Now()
				err := post(t.Context(), client)
				e := apiError(t, err, k8s.Timeout)
				if took := time.Since(start); took != c.want || e.NotApplied != c.notApplied || e.Code != c.code {
					t.Errorf("after %v, NotApplied %v, code %d, want %v, %v, %d", took, e.NotApplied, e.Code, c.want, c.notApplied, c.code)
				}
				words := "the server may have applied it"
				if c.notApplied {
					words = "it was not sent"
				}
				for _, want := range []string{"POST " + claimsPath, "RequestTimeout", c.want.String(), words} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
				if strings.Contains(err.Error(), "failed") || !k8s.SafeToRetry(err) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%q: a bound of ours is no failure of the network and no deadline of the caller's", err)
				}
			})
		})
	}
}

// pause lets a handler wait, but not longer than its client.
func pause(r *http.Request, d time.Duration) { <-after(r.Context(), d).Done() }

func TestTheNearerOfTwoBoundsEndsARequest(t *testing.T) {
	for _, c := range []struct {
		caller, own, want time.Duration
		callers           bool
	}{
		{20 * time.Second, 30 * time.Second, 20 * time.Second, true},
		{40 * time.Second, 30 * time.Second, 30 * time.Second, false},
		{30 * time.Second, 30 * time.Second, 30 * time.Second, true}, // both at once: the caller
	} {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, hang, func(cfg *k8s.Config) { cfg.RequestTimeout = c.own })
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), c.caller)
			defer cancel()
			err := post(ctx, client)
			if took := time.Since(start); took != c.want {
				t.Errorf("caller %v, own %v: it took %v, want %v", c.caller, c.own, took, c.want)
			}
			if c.callers && err != context.DeadlineExceeded || !c.callers && k8s.KindOf(err) != k8s.Timeout {
				t.Errorf("caller %v, own %v: got %v", c.caller, c.own, err)
			}
		})
	}
}

// A caller that gives up takes its connection away from the server.
func TestTheServerSeesThatACallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan time.Time, 1)
		client, _ := serve(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			gone <- time.Now()
		})
		start := time.Now()
		if err := post(after(t.Context(), 10*time.Millisecond), client); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		if took := (<-gone).Sub(start); took != 10*time.Millisecond {
			t.Errorf("the server saw it after %v, want 10ms", took)
		}
	})
}
