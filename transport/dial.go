package transport

import (
	"context"
	"net"
	"strconv"
	"time"
)

// dial makes one connection to the guest, with as many attempts as the budget
// allows. The name is resolved in each of them.
func (a *Agent) dial(ctx context.Context, b *binding, op string) (net.Conn, error) {
	start := time.Now()
	for n := 1; ; n++ {
		left := a.config.DialBudget - time.Since(start)
		conn, err := a.attempt(ctx, b, min(a.config.AttemptTimeout, left))
		if err == nil {
			return conn, nil
		}
		again := dialAgain(err, b.Host, time.Since(start), a.config.DialBudget) &&
			sleep(ctx, min(dialPause, a.config.DialBudget-time.Since(start))) == nil &&
			time.Since(start) < a.config.DialBudget && !over(ctx)
		if again {
			continue
		}
		if unresolved(err, b.Host) {
			return nil, &UnresolvableError{Op: op, Host: b.Host, Err: err}
		}
		return nil, &DialError{Op: op, Addr: b.addr(), Attempts: n, Elapsed: time.Since(start), Err: err}
	}
}

func (a *Agent) attempt(ctx context.Context, b *binding, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return a.config.DialContext(ctx, "tcp", net.JoinHostPort(b.Host, strconv.Itoa(b.Port)))
}

// over reports whether ctx has ended, and gives it the moment to do so when its
// deadline has passed: an attempt that cannot succeed would hide why the one
// before it failed.
func over(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= 0 {
		sleep(ctx, dialPause)
	}
	return ctx.Err() != nil
}

// addr is the endpoint as it is named in errors.
func (b *binding) addr() string {
	return "tcp:" + net.JoinHostPort(b.Host, strconv.Itoa(b.Port))
}

// sleep waits, and returns the context's cause when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
