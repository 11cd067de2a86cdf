package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// An Attachment follows an execution whose output the guest keeps, which this
// host or another has started with Cmd.Retain. It does nothing to the
// execution. Any number of hosts can follow it, also after it has ended, for
// the 10 minutes that a guest remembers it by default.
type Attachment struct {
	// Stdout and Stderr are as in Cmd, except that a writer that fails ends the
	// Attachment and not the program.
	Stdout, Stderr io.Writer

	// OnGap is told of output that the guest keeps no longer, before what
	// follows it is written. Nil: nobody is.
	OnGap func(Gap)

	ctx      context.Context
	agent    *Agent
	started  bool
	follower follower
	result   *Result
}

// Attach returns an Attachment to the execution, whose output is delivered from
// the offset on: 0 is all of it, and the Offset of an *ExecutionDetachedError
// what is missing.
func (a *Agent) Attach(ctx context.Context, id string, from int64) *Attachment {
	if ctx == nil {
		panic("transport: nil Context")
	}
	t := &Attachment{ctx: ctx, agent: a}
	t.follower = follower{agent: a, id: id, cursor: cursor{at: from}, watcher: true, left: unbounded, broken: make(chan struct{})}
	t.follower.offset.Store(from)
	return t
}

// Run follows the execution to its end and returns what Cmd.Wait would: nil if
// it exited 0, an *ExitError or a *StartError. It is a *NotAttachableError if the
// guest knows no such output. The end of the context ends the Attachment and
// not the program; then, and when the connection is lost and cannot be made
// again within 30 seconds, it is an *ExecutionDetachedError.
func (t *Attachment) Run() error {
	if t.started {
		return errors.New("transport: the Attachment was used before")
	}
	t.started = true
	f := &t.follower
	if f.cursor.at < 0 || f.cursor.at > wire.MaxSafeInteger {
		return &NotAttachableError{ID: f.id, Reason: wire.CodeInvalidOffset, Text: fmt.Sprintf("%d is no offset", f.cursor.at)}
	}
	if !wire.ValidExecutionID(f.id) {
		return &NotAttachableError{ID: f.id, Reason: wire.CodeInvalidExecutionID, Text: "this is no execution id"}
	}
	ctx, end, err := t.agent.begin(t.ctx)
	if err != nil {
		return err
	}
	defer end()
	f.outputs = map[string]*output{wire.TypeStdout: {t.Stdout, math.MaxInt64}, wire.TypeStderr: {t.Stderr, math.MaxInt64}}
	f.onGap = t.OnGap
	err = t.agent.rebinding(ctx, func(b *binding) error {
		if err := t.agent.require(ctx, b, wire.OpAttachExecution, wire.FeatureAttach); err != nil {
			return err
		}
		f.binding = b
		return t.agent.uncrowd(ctx, func() error { return f.attach(ctx, reattachWindow) })
	})
	if err != nil {
		return callerFirst(ctx, err)
	}
	var d followed
	d.end, d.ack, d.lost = f.run(ctx)
	t.result, err = f.outcome(finding{name: "execution " + f.id, addr: f.binding.addr()}, d)
	return err
}

// Offset is how far the output has been delivered. It can be asked at any time.
func (t *Attachment) Offset() int64 { return t.follower.offset.Load() }

// Result is what the guest said about the end of the execution. It is nil
// before Run has returned, and when that was not heard.
func (t *Attachment) Result() *Result { return t.result }

// An Outcome is how an execution ended.
type Outcome struct {
	Cancelled bool    // it was ended on demand, by this call or another
	Started   bool    // false: nothing of it ran
	Result    *Result // nil if it did not start
	Text      string  // of a start that failed
}

// CancelExecution ends the execution, whoever started it, and returns how it
// ended, which may have been long before. The error is a *NotAttachableError if
// the guest knows no such execution and a *CancelError if it does not confirm
// the end within 8 seconds.
func (a *Agent) CancelExecution(ctx context.Context, id string) (Outcome, error) {
	if !wire.ValidExecutionID(id) {
		return Outcome{}, &NotAttachableError{ID: id, Reason: wire.CodeInvalidExecutionID, Text: "this is no execution id"}
	}
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return Outcome{}, err
	}
	defer end()
	x := &execution{agent: a, id: id, name: "execution " + id}
	var ack *wire.Cancellation
	err = a.rebinding(ctx, func(b *binding) (err error) {
		x.binding = b
		ack, err = x.cancelOnce(ctx)
		return err
	})
	if err != nil && cancelWorthwhile(err) && ctx.Err() == nil {
		var unack *CancelError
		if ack, unack = x.cancel(ctx, cancelBudget); unack != nil {
			unack.Name, unack.Cause = x.name, errAsked
			err = unack
		} else {
			err = nil
		}
	}
	if err != nil {
		return Outcome{}, callerFirst(ctx, cancelRefusal(id, err))
	}
	return Outcome{Cancelled: ack.State == wire.StateCancelled, Started: ack.Started && ack.State != wire.StateFailed, Result: newResult(ack.Result), Text: ack.Error}, nil
}

var errAsked = errors.New("as was asked for")

// cancelWorthwhile reports whether another attempt to end an execution can come
// to anything.
func cancelWorthwhile(err error) bool {
	switch e := err.(type) {
	case *UnauthorizedError, *UnresolvableError:
		return false
	case *wire.Refusal:
		return e.Code != wire.CodeUnknownExecution && e.Code != wire.CodeInvalidExecutionID
	}
	return true
}

// cancelRefusal is err, unless the guest does not know the execution.
func cancelRefusal(id string, err error) error {
	code := ""
	if r, ok := errors.AsType[*wire.Refusal](err); ok {
		code = r.Code
	} else if r, ok := errors.AsType[*RefusedError](err); ok {
		code = r.Code
	}
	if code == wire.CodeUnknownExecution || code == wire.CodeInvalidExecutionID {
		return &NotAttachableError{ID: id, Reason: code, Text: code}
	}
	return refusedError(wire.OpCancel, err)
}
