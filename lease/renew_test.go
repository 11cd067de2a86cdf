package lease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/lease"
)

func TestRenewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(n int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			if n == 2 {
				return lease.Renewed{}, answer(k8s.Forbidden, 403)
			}
			return lease.Renewed{Expiry: asked}, nil
		}
		l := keep(t, v.config(h))
		defer l.Stop()
		time.Sleep(10 * m)
		if err := l.Renew(t.Context()); err != nil || !l.Expiry().Equal(v.start.Add(70*m)) {
			t.Errorf("Renew = %v, Expiry = %v; want an hour from now", err, l.Expiry())
		}
		time.Sleep(10 * m)
		err := l.Renew(t.Context())
		if e, ok := errors.AsType[*lease.RenewError](err); !ok || e.Failures != 1 || k8s.KindOf(err) != k8s.Forbidden {
			t.Errorf("Renew = %v, want the refusal", err)
		}
		if got := v.reported(); len(got) != 1 || got[0] != err {
			t.Errorf("reported %v, want the same failure", got)
		}
		time.Sleep(m)
		synctest.Wait()
		if want := []time.Duration{10 * m, 20 * m, 20*m + s}; !slices.Equal(v.at(), want) {
			t.Errorf("renewed at %v, want %v: the failure is retried by the lease itself", v.at(), want)
		}
	})
}

func TestRenewWaitsForTheOneInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{}
		v.reply = func(_ int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			time.Sleep(10 * s)
			return lease.Renewed{Expiry: asked}, nil
		}
		l := keep(t, v.config(h))
		defer l.Stop()
		time.Sleep(first + s)
		err := l.Renew(t.Context())
		if at, want := v.at(), []time.Duration{first, first + 10*s}; err != nil || !slices.Equal(at, want) || v.most != 1 {
			t.Errorf("Renew = %v, renewed at %v, %d at once; want %v, one at a time", err, at, v.most, want)
		}
	})
}

func TestRenewEndsWithItsContextAndWithTheLease(t *testing.T) {
	errAbort := errors.New("the user closed the window")
	hang := func(_ int, ctx context.Context, _ time.Time) (lease.Renewed, error) {
		<-ctx.Done()
		return lease.Renewed{}, context.Cause(ctx)
	}
	for _, c := range []struct {
		sentence string
		reply    func(int, context.Context, time.Time) (lease.Renewed, error)
		end      func(l *lease.Lease, cancel context.CancelCauseFunc)
		want     func(error) bool
	}{
		{"the caller goes away before", nil, func(_ *lease.Lease, cancel context.CancelCauseFunc) { cancel(errAbort) },
			func(err error) bool { return err == errAbort }},
		{"the caller goes away while the server thinks", hang,
			func(_ *lease.Lease, cancel context.CancelCauseFunc) { time.AfterFunc(s, func() { cancel(errAbort) }) },
			func(err error) bool { return err == errAbort }},
		{"the lease is stopped before", nil, func(l *lease.Lease, _ context.CancelCauseFunc) { l.Stop() },
			func(err error) bool { return err == lease.ErrStopped }},
		{"the lease is stopped while the server thinks", hang,
			func(l *lease.Lease, _ context.CancelCauseFunc) { time.AfterFunc(s, l.Stop) },
			func(err error) bool { return err == lease.ErrStopped }},
		{"the answer shows another sandbox", func(_ int, _ context.Context, asked time.Time) (lease.Renewed, error) {
			return lease.Renewed{Expiry: asked, Lost: errOther}, nil
		}, func(*lease.Lease, context.CancelCauseFunc) {},
			func(err error) bool {
				e, ok := errors.AsType[*lease.LostError](err)
				return ok && e.Reason == lease.ReasonChanged
			}},
		{"the object is gone", func(int, context.Context, time.Time) (lease.Renewed, error) {
			return lease.Renewed{}, answer(k8s.NotFound, 404)
		}, func(*lease.Lease, context.CancelCauseFunc) {},
			func(err error) bool {
				e, ok := errors.AsType[*lease.LostError](err)
				return ok && e.Gone
			}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &server{reply: c.reply}
				l := keep(t, v.config(h))
				defer l.Stop()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				c.end(l, cancel)
				if err := l.Renew(ctx); !c.want(err) {
					t.Errorf("Renew = %v", err)
				}
			})
		})
	}
}

func TestRenewAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{reply: func(int, context.Context, time.Time) (lease.Renewed, error) {
			return lease.Renewed{}, answer(k8s.Gone, 410)
		}}
		l := keep(t, v.config(h))
		_, e := lostAt(t, v, l)
		if err := l.Renew(t.Context()); err != error(e) {
			t.Errorf("Renew = %v, want %v", err, e)
		}
	})
}
