package k8s_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

func TestTheScheduleOfRetries(t *testing.T) {
	const ms, forever = time.Millisecond, time.Duration(math.MaxInt64)
	busy := &k8s.APIError{Kind: k8s.ServerError}
	asked := &k8s.APIError{Kind: k8s.TooManyRequests, RetryAfter: 3 * time.Second, HasRetryAfter: true}
	for _, c := range []struct {
		why    string
		b      k8s.Backoff
		err    error
		n      int
		random float64
		left   time.Duration
		want   time.Duration
		again  bool
	}{
		{"the first, at most", k8s.Backoff{}, busy, 0, 1, forever, 50 * ms, true},
		{"the first, half of it", k8s.Backoff{}, busy, 0, 0.5, forever, 25 * ms, true},
		{"the first, at once", k8s.Backoff{}, busy, 0, 0, forever, 0, true},
		{"it doubles", k8s.Backoff{}, busy, 1, 1, forever, 100 * ms, true},
		{"and again", k8s.Backoff{}, busy, 5, 1, forever, 1600 * ms, true},
		{"up to the greatest", k8s.Backoff{}, busy, 6, 1, forever, 2 * time.Second, true},
		{"however often", k8s.Backoff{}, busy, math.MaxInt, 1, forever, 2 * time.Second, true},
		{"with its own numbers", k8s.Backoff{Initial: 3 * ms, Max: 7 * ms}, busy, 1, 1, forever, 6 * ms, true},
		{"with its own greatest", k8s.Backoff{Initial: 3 * ms, Max: 7 * ms}, busy, 2, 1, forever, 7 * ms, true},
		{"with a first over the greatest", k8s.Backoff{Initial: 9 * ms, Max: 7 * ms}, busy, 0, 1, forever, 7 * ms, true},
		{"with enormous numbers", k8s.Backoff{Initial: forever, Max: forever}, busy, 9, 0.5, forever, forever/2 + 1, true},
		{"what the server asks for comes on top", k8s.Backoff{}, asked, 0, 0.5, forever, 3025 * ms, true},
		{"but not beyond what is left", k8s.Backoff{}, asked, 0, 1, 3010 * ms, 3 * time.Second, true},
		{"more than is left is not waited for", k8s.Backoff{}, asked, 0, 0, 3 * time.Second, 0, false},
		{"a failure that stays", k8s.Backoff{}, &k8s.APIError{Kind: k8s.Forbidden}, 0, 1, forever, 0, false},
		{"a failure of something else", k8s.Backoff{}, errors.New("x"), 0, 1, forever, 0, false},
	} {
		got, again := c.b.Next(c.err, c.n, c.random, c.left)
		if got != c.want || again != c.again {
			t.Errorf("%s: got %v, %v, want %v, %v", c.why, got, again, c.want, c.again)
		}
	}
}

func TestBackoffWaitIsForCallersWhoKnow(t *testing.T) {
	conflict := &k8s.APIError{Kind: k8s.Conflict} // no read that fails so is repeated
	for range 100 {
		if wait, again := (k8s.Backoff{}).Wait(1, conflict, time.Hour); !again || wait < 0 || wait >= 100*time.Millisecond {
			t.Fatalf("got %v, %v, want less than 100ms", wait, again)
		}
	}
	asked := &k8s.APIError{Kind: k8s.TooManyRequests, RetryAfter: time.Minute, HasRetryAfter: true}
	if wait, again := (k8s.Backoff{Initial: math.MaxInt64, Max: math.MaxInt64}).Wait(0, asked, 2*time.Minute); !again || wait < time.Minute || wait >= 2*time.Minute {
		t.Errorf("got %v, %v, want at least what was asked for and less than what is left", wait, again)
	}
	if wait, again := (k8s.Backoff{}).Wait(0, asked, time.Minute); again {
		t.Errorf("got %v, but there is not as much time left", wait)
	}
}

func TestWhatIsSafeToRetry(t *testing.T) {
	safe := map[k8s.Kind]bool{k8s.Unreachable: true, k8s.Timeout: true, k8s.TooManyRequests: true, k8s.ServerError: true}
	for _, kind := range []k8s.Kind{
		k8s.Unreachable, k8s.Timeout, k8s.Unauthorized, k8s.Forbidden, k8s.NotFound, k8s.NotServed, k8s.MethodNotAllowed, k8s.Gone,
		k8s.Conflict, k8s.Exists, k8s.Invalid, k8s.BadRequest, k8s.TooManyRequests, k8s.ServerError, k8s.Redirect, k8s.TooLarge,
		k8s.Protocol, k8s.Credential, k8s.Status,
	} {
		err := errors.Join(errors.New("around"), &k8s.APIError{Kind: kind})
		if got := k8s.SafeToRetry(err); got != safe[kind] {
			t.Errorf("%s: %v, want %v", kind, got, safe[kind])
		}
		if got := k8s.KindOf(err); got != kind {
			t.Errorf("KindOf a wrapped %s is %q", kind, got)
		}
	}
	if k8s.SafeToRetry(nil) || k8s.SafeToRetry(context.Canceled) || k8s.KindOf(nil) != "" || k8s.IsNotFound(nil) {
		t.Error("what is no APIError has no kind")
	}
}

// retried reads a claim with the given chance and returns when requests came.
func retried(t *testing.T, ctx context.Context, random float64, handle func(int, http.ResponseWriter, *http.Request)) (at []time.Duration, err error) {
	start := time.Now()
	client, server := serve(t, handle)
	o, err := k8s.RetryReadWith(ctx, k8s.Backoff{}, func() float64 { return random }, func(ctx context.Context) (k8s.Object, error) {
		return client.Get(ctx, k8s.SandboxClaims, "a")
	})
	if err == nil && o.Name() != "a" {
		t.Errorf("got %v", o)
	}
	for _, r := range server.requests() {
		at = append(at, r.At.Sub(start))
	}
	return at, err
}

// after429s answers n times with 429, and then with a claim.
func after429s(n int, retryAfter string) func(int, http.ResponseWriter, *http.Request) {
	return func(i int, w http.ResponseWriter, r *http.Request) {
		if i > n {
			reply(w, 200, claim("a"))
			return
		}
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
	}
}

func TestRetryRead(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		why    string
		random float64
		handle func(int, http.ResponseWriter, *http.Request)
		want   []time.Duration // when requests arrive
	}{
		{"at least as long as the server asks", 0, after429s(2, "1"), []time.Duration{0, time.Second, 2 * time.Second}},
		{"and some more, so that not all come back at once", 0.5, after429s(2, "1"), []time.Duration{0, 1025 * ms, 2075 * ms}},
		{"by its own schedule if the server does not ask", 1, after429s(4, ""), []time.Duration{0, 50 * ms, 150 * ms, 350 * ms, 750 * ms}},
		{"after a broken connection", 1, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				cut(w, "")
				return
			}
			reply(w, 200, claim("a"))
		}, []time.Duration{0, 50 * ms}},
		{"after a body that broke off", 1, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				cut(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
				return
			}
			reply(w, 200, claim("a"))
		}, []time.Duration{0, 50 * ms}},
		{"after 500, 502, 503 and 504", 1, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n > 4 {
				reply(w, 200, claim("a"))
				return
			}
			reply(w, []int{500, 502, 503, 504}[n-1], "")
		}, []time.Duration{0, 50 * ms, 150 * ms, 350 * ms, 750 * ms}},
		{"after a silence", 1, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				hang(n, w, r)
				return
			}
			reply(w, 200, claim("a"))
		}, []time.Duration{0, 30*time.Second + 50*ms}},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at, err := retried(t, t.Context(), c.random, c.handle)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(at, c.want) {
					t.Errorf("requests came at %v, want %v", at, c.want)
				}
			})
		})
	}
}

func TestWhatRetryReadGivesUpOn(t *testing.T) {
	reason := errors.New("the caller has changed its mind")
	for code, kind := range map[int]k8s.Kind{403: k8s.Forbidden, 404: k8s.NotServed, 400: k8s.BadRequest, 200: k8s.Protocol} {
		synctest.Test(t, func(t *testing.T) {
			at, err := retried(t, t.Context(), 1, always(code, "x"))
			if k8s.KindOf(err) != kind || len(at) != 1 {
				t.Errorf("%d: got %v after %d requests, want %s after one", code, err, len(at), kind)
			}
		})
	}
	t.Run("a wait beyond the deadline, at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			at, err := retried(t, after(t.Context(), 10*time.Second), 1, after429s(1, "10"))
			e := apiError(t, err, k8s.TooManyRequests)
			if e.RetryAfter != 10*time.Second || time.Since(start) != 0 || len(at) != 1 {
				t.Errorf("RetryAfter %v, %d requests, after %v", e.RetryAfter, len(at), time.Since(start))
			}
		})
	})
	t.Run("the deadline, which keeps the last failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reason)
			defer cancel()
			start := time.Now()
			at, err := retried(t, ctx, 1, always(503, failure(503, "ServiceUnavailable")))
			e, ok := errors.AsType[*k8s.ExhaustedError](err)
			if !ok || e.Attempts != 5 || len(at) != 5 || time.Since(start) != time.Second {
				t.Fatalf("got %v after %v and %d requests, want an ExhaustedError after 1s and 5", err, time.Since(start), len(at))
			}
			if !errors.Is(err, reason) || k8s.KindOf(err) != k8s.ServerError || !strings.Contains(err.Error(), "gave up after 5 attempts") {
				t.Errorf("%v must tell the cause and the last failure", err)
			}
		})
	})
	t.Run("the deadline in the middle of a request, which keeps the failure before it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			at, err := retried(t, after(t.Context(), time.Second), 1, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					reply(w, 503, failure(503, "ServiceUnavailable"))
					return
				}
				hang(n, w, r)
			})
			if !errors.Is(err, context.DeadlineExceeded) || k8s.KindOf(err) != k8s.ServerError || len(at) != 2 {
				t.Errorf("got %v after %d requests", err, len(at))
			}
		})
	})
	t.Run("the deadline before anything has failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if _, err := retried(t, after(t.Context(), time.Second), 1, hang); err != context.DeadlineExceeded {
				t.Errorf("got %v, want the bare cause", err)
			}
		})
	})
	t.Run("a cancellation while it waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			context.AfterFunc(after(t.Context(), 20*time.Millisecond), func() { cancel(reason) })
			start := time.Now()
			_, err := retried(t, ctx, 1, always(500, "x"))
			if err != reason || time.Since(start) != 20*time.Millisecond {
				t.Errorf("got %v after %v, want the caller's reason after 20ms", err, time.Since(start))
			}
		})
	})
}

func TestRetryReadDrawsItsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := map[time.Duration]bool{}
		for range 20 {
			start, n := time.Now(), 0
			_, err := k8s.RetryRead(t.Context(), k8s.Backoff{}, func(context.Context) (int, error) {
				if n++; n == 1 {
					return 0, &k8s.APIError{Kind: k8s.ServerError}
				}
				return n, nil
			})
			took := time.Since(start)
			if err != nil || took < 0 || took >= 50*time.Millisecond {
				t.Errorf("waited %v, %v", took, err)
			}
			waits[took] = true
		}
		if len(waits) < 10 {
			t.Errorf("20 waits were of %d lengths", len(waits))
		}
	})
}
