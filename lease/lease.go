package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Config says what is leased and how it is renewed.
type Config struct {
	// Object names what is leased in error texts, such as
	// "SandboxClaim namzu-task-1f0c". Empty means "the sandbox".
	Object string

	// TTL is how far ahead each renewal moves the expiry, at least [MinTTL].
	TTL time.Duration

	// Sent is the expiry that the object was created with. The first renewal
	// is counted from it, so a create that took long makes it come sooner.
	Sent time.Time

	// Renew asks the server once for the expiry and returns what it answered.
	// It returns soon after ctx ends.
	Renew func(ctx context.Context, expiry time.Time) (Renewed, error)

	// Offset is the server's clock minus this process's. Nil means none.
	Offset func() time.Duration

	// OnError, if not nil, is told of every failure that is not the end, as a
	// [*RenewError]. The lease waits for it, so it must not block, nor call Stop
	// or Renew.
	OnError func(error)
}

// A Lease is an expiry that is being moved forward.
type Lease struct {
	config Config
	random func() float64
	cancel context.CancelFunc
	ask    chan chan error // of callers of Renew, each with room for the answer
	done   chan struct{}   // closed by run, last of all

	mu     sync.Mutex // guards the rest
	err    error
	expiry time.Time // the last that was acknowledged
	until  time.Time // the same moment on this process's monotonic clock
}

// Keep starts to renew. It sends nothing before the first renewal is due.
func Keep(c Config) (*Lease, error) { return keep(c, rand.Float64) }

func keep(c Config, random func() float64) (*Lease, error) {
	if c.TTL < MinTTL {
		return nil, fmt.Errorf("lease: needs a positive TTL of at least %v, not %v, because expiries are whole seconds", MinTTL, c.TTL)
	}
	if c.Renew == nil {
		return nil, errors.New("lease: needs a Renew function")
	}
	if c.Sent.IsZero() {
		return nil, errors.New("lease: needs the expiry that the object was created with (Sent)")
	}
	if c.Object == "" {
		c.Object = "the sandbox"
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Lease{config: c, random: random, cancel: cancel, ask: make(chan chan error), done: make(chan struct{})}
	l.acknowledge(c.Sent)
	go l.run(ctx)
	return l, nil
}

// Stop ends the lease without touching the object: it cancels a renewal in
// flight and returns when nothing is running any more. It may be called any
// number of times.
func (l *Lease) Stop() {
	l.cancel()
	<-l.done
}

// Done is closed when the lease is lost or stopped; Err says which.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil while the lease is held, a [*LostError] once it is lost and
// [ErrStopped] once it is stopped. The first of the two stays.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Expiry returns the last expiry that the server acknowledged.
func (l *Lease) Expiry() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expiry
}

// Renew renews now instead of when it is due, and returns nil when the server
// has acknowledged it, a [*RenewError] when it has not, and what Err returns
// when the lease has ended. When ctx ends, Renew returns its cause, and the
// renewal goes on without it.
func (l *Lease) Renew(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answer := make(chan error, 1)
	select {
	case l.ask <- answer:
	case <-l.done:
		return l.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-answer:
		return err
	case <-l.done:
		select {
		case err := <-answer:
			return err
		default:
			return l.Err()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lease) run(ctx context.Context) {
	defer close(l.done)
	defer l.cancel()
	failures := 0
	var last error // of the failures in a row
	delay := firstDelay(l.config.TTL, l.remaining(), l.random())
	for {
		answer := l.wait(ctx, min(delay, l.remaining()+skewMargin))
		if ctx.Err() != nil {
			l.end(ErrStopped)
			return
		}
		if l.remaining()+skewMargin <= 0 {
			l.end(l.lost(ReasonExpired, last))
			return
		}
		v := l.renew(ctx)
		if ctx.Err() != nil {
			l.end(ErrStopped)
			return
		}
		if !v.expiry.IsZero() {
			l.acknowledge(v.expiry)
		}
		if v.lost != "" {
			l.end(l.lost(v.lost, v.err))
			return
		}
		if v.err == nil {
			failures, last = 0, nil
			delay = nextDelay(l.config.TTL, l.remaining(), l.random())
			answer <- nil
			continue
		}
		failures, last = failures+1, v.err
		delay = retryDelay(l.config.TTL, l.remaining(), failures, retryAfter(v.err), l.random())
		failed := &RenewError{Object: l.config.Object, Failures: failures, Expiry: l.Expiry(), Retry: delay, Err: v.err}
		if l.config.OnError != nil {
			l.config.OnError(failed)
		}
		answer <- failed
	}
}

// wait returns when d has passed, when somebody asks for a renewal or when ctx
// ends, with a channel that has room for one answer.
func (l *Lease) wait(ctx context.Context, d time.Duration) chan<- error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case answer := <-l.ask:
		return answer
	case <-timer.C:
	case <-ctx.Done():
	}
	return make(chan error, 1) // nobody reads it
}

// renew makes one attempt, within its bound.
func (l *Lease) renew(ctx context.Context) verdict {
	bound := attemptBound(l.config.TTL, l.remaining()+skewMargin)
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("%w: a renewal was given %v", ErrNoAnswer, bound))
	defer cancel()

	// A clock that was set back must not pull in the end of a sandbox in use.
	asked := Expiry(l.serverTime(), l.config.TTL)
	if stored := l.Expiry(); asked.Before(stored) {
		asked = stored
	}
	r, err := l.config.Renew(ctx, asked)
	v := judge(asked, r, err)
	if v.err != nil && v.lost == "" && v.expiry.IsZero() && ctx.Err() != nil {
		v.err = context.Cause(ctx)
	}
	return v
}

// acknowledge notes an expiry that the server stores. What remains of it is
// counted on the monotonic clock from now on, so that a step of the wall clock
// neither ends a lease nor prolongs it.
func (l *Lease) acknowledge(expiry time.Time) {
	expiry = expiry.UTC().Truncate(time.Second) // the controller drops the fraction
	remaining := expiry.Sub(l.serverTime())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiry, l.until = expiry, time.Now().Add(remaining)
}

// remaining is the time to the acknowledged expiry, negative once it has passed.
func (l *Lease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until)
}

func (l *Lease) serverTime() time.Time {
	now := time.Now().Round(0) // the wall clock: it is compared with another machine's
	if l.config.Offset != nil {
		now = now.Add(l.config.Offset())
	}
	return now
}

func (l *Lease) lost(reason Reason, err error) error {
	return &LostError{Object: l.config.Object, Reason: reason, Gone: reason == ReasonGone, Expiry: l.Expiry(), Err: err}
}

// end publishes the outcome; run is the only caller, once.
func (l *Lease) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}
