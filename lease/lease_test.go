package lease_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/lease"
)

func TestKeepRefuses(t *testing.T) {
	good := (&server{}).config(h)
	for _, c := range []struct {
		sentence string
		spoil    func(*lease.Config)
		want     string
	}{
		{"no TTL", func(c *lease.Config) { c.TTL = 0 }, "positive TTL"},
		{"a negative TTL", func(c *lease.Config) { c.TTL = -s }, "positive TTL"},
		{"a TTL that whole seconds cannot express", func(c *lease.Config) { c.TTL = 1999 * ms }, "positive TTL of at least 2s"},
		{"nothing to renew with", func(c *lease.Config) { c.Renew = nil }, "Renew"},
		{"no expiry to begin with", func(c *lease.Config) { c.Sent = time.Time{} }, "Sent"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			config := good
			c.spoil(&config)
			if l, err := lease.Keep(config); l != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Keep = %v, %v; want a refusal with %q", l, err, c.want)
			}
		})
	}
}

func TestRenewsEveryHalfTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		c := v.config(h)
		l := keep(t, c)
		if got := l.Expiry(); !got.Equal(c.Sent) {
			t.Errorf("Expiry before the first renewal = %v, want what was sent, %v", got, c.Sent)
		}
		time.Sleep(2 * h)
		synctest.Wait()
		if want := []time.Duration{first, first + 30*m, first + h, first + 90*m}; !slices.Equal(v.at(), want) {
			t.Errorf("renewed at %v, want %v", v.at(), want)
		}
		for _, c := range v.calls {
			if c.asked != c.at+h {
				t.Errorf("the renewal at %v asked for %v, want an hour later", c.at, c.asked)
			}
		}
		if got, want := l.Expiry(), v.start.Add(first+90*m+h); !got.Equal(want) || l.Err() != nil {
			t.Errorf("Expiry, Err = %v, %v; want %v, nil", got, l.Err(), want)
		}
		l.Stop()
	})
}

func TestSpreadOfTheRealSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		l, err := lease.Keep(v.config(h))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Stop()
		time.Sleep(1000 * h)
		synctest.Wait()
		at := v.at()
		if at[0] < 27*m || at[0] > 30*m {
			t.Errorf("first renewal at %v, want 27 to 30 minutes", at[0])
		}
		differ := map[time.Duration]bool{}
		for i := range at[1:] {
			gap := at[i+1] - at[i]
			differ[gap] = true
			if gap < 27*m || gap > 33*m {
				t.Fatalf("renewals %d and %d are %v apart, want 27 to 33 minutes", i, i+1, gap)
			}
		}
		if len(at) < 1700 || len(differ) < 1000 {
			t.Errorf("%d renewals with %d different gaps in 1000 hours", len(at), len(differ))
		}
	})
}

func TestAskedExpiriesAreWholeSecondsAndNeverGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		time.Sleep(123 * ms) // off the whole second
		var last time.Time
		v.reply = func(_ int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			if asked.Nanosecond() != 0 || asked.Location() != time.UTC {
				t.Errorf("asked for %v, want a whole second in UTC", asked)
			}
			if asked.Before(last) || !asked.After(time.Now()) {
				t.Errorf("asked for %v after %v at %v", asked, last, time.Now())
			}
			last = asked
			return lease.Renewed{Expiry: asked}, nil
		}
		l, err := lease.Keep(v.config(2 * s))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Stop()
		time.Sleep(h)
		synctest.Wait()
		if n := len(v.at()); n < 3600 || n > 7200 || l.Err() != nil {
			t.Errorf("%d renewals in an hour with the shortest TTL, Err = %v", n, l.Err())
		}
	})
}

func TestFirstRenewalIsCountedFromTheCreate(t *testing.T) {
	for _, c := range []struct {
		sentence string
		took     time.Duration // from the stamp to the lease
		want     time.Duration // from the lease to the first renewal
	}{
		{"a create of 20 minutes comes off the first wait", 20 * m, first - 20*m},
		{"a create that took half the TTL is renewed at once", 30 * m, 0},
		{"as is one that took longer", 59 * m, 0},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &server{}
				config := v.config(h)
				config.Sent = config.Sent.Add(-c.took)
				l := keep(t, config)
				defer l.Stop()
				time.Sleep(c.want)
				synctest.Wait()
				if at := v.at(); len(at) != 1 || at[0] != c.want {
					t.Errorf("renewed at %v, want once at %v", at, c.want)
				}
			})
		})
	}
}

func TestStopIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		l := keep(t, v.config(h))
		time.Sleep(h)
		var all sync.WaitGroup
		for range 10 {
			all.Go(l.Stop)
		}
		all.Wait()
		l.Stop()
		select {
		case <-l.Done():
		default:
			t.Error("Done is open after Stop")
		}
		if l.Err() != lease.ErrStopped {
			t.Errorf("Err = %v, want ErrStopped", l.Err())
		}
		before := len(v.at())
		time.Sleep(24 * h)
		if after := len(v.at()); after != before || before != 2 {
			t.Errorf("%d renewals before Stop and %d after, want 2 and 2", before, after)
		}
	})
}

func TestStopCancelsTheRenewalInFlightAndWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		returned := false
		v.reply = func(_ int, ctx context.Context, asked time.Time) (lease.Renewed, error) {
			<-ctx.Done()
			time.Sleep(s) // what a slow transport needs to let go
			returned = true
			return lease.Renewed{}, context.Cause(ctx)
		}
		l := keep(t, v.config(h))
		time.Sleep(first + 10*s)
		began := time.Now()
		l.Stop()
		if took := time.Since(began); took != s || !returned {
			t.Errorf("Stop took %v with the renewal returned: %v; want it to wait the second", took, returned)
		}
		if l.Err() != lease.ErrStopped || len(v.reported()) != 0 {
			t.Errorf("Err = %v, reported %v; want ErrStopped and no failure", l.Err(), v.reported())
		}
	})
}

func TestFailuresThenSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		failure := answer(k8s.ServerError, 500)
		v.reply = func(n int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			if n <= 2 || n == 5 {
				return lease.Renewed{}, failure
			}
			return lease.Renewed{Expiry: asked}, nil
		}
		c := v.config(h)
		l := keep(t, c)
		defer l.Stop()
		time.Sleep(first + 62*m)
		synctest.Wait()
		if want := []time.Duration{first, first + s, first + 3*s, first + 3*s + 30*m, first + 3*s + h, first + 4*s + h}; !slices.Equal(v.at(), want) {
			t.Errorf("renewed at %v, want %v", v.at(), want)
		}
		errs := v.reported()
		if len(errs) != 3 {
			t.Fatalf("reported %v, want each of the three failures once", errs)
		}
		if e, ok := errors.AsType[*lease.RenewError](errs[2]); !ok || e.Failures != 1 || e.Retry != s {
			t.Errorf("the failure after two renewals = %+v, want it counted as the first", errs[2])
		}
		for i, err := range errs[:2] {
			e, ok := errors.AsType[*lease.RenewError](err)
			if !ok || e.Failures != i+1 || e.Retry != s<<i || !e.Expiry.Equal(c.Sent) || !errors.Is(err, failure) {
				t.Errorf("report %d = %+v, want failure %d, retry in %v, held until %v", i, err, i+1, s<<i, c.Sent)
			}
			if !strings.Contains(err.Error(), "SandboxClaim c-1") || !strings.Contains(err.Error(), "500") {
				t.Errorf("report %q lacks the object or the answer", err)
			}
		}
	})
}

// An API server that starts answers 403 to everybody for a while, and one
// whose CRDs are being replaced answers 404 in plain text.
func TestAnswersThatAreNotTheEnd(t *testing.T) {
	for _, kind := range []k8s.Kind{k8s.Forbidden, k8s.NotServed, k8s.Unauthorized, k8s.Unreachable, k8s.TooManyRequests} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &server{}
				v.reply = func(_ int, _ context.Context, asked time.Time) (lease.Renewed, error) {
					if time.Since(v.start) < first+2*m {
						return lease.Renewed{}, answer(kind, 0)
					}
					return lease.Renewed{Expiry: asked}, nil
				}
				l := keep(t, v.config(h))
				defer l.Stop()
				time.Sleep(2 * h)
				synctest.Wait()
				if n := len(v.reported()); l.Err() != nil || n < 2 || l.Expiry().Before(time.Now()) {
					t.Errorf("after an outage of two minutes: Err = %v, %d failures reported, held until %v", l.Err(), n, l.Expiry())
				}
			})
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(n int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			if n == 1 {
				return lease.Renewed{}, &k8s.APIError{Kind: k8s.TooManyRequests, Code: 429, RetryAfter: 40 * s, HasRetryAfter: true}
			}
			return lease.Renewed{Expiry: asked}, nil
		}
		l := keep(t, v.config(h))
		defer l.Stop()
		time.Sleep(first + m)
		synctest.Wait()
		// 40 s, and half of a tenth of it so that a fleet does not come back at once.
		if want := []time.Duration{first, first + 42*s}; !slices.Equal(v.at(), want) {
			t.Errorf("renewed at %v, want %v", v.at(), want)
		}
	})
}

func TestAHangingRenewalIsGivenUpAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(_ int, ctx context.Context, _ time.Time) (lease.Renewed, error) {
			<-ctx.Done()
			return lease.Renewed{}, answer(k8s.Unreachable, 0)
		}
		l := keep(t, v.config(h))
		defer l.Stop()
		time.Sleep(first + m)
		synctest.Wait()
		if want := []time.Duration{first, first + 31*s}; !slices.Equal(v.at(), want) {
			t.Errorf("renewed at %v, want %v: 30 s for the first, then a second", v.at(), want)
		}
		if errs := v.reported(); len(errs) != 1 || !errors.Is(errs[0], lease.ErrNoAnswer) || !strings.Contains(errs[0].Error(), "30s") {
			t.Errorf("reported %v, want one ErrNoAnswer after 30s", errs)
		}
	})
}

func TestSlowRenewalsNeverOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(_ int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			time.Sleep(29 * s)
			return lease.Renewed{Expiry: asked}, nil
		}
		l := keep(t, v.config(h))
		defer l.Stop()
		time.Sleep(95 * m)
		synctest.Wait()
		if want := []time.Duration{first, first + 30*m + 29*s, first + h + 58*s}; !slices.Equal(v.at(), want) {
			t.Errorf("renewed at %v, want %v: the wait begins with the answer", v.at(), want)
		}
		if v.most != 1 || len(v.reported()) != 0 {
			t.Errorf("%d renewals at once, reported %v; want 1 and none", v.most, v.reported())
		}
	})
}

func TestAnAnswerThatArrivesWithTheBoundCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(_ int, ctx context.Context, asked time.Time) (lease.Renewed, error) {
			<-ctx.Done()
			return lease.Renewed{Expiry: asked}, nil
		}
		l := keep(t, v.config(h))
		defer l.Stop()
		time.Sleep(first + m)
		synctest.Wait()
		if want := v.start.Add(first + h); !l.Expiry().Equal(want) || len(v.reported()) != 0 {
			t.Errorf("Expiry = %v, reported %v; the server stored %v", l.Expiry(), v.reported(), want)
		}
	})
}
