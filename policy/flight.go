package policy

import (
	"context"
	"sync"
	"time"
)

// group owns the goroutines of a Verifier. Each is bounded in time, and close cancels and joins them all.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex // guards closed, and wg.Go against wg.Wait
	closed bool
	wg     sync.WaitGroup
}

func newGroup() *group {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &group{ctx: ctx, cancel: cancel}
}

// start runs work apart from the caller: it goes on when the caller's context ends, and ends when the group is closed or after
// bound; 0 is for work that bounds itself. The context's values go along, so that its requests are still told to the caller's trace.
func (g *group) start(ctx context.Context, bound time.Duration, work func(context.Context)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	g.wg.Go(func() {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(g.ctx, func() { cancel(context.Cause(g.ctx)) })()
		if bound > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, bound)
			defer stop()
		}
		work(ctx)
	})
	return nil
}

func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel(ErrClosed)
	g.wg.Wait()
}

// flight is work that several callers wait for.
type flight[T any] struct {
	done  chan struct{}
	value T // set before done is closed
	err   error
}

// wait waits under the caller's own context: a caller that gives up does not end the work for the others.
func (f *flight[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// launch starts work whose end everyone who holds the flight sees. finish is called with the result before they do.
func launch[T any](ctx context.Context, g *group, bound time.Duration, work func(context.Context) (T, error), finish func(*flight[T])) *flight[T] {
	f := &flight[T]{done: make(chan struct{})}
	err := g.start(ctx, bound, func(ctx context.Context) {
		f.value, f.err = work(ctx)
		finish(f)
		close(f.done)
	})
	if err != nil {
		f.err = err
		close(f.done)
	}
	return f
}
