package lease_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/lease"
)

// lostAt waits for the end of a lease and returns when it came and what it was.
func lostAt(t *testing.T, v *server, l *lease.Lease) (time.Duration, *lease.LostError) {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(1000 * h):
		t.Fatal("the lease did not end in 1000 hours")
	}
	at := time.Since(v.start)
	e, ok := errors.AsType[*lease.LostError](l.Err())
	if !ok {
		t.Fatalf("Err = %v, want a LostError", l.Err())
	}
	n := len(v.at())
	time.Sleep(24 * h)
	if after := len(v.at()); after != n {
		t.Errorf("%d renewals after the end", after-n)
	}
	l.Stop()
	if l.Err() != error(e) {
		t.Errorf("Err after Stop = %v, want what ended the lease", l.Err())
	}
	return at, e
}

func TestGone(t *testing.T) {
	for _, c := range []struct {
		sentence string
		err      error
	}{
		{"404 that names the object", answer(k8s.NotFound, 404)},
		{"410", answer(k8s.Gone, 410)},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &server{}
				v.reply = func(n int, _ context.Context, _ time.Time) (lease.Renewed, error) {
					if n == 1 {
						return lease.Renewed{}, answer(k8s.ServerError, 503)
					}
					return lease.Renewed{}, c.err
				}
				l := keep(t, v.config(h))
				at, e := lostAt(t, v, l)
				if at != first+s || e.Reason != lease.ReasonGone || !e.Gone || !errors.Is(e, c.err) {
					t.Errorf("lost at %v: %+v; want gone at %v", at, e, first+s)
				}
				if !strings.Contains(e.Error(), "SandboxClaim c-1 no longer exists on the cluster") {
					t.Errorf("text %q", e)
				}
				if len(v.reported()) != 1 {
					t.Errorf("reported %v, want the failure before the end and not the end", v.reported())
				}
			})
		})
	}
}

func TestAnotherSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(n int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			if n == 2 {
				return lease.Renewed{Expiry: asked, Lost: errOther}, nil
			}
			return lease.Renewed{Expiry: asked}, nil
		}
		l := keep(t, v.config(h))
		at, e := lostAt(t, v, l)
		if at != first+30*m || e.Reason != lease.ReasonChanged || e.Gone || !errors.Is(e, errOther) {
			t.Errorf("lost at %v: %+v; want changed at the second renewal, %v", at, e, first+30*m)
		}
	})
}

func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		failure := answer(k8s.Unreachable, 0)
		v.reply = func(int, context.Context, time.Time) (lease.Renewed, error) { return lease.Renewed{}, failure }
		c := v.config(h)
		l := keep(t, c)
		at, e := lostAt(t, v, l)
		if at != h+2*s || e.Reason != lease.ReasonExpired || e.Gone || !errors.Is(e, failure) || !e.Expiry.Equal(c.Sent) {
			t.Errorf("lost at %v: %+v; want expired two seconds after %v", at, e, c.Sent)
		}
		calls := v.at()
		for i, want := range []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s} {
			if got := calls[i+1] - calls[i]; got != want {
				t.Errorf("attempts %d and %d are %v apart, want %v", i+1, i+2, got, want)
			}
		}
		if last := calls[len(calls)-1]; last < h-30*s {
			t.Errorf("the last attempt was at %v: it gave up early", last)
		}
		if len(v.reported()) != len(calls) {
			t.Errorf("%d failures reported of %d", len(v.reported()), len(calls))
		}
	})
}

func TestARenewalThatHangsDoesNotOutliveTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(n int, ctx context.Context, _ time.Time) (lease.Renewed, error) {
			if n > 1 { // the first fails at once, so that the last begins a second before the end
				<-ctx.Done()
			}
			return lease.Renewed{}, answer(k8s.Unreachable, 0)
		}
		l := keep(t, v.config(h))
		at, e := lostAt(t, v, l)
		if at != h+2*s || e.Reason != lease.ReasonExpired || !errors.Is(e, lease.ErrNoAnswer) {
			t.Errorf("lost at %v: %v; want expired at exactly %v", at, e, h+2*s)
		}
		if calls := v.at(); calls[len(calls)-1] != h+s {
			t.Errorf("the last attempt began at %v; this test needs one a second before the end", calls[len(calls)-1])
		}
	})
}

func TestBornExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		c := v.config(h)
		c.Sent = v.start.Add(-m)
		l := keep(t, c)
		at, e := lostAt(t, v, l)
		if at != 0 || e.Reason != lease.ReasonExpired || e.Err != nil || len(v.at()) != 0 {
			t.Errorf("lost at %v: %+v after %d renewals; want expired at once and nothing sent", at, e, len(v.at()))
		}
	})
}

// The controller expires an object at the whole second before its stamp.
func TestTheFractionOfTheFirstExpiryDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(int, context.Context, time.Time) (lease.Renewed, error) {
			return lease.Renewed{}, answer(k8s.Unreachable, 0)
		}
		c := v.config(m)
		c.Sent = c.Sent.Add(999 * ms)
		l := keep(t, c)
		if at, _ := lostAt(t, v, l); at != m+2*s {
			t.Errorf("lost at %v, want %v", at, m+2*s)
		}
	})
}

func TestAnAcceptedRenewalWithoutEffectIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		c := v.config(h)
		v.reply = func(_ int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			return lease.Renewed{Expiry: c.Sent}, nil // 200, and the old expiry
		}
		l := keep(t, c)
		at, e := lostAt(t, v, l)
		stale, ok := errors.AsType[*lease.StaleError](e)
		if at != h+2*s || e.Reason != lease.ReasonExpired || !ok || !stale.Stored.Equal(c.Sent) || !stale.Asked.After(c.Sent) {
			t.Errorf("lost at %v: %v; want expired, wrapping what was asked and stored", at, e)
		}
		if n := len(v.reported()); n < 50 {
			t.Errorf("%d failures reported in half an hour of retries", n)
		}
	})
}

func TestAnAnswerWithoutAnExpiryIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		c := v.config(h)
		v.reply = func(n int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			if n == 1 {
				return lease.Renewed{}, nil
			}
			return lease.Renewed{Expiry: asked}, nil
		}
		l := keep(t, c)
		defer l.Stop()
		time.Sleep(h)
		synctest.Wait()
		if errs := v.reported(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "stores none") {
			t.Errorf("reported %v, want one failure", errs)
		}
		if want := []time.Duration{first, first + s, first + 30*m + s}; !slices.Equal(v.at(), want) {
			t.Errorf("renewed at %v, want %v", v.at(), want)
		}
	})
}

// A webhook may cap how far ahead an expiry may be. What the server stores is
// what counts, however much was asked for.
func TestALeaseIsHeldForWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(_ int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			return lease.Renewed{Expiry: asked.Add(-50 * m)}, nil
		}
		l := keep(t, v.config(h))
		time.Sleep(5 * h)
		synctest.Wait()
		if left := time.Until(l.Expiry()); l.Err() != nil || left < 9*m || left > 10*m {
			t.Errorf("Err = %v with %v left; want it held for the ten minutes that the server allows", l.Err(), left)
		}
		v.breakDown()
		expiry := l.Expiry()
		at, e := lostAt(t, v, l)
		if want := expiry.Add(2 * s).Sub(v.start); at != want || e.Reason != lease.ReasonExpired {
			t.Errorf("lost at %v: %v; want expired at %v", at, e, want)
		}
	})
}

func TestServerClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		c := v.config(h)
		c.Offset = func() time.Duration { return 3 * h }
		c.Sent = c.Sent.Add(3 * h)
		l := keep(t, c)
		time.Sleep(first)
		synctest.Wait()
		if len(v.calls) != 1 || v.calls[0] != (call{first, first + 4*h}) {
			t.Errorf("renewals %v, want one at %v that asks for an hour on the server's clock", v.calls, first)
		}
		v.breakDown()
		if at, _ := lostAt(t, v, l); at != first+h+2*s {
			t.Errorf("lost at %v, want %v", at, first+h+2*s)
		}
	})
}

// What an expiry was once stored as is not taken back because a clock was set.
func TestAClockThatIsSetBackDoesNotShortenTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		c := v.config(h)
		var offset atomic.Int64
		c.Offset = func() time.Duration { return time.Duration(offset.Load()) }
		l := keep(t, c)
		defer l.Stop()
		time.Sleep(first - s)
		offset.Store(int64(-2 * h))
		time.Sleep(s)
		synctest.Wait()
		if len(v.calls) != 1 || v.calls[0] != (call{first, h}) || l.Err() != nil {
			t.Errorf("renewals %v, Err %v; want one that asks for no less than is stored", v.calls, l.Err())
		}
	})
}
