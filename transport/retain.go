package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// Retain has the guest keep the last of the program's output, 1 MiB by default,
// and makes the program outlive its connection: when that is lost, the Cmd
// attaches again for 30 seconds and goes on where it was, and a program that is
// not to be reached in that time is not ended but left alone, with an
// *ExecutionDetachedError. It must be called before Start, and the guest must
// announce execution-attach.
//
// The program has an ID, which another host can Attach to as well. When a
// program of the ID was started before, Start attaches to that one from the
// beginning of its output.
//
// As for every Cmd, cancelling the context ends the program, and so does
// Agent.Close. The context's deadline does not, since the program can be
// followed further: that is an *ExecutionDetachedError which wraps the context's
// cause, and Timeout is how long the program itself may run. Detach leaves it
// running too.
func (c *Cmd) Retain() {
	if c.launch == nil && c.agent != nil {
		c.launch = c.agent.launchRetained
	}
}

// Detach makes Wait return, with an *ExecutionDetachedError that wraps
// ErrDetached, while the program goes on; it is for a Cmd that was started with
// Retain and may be called more than once. It reports whether the Cmd is one.
func (c *Cmd) Detach() bool {
	if c.run == nil || c.run.detached == nil {
		return false
	}
	select {
	case c.run.detached <- struct{}{}:
	default: // it was called before
	}
	return true
}

// launchRetained is Agent.launch with an id of this side's choice.
func (a *Agent) launchRetained(ctx context.Context, b *binding, c *Cmd, body wire.ExecuteBody) (*execution, error) {
	if err := a.require(ctx, b, wire.OpExecute, wire.FeatureAttach); err != nil {
		return nil, err
	}
	if c.ID == "" {
		c.ID = "exec_" + uuid.New()
	}
	body.ExecutionID, body.Retain = c.ID, true
	frame, err := requestFrame(b, wire.OpExecute, body)
	if err != nil {
		return nil, err
	}
	r, err := a.reserve(ctx, b, c.name(), wire.ReserveBody{ExecutionID: c.ID})
	if err != nil {
		return nil, err
	}
	if r.ExecutionID != c.ID {
		return nil, &StartError{Name: c.name(), Err: &ProtocolError{Op: wire.OpReserve, Err: errors.New("another id was reserved")}}
	}
	f := &follower{
		agent: a, binding: b, id: c.ID, onGap: c.OnGap, left: c.timeout() + observeAfter, broken: make(chan struct{}),
		outputs: map[string]*output{
			wire.TypeStdout: {c.Stdout, c.maxText()},
			wire.TypeStderr: {c.Stderr, c.maxText()},
		},
	}
	if r.State == "" || r.State == wire.StateReserved {
		f.frame = frame
		if f.conn, err = a.execute(ctx, b, frame); err != nil {
			return nil, startFailure(c.name(), err)
		}
	}
	x := &execution{
		agent: a, binding: b, id: c.ID, bootID: r.BootID, name: c.name(), timeout: c.timeout(),
		done: make(chan struct{}), detached: make(chan struct{}, 1),
	}
	x.watch = func(ctx context.Context) { x.result, x.err = x.follow(ctx, f) }
	return x, nil
}

// A followed is how following an execution ended. The guest told that the
// execution has ended where lost is nil.
type followed struct {
	end  streamEnd
	ack  *wire.Cancellation // what there is instead of a result
	lost error
}

// follow waits for the program's end, and sees to it when the context ends or
// the output cannot be written.
func (x *execution) follow(ctx context.Context, f *follower) (*Result, error) {
	fctx, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer leave(nil)
	if f.conn != nil {
		f.conn.watch(fctx)
	}
	ends := make(chan followed, 1)
	go func() {
		var d followed
		d.end, d.ack, d.lost = f.run(fctx)
		ends <- d
	}()
	found := finding{name: x.name, addr: x.binding.addr(), timeout: x.timeout}
	var d followed
	select {
	case d = <-ends:
		found.cause = f.err
	case <-x.detached:
		leave(ErrDetached)
		d = <-ends
	case <-f.broken:
		found.cause = f.err
		d = x.stopFollowed(ctx, &found, ends, leave)
	case <-ctx.Done():
		if ctx.Err() == context.DeadlineExceeded { // which is none of the program's
			leave(context.Cause(ctx))
			d = <-ends
			break
		}
		found.cause = context.Cause(ctx)
		d = x.stopFollowed(ctx, &found, ends, leave)
	}
	if x.staged != "" && d.end.result == nil {
		x.agent.discard(ctx, x.binding, x.staged)
	}
	return f.outcome(found, d)
}

// stopFollowed has the guest end the program. What the follower gets to see of
// that goes before the acknowledgement, which it is given a moment after.
func (x *execution) stopFollowed(ctx context.Context, found *finding, ends <-chan followed, leave context.CancelCauseFunc) followed {
	cctx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		found.ack, found.unack = x.cancel(cctx, cancelTime(ctx))
	}()
	var d followed
	select {
	case d = <-ends:
		if d.lost == nil {
			giveUp()
		}
		<-answered
		return d
	case <-answered:
	}
	if found.ack == nil {
		leave(found.unack)
	} else {
		defer time.AfterFunc(drainTimeout, func() { leave(errNoDrain) }).Stop()
	}
	return <-ends
}

var errNoDrain = fmt.Errorf("the end of the output did not come within %v of the program's end", drainTimeout)

// outcome is what is reported of an execution. A cause in found is why it was
// ended from here, or could have been.
func (f *follower) outcome(found finding, d followed) (*Result, error) {
	if found.cause != nil {
		found.why = stopped
	} else if d.lost != nil {
		return nil, f.lost(found.name, d.lost)
	}
	found.end = d.end
	if d.lost != nil {
		found.end.fault = d.lost
	}
	if d.ack != nil {
		found.ack = d.ack
	}
	r, err := found.outcome()
	if r != nil && f.cursor.gaps {
		r.StdoutTruncated, r.StderrTruncated = true, true
		if exit, ok := errors.AsType[*ExitError](err); ok {
			exit.Result = *r
		}
	}
	return r, err
}

// lost is the error of an execution whose end was not seen.
func (f *follower) lost(name string, err error) error {
	if f.refused != nil {
		return f.refused
	}
	if e, ok := errors.AsType[*NotAttachableError](err); ok && e.State == wire.StateReserved && f.cursor.at == 0 {
		return &StartError{Name: name, Err: err}
	}
	return &ExecutionDetachedError{ID: f.id, Offset: f.cursor.at, Err: err}
}
