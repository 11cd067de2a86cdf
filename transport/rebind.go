package transport

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const refreshTimeout = 10 * time.Second

// rebinding runs f on the guest that the Agent is bound to and, when that could
// not be reached or did not know the token, once more on the guest that Refresh
// names. f must have had no effect when it fails in one of these two ways.
func (a *Agent) rebinding(ctx context.Context, f func(*binding) error) error {
	b := a.current()
	err := f(b)
	if !rebindable(err) || ctx.Err() != nil {
		return err
	}
	next, refreshErr := a.rebind(ctx, b)
	if refreshErr != nil {
		return &refreshError{err, refreshErr}
	}
	if next == b {
		return err
	}
	return f(next)
}

// rebindable reports whether another endpoint might help. A name that does not
// resolve is not looked up better elsewhere.
func rebindable(err error) bool {
	if _, ok := errors.AsType[*DialError](err); ok {
		return true
	}
	_, ok := errors.AsType[*UnauthorizedError](err)
	return ok
}

// A refreshError is a failure and the failure to do something about it.
type refreshError struct{ first, refresh error }

func (e *refreshError) Error() string {
	return fmt.Sprintf("%v; then asking for the guest's address failed: %v", e.first, e.refresh)
}

func (e *refreshError) Unwrap() []error { return []error{e.first, e.refresh} }

// A flight is one call of Refresh that any number of operations wait for.
type flight struct {
	done chan struct{}
	err  error // valid once done is closed
}

// rebind returns the binding that follows on failed, which is failed itself
// when there is no other.
func (a *Agent) rebind(ctx context.Context, failed *binding) (*binding, error) {
	a.mu.Lock()
	if a.bound != failed || a.config.Refresh == nil || a.closed != nil {
		defer a.mu.Unlock()
		return a.bound, nil
	}
	f := a.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		a.flight = f
		a.running.Add(1)
		go a.refresh(context.WithoutCancel(ctx), f, failed)
	}
	a.mu.Unlock()
	select {
	case <-f.done:
		return a.current(), f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// refresh runs detached from any one caller and is ended by Close.
func (a *Agent) refresh(ctx context.Context, f *flight, failed *binding) {
	defer a.running.Done()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	op := &operation{end}
	a.mu.Lock()
	a.ends[op] = struct{}{}
	if a.closed != nil {
		end(a.closed)
	}
	a.mu.Unlock()

	endpoint, err := a.config.Refresh(ctx)
	if err == nil && endpoint != failed.Endpoint {
		err = endpoint.validate()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.ends, op)
	end(nil)
	if err == nil && endpoint != failed.Endpoint {
		a.bound = newBinding(endpoint, a.config.Restarted)
	}
	a.flight, f.err = nil, err
	close(f.done)
}
