package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

// The steps, in their order.
const (
	stepConnect   = "connect"
	stepAcquire   = "acquire"
	stepProbe     = "probe"
	stepHealth    = "health"
	stepExec      = "exec"
	stepStream    = "stream"
	stepAttach    = "attach"
	stepTerminal  = "terminal"
	stepSession   = "session"
	stepWrite     = "write"
	stepRead      = "read"
	stepTree      = "tree"
	stepPort      = "port"
	stepFlush     = "flush"
	stepRenew     = "renew"
	stepQuiesce   = "quiesce"
	stepRelease   = "release"
	stepLeakCheck = "leak-check"
)

var stepOrder = []string{
	stepConnect, stepAcquire, stepProbe, stepHealth, stepExec, stepStream, stepAttach, stepTerminal, stepSession,
	stepWrite, stepRead, stepTree, stepPort, stepFlush, stepRenew, stepQuiesce, stepRelease, stepLeakCheck,
}

// A step is one that ran.
type step struct {
	name    string
	ok      bool
	skipped bool // the guest does not offer it; such a step is ok
	took    time.Duration
	detail  string
	failure *failure // of one that is not ok
}

// A recorder runs steps one after the other and remembers how each went. It
// belongs to one goroutine.
type recorder struct {
	steps []step
	idle  time.Duration // of the running step: what it spent on something else

	begin func(name string) // told before a step; may be nil
	end   func(step)        // told after it; may be nil
}

// do runs one step within a budget of its own and reports whether it went well.
// f returns a detail for the reader.
func (r *recorder) do(ctx context.Context, name string, budget time.Duration, f func(context.Context) (string, error)) bool {
	if r.begin != nil {
		r.begin(name)
	}
	r.idle = 0
	start := time.Now()
	bounded, cancel := context.WithTimeoutCause(ctx, budget, &budgetError{name, budget})
	detail, err := f(bounded)
	cancel()
	s := step{name: name, ok: err == nil, took: time.Since(start) - r.idle, detail: detail}
	if missing, ok := errors.AsType[*notOfferedError](err); ok && ctx.Err() == nil {
		s.ok, s.skipped, s.detail = true, true, missing.Error()
	} else if err != nil {
		if ctx.Err() != nil {
			err = &interruptedError{context.Cause(ctx)}
		}
		s.failure = explain(name, err)
		s.detail = s.failure.Message
	}
	r.steps = append(r.steps, s)
	if r.end != nil {
		r.end(s)
	}
	return s.ok
}

// failed returns the first failure, nil if there was none.
func failed(steps []step) *failure {
	for _, s := range steps {
		if !s.ok {
			return s.failure
		}
	}
	return nil
}

// A notOfferedError is a step that this guest cannot take, and need not.
type notOfferedError struct{ feature string }

func (e *notOfferedError) Error() string {
	return "not offered by this guest, which does not announce " + e.feature
}

// offered is a step that not every guest can take.
func offered(f func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		detail, err := f(ctx)
		if e, ok := errors.AsType[*transport.UnsupportedError](err); ok {
			err = &notOfferedError{e.Feature}
		}
		return detail, err
	}
}

// A budgetError is the cause of a step that took too long.
type budgetError struct {
	step   string
	budget time.Duration
}

func (e *budgetError) Error() string {
	return fmt.Sprintf("the step %s did not end within %v", e.step, e.budget)
}

// An interruptedError is a step that was cut short because the whole run was.
type interruptedError struct{ cause error }

func (e *interruptedError) Error() string { return "interrupted: " + e.cause.Error() }
func (e *interruptedError) Unwrap() error { return e.cause }

// A wrongError is an operation that came to its end with the wrong result.
type wrongError struct{ text string }

func (e *wrongError) Error() string { return e.text }

func wrong(format string, args ...any) error { return &wrongError{fmt.Sprintf(format, args...)} }
