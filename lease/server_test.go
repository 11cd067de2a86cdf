package lease_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/lease"
)

// A server stores one expiry. The zero reply is a healthy one.
type server struct {
	reply func(n int, ctx context.Context, asked time.Time) (lease.Renewed, error) // n counts from 1

	mu     sync.Mutex // guards the rest
	start  time.Time
	calls  []call
	broken bool
	inside int // renewals being answered now
	most   int // at once, ever
	errs   []error
}

type call struct {
	at    time.Duration // since the lease began
	asked time.Duration // the expiry, likewise
}

func (v *server) renew(ctx context.Context, asked time.Time) (lease.Renewed, error) {
	v.mu.Lock()
	v.calls = append(v.calls, call{time.Since(v.start), asked.Sub(v.start)})
	n := len(v.calls)
	v.inside++
	v.most = max(v.most, v.inside)
	broken := v.broken
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		v.inside--
		v.mu.Unlock()
	}()
	if broken {
		return lease.Renewed{}, answer(k8s.Unreachable, 0)
	}
	if v.reply != nil {
		return v.reply(n, ctx, asked)
	}
	return lease.Renewed{Expiry: asked}, nil
}

// breakDown makes every renewal from now on fail, whatever reply says.
func (v *server) breakDown() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.broken = true
}

func (v *server) onError(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.errs = append(v.errs, err)
}

// at returns when the renewals were sent.
func (v *server) at() []time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	var at []time.Duration
	for _, c := range v.calls {
		at = append(at, c.at)
	}
	return at
}

func (v *server) reported() []error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]error(nil), v.errs...)
}

// config is for an object that was created just now, on the server's clock.
func (v *server) config(ttl time.Duration) lease.Config {
	v.start = time.Now()
	return lease.Config{
		Object: "SandboxClaim c-1", TTL: ttl, Sent: v.start.Add(ttl).UTC(),
		Renew: v.renew, OnError: v.onError,
	}
}

// keep starts a lease whose spread is nil, except that the first renewal is a
// fortieth of the TTL early: for an hour, 28 min 30 s after the create.
func keep(t *testing.T, c lease.Config) *lease.Lease {
	t.Helper()
	l, err := lease.KeepWith(c, func() float64 { return 0.5 })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const first = 28*m + 30*s // of a TTL of an hour
