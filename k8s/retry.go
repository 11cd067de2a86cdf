package k8s

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

// A Backoff says how long [RetryRead] waits between attempts.
type Backoff struct {
	Initial time.Duration // the most before the first repetition; 0 = 50 ms
	Max     time.Duration // the most before any; 0 = 2 s
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial <= 0 {
		b.Initial = 50 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = 2 * time.Second
	}
	return b
}

// ceiling is the longest wait after attempt n, counted from 0: it doubles until
// it reaches Max.
func (b Backoff) ceiling(n int) time.Duration {
	d := b.Initial
	for range n {
		if d >= b.Max/2 {
			return b.Max
		}
		d *= 2
	}
	return min(d, b.Max)
}

// forever is the time left to a caller without a deadline.
const forever = time.Duration(math.MaxInt64)

// next decides whether a read that failed with err is repeated after attempt n,
// and when; random is in [0, 1).
func (b Backoff) next(err error, n int, random float64, left time.Duration) (wait time.Duration, again bool) {
	if !SafeToRetry(err) {
		return 0, false
	}
	return b.wait(err, n, random, left)
}

// Wait is how long to wait before a request that failed with err is repeated
// after attempt n, counted from 0, for a caller who knows that repeating it is
// safe and has left as much time. It is false when the server asks to wait for
// longer than that.
func (b Backoff) Wait(n int, err error, left time.Duration) (wait time.Duration, again bool) {
	return b.withDefaults().wait(err, n, rand.Float64(), left)
}

// wait draws between zero and the ceiling, so that clients which failed together
// do not come back together. What the server asked for comes on top of that, and
// if it asked for more than is left there is no point in waiting for it.
func (b Backoff) wait(err error, n int, random float64, left time.Duration) (wait time.Duration, again bool) {
	wait = time.Duration(random * float64(b.ceiling(n)))
	if e, ok := errors.AsType[*APIError](err); ok && e.HasRetryAfter {
		if e.RetryAfter >= left {
			return 0, false
		}
		if wait >= left-e.RetryAfter {
			wait = 0
		}
		wait += e.RetryAfter
	}
	return wait, true
}
