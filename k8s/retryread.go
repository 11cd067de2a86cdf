package k8s

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// An ExhaustedError reports that the time for a read ran out while it was being
// repeated. It unwraps to both the end of the context and the last failure.
type ExhaustedError struct {
	Attempts int
	Cause    error // why the context ended
	Last     error // how the last attempt that had an answer failed
}

func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("k8s: gave up after %d attempts: %v; last failure: %v", e.Attempts, e.Cause, e.Last)
}

func (e *ExhaustedError) Unwrap() []error { return []error{e.Cause, e.Last} }

// RetryRead calls read until it succeeds, fails for good or ctx ends. It repeats
// what [SafeToRetry] allows, with full jitter, and waits at least as long as the
// server asks.
//
// A failure that is not repeated is returned as it is; so is one whose
// Retry-After lies beyond the deadline of ctx, at once. If ctx is cancelled,
// the error is [context.Cause] of it. If its deadline passes, the error is an
// [*ExhaustedError] once an attempt has failed, and the cause before that.
func RetryRead[T any](ctx context.Context, b Backoff, read func(context.Context) (T, error)) (T, error) {
	return retryRead(ctx, b, rand.Float64, read)
}

func retryRead[T any](ctx context.Context, b Backoff, random func() float64, read func(context.Context) (T, error)) (T, error) {
	b = b.withDefaults()
	var last error
	for n := 0; ; n++ {
		v, err := read(ctx)
		if err == nil {
			return v, nil
		}
		if ctx.Err() != nil {
			return v, gaveUp(ctx, n+1, last)
		}
		last = err
		left := forever
		if d, ok := ctx.Deadline(); ok {
			left = time.Until(d)
		}
		wait, again := b.next(err, n, random(), left)
		if !again {
			return v, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return v, gaveUp(ctx, n+1, last)
		}
	}
}

func gaveUp(ctx context.Context, attempts int, last error) error {
	cause := context.Cause(ctx)
	if last == nil || errors.Is(ctx.Err(), context.Canceled) {
		return cause
	}
	return &ExhaustedError{Attempts: attempts, Cause: cause, Last: last}
}
