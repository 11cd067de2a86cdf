package transport

import (
	"context"
	"errors"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	overdueAfter = 500 * time.Millisecond // the timeout, and no result: the program is ended
	observeAfter = 10 * time.Second       // the timeout: the stream is given up
	drainTimeout = 1500 * time.Millisecond
)

// An execution is a program that the guest was told to execute.
type execution struct {
	agent   *Agent
	binding *binding
	id      string
	bootID  string // of the guest that reserved the id
	name    string
	timeout time.Duration
	conn    *conn
	stream  *execStream
	frame   []byte // the request
	staged  string // file with the input, which the program's start removes

	watch    func(context.Context) // instead of supervise; nil unless the output is kept
	detached chan struct{}         // see Cmd.Detach; nil unless the output is kept

	done   chan struct{}
	result *Result // valid once done is closed, as err is
	err    error
}

// start asks a guest to execute the program. An error means that nothing of it
// runs.
func (a *Agent) start(ctx context.Context, c *Cmd) (x *execution, err error) {
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	in, err := a.prepareStdin(ctx, c)
	if err != nil {
		return nil, err
	}
	if in.staged != "" {
		if x, err = c.begin(ctx, in.binding, in.through(body)); err != nil {
			a.discard(ctx, in.binding, in.staged)
			return nil, err
		}
		x.staged = in.staged
		return x, nil
	}
	body.Stdin = in.text
	err = a.rebinding(ctx, func(b *binding) (err error) {
		if body.Stdin != nil {
			if err := a.require(ctx, b, wire.OpExecute, wire.FeatureSafeStdin); err != nil {
				return err
			}
		}
		x, err = c.begin(ctx, b, body)
		return err
	})
	return x, err
}

// begin is the launch that c is for.
func (c *Cmd) begin(ctx context.Context, b *binding, body wire.ExecuteBody) (*execution, error) {
	if c.launch != nil {
		return c.launch(ctx, b, c, body)
	}
	return c.agent.launch(ctx, b, c, body)
}

// launch reserves an id and sends the request, over a connection each.
func (a *Agent) launch(ctx context.Context, b *binding, c *Cmd, body wire.ExecuteBody) (*execution, error) {
	body.ExecutionID = "exec_00000000-0000-4000-8000-000000000000" // as long as the one to come
	if _, err := requestFrame(b, wire.OpExecute, body); err != nil {
		return nil, err
	}
	r, err := a.reserve(ctx, b, c.name(), nil)
	if err != nil {
		return nil, err
	}
	body.ExecutionID = r.ExecutionID
	frame, err := requestFrame(b, wire.OpExecute, body)
	if err != nil {
		return nil, err
	}
	cn, err := a.execute(ctx, b, frame)
	if err != nil {
		return nil, startFailure(c.name(), err)
	}
	return &execution{
		agent: a, binding: b, id: r.ExecutionID, bootID: r.BootID, name: c.name(), timeout: c.timeout(),
		conn: cn, frame: frame, stream: newExecStream(cn, c),
		done: make(chan struct{}),
	}, nil
}

// execute sends the request over a connection of its own.
func (a *Agent) execute(ctx context.Context, b *binding, frame []byte) (*conn, error) {
	cn, err := a.request(ctx, b, wire.OpExecute, frame)
	if err != nil {
		return nil, err
	}
	cn.release()
	return cn, nil
}

// reserve gets an execution id, of the guest's choice unless there is a body.
func (a *Agent) reserve(ctx context.Context, b *binding, name string, body any) (wire.Reservation, error) {
	var r wire.Reservation
	err := a.call(ctx, b, wire.OpReserve, body, smallReply, func(payload []byte) (err error) {
		r, err = wire.ParseReservation(payload)
		return err
	})
	if err != nil {
		return r, startFailure(name, err)
	}
	b.booted(r.BootID)
	return r, nil
}

// startFailure is err where it says for itself that nothing ran, and a
// *StartError elsewhere.
func startFailure(name string, err error) error {
	if r, ok := errors.AsType[*wire.Refusal](err); ok {
		return newStartError(name, words(r))
	}
	if lost, ok := errors.AsType[*LostError](err); ok {
		err = lost.Err // which is about the reservation, not about the program
	} else if SafeToRetry(err) {
		return err
	}
	return &StartError{Name: name, Err: err}
}

// supervise waits for the program's end and sees to it that there is one: after
// its context, after its timeout and after its stream.
func (x *execution) supervise(ctx context.Context) {
	if x.watch != nil {
		x.watch(ctx)
		return
	}
	ends := make(chan streamEnd, 1)
	f := finding{name: x.name, addr: x.binding.addr(), timeout: x.timeout}
	ended := false
	x.agent.uncrowd(ctx, func() error {
		if ended && x.resend(ctx) != nil {
			return nil
		}
		f.end = streamEnd{} // what turned it away says nothing about what comes now
		go func() { ends <- x.stream.read() }()
		if ended = x.wait(ctx, &f, ends); ended && f.end.refused != nil {
			return f.end.refused
		}
		return nil
	})
	if cause := context.Cause(ctx); ended && f.end.refused != nil && cause != nil {
		f.why, f.cause = stopped, cause
	}
	if !ended {
		ended = x.stop(ctx, &f, ends)
	} else if f.end.meaning() == endUnknown {
		x.conn.close()
		f.why = reconciled
		f.ack, f.unack = x.cancel(context.WithoutCancel(ctx), cancelTime(ctx))
	}
	if !ended && f.ack != nil && f.ack.Started && f.ack.State != wire.StateFailed {
		x.stream.clock.drain(drainTimeout)
		f.end, ended = <-ends, true
	}
	x.conn.close()
	if !ended {
		<-ends // a matter of the writer in flight
	}
	if cause := context.Cause(ctx); cause != nil && (f.why == overdue || f.why == reconciled) && f.end.meaning() != endFinished {
		f.why, f.cause = stopped, cause
	}
	x.report(ctx, f)
}

// resend sends the request again, which the guest has not read.
func (x *execution) resend(ctx context.Context) error {
	cn, err := x.agent.execute(ctx, x.binding, x.frame)
	if err != nil {
		return err
	}
	x.conn.close()
	x.conn, x.stream = cn, x.stream.over(cn, x.timeout)
	return nil
}

// wait waits for the first thing to happen and reports whether that was the end
// of the stream, which counts even when something else happened as well.
func (x *execution) wait(ctx context.Context, f *finding, ends <-chan streamEnd) (ended bool) {
	select {
	case f.end = <-ends:
		return true
	case <-ctx.Done():
	case <-x.stream.clock.overdue:
	case <-x.stream.broken:
	}
	select {
	case f.end = <-ends:
		return true
	default:
	}
	select {
	case <-x.stream.broken:
		f.why, f.cause = stopped, x.stream.err
	default:
		f.why = overdue
	}
	if cause := context.Cause(ctx); cause != nil {
		f.why, f.cause = stopped, cause
	}
	return false
}

// stop has the guest end the program, until it acknowledges or the stream says
// as much. It reports whether the stream has ended.
func (x *execution) stop(ctx context.Context, f *finding, ends <-chan streamEnd) (ended bool) {
	type answer struct {
		ack   *wire.Cancellation
		unack *CancelError
	}
	answers := make(chan answer, 1)
	cctx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	go func() {
		ack, unack := x.cancel(cctx, cancelTime(ctx))
		answers <- answer{ack, unack}
	}()
	for {
		select {
		case a := <-answers:
			f.ack, f.unack = a.ack, a.unack
			return ended
		case f.end = <-ends:
			ended, ends = true, nil
			x.conn.close()
			switch {
			case f.end.meaning() == endUnknown:
			case f.why == overdue && f.end.result != nil && !f.end.result.TimedOut:
				// The acknowledgement says whether that was its own end.
				defer time.AfterFunc(drainTimeout, giveUp).Stop()
			default:
				giveUp()
			}
		}
	}
}

// cancelTime is how long to try: Close does not wait as long as anybody else.
func cancelTime(ctx context.Context) time.Duration {
	if errors.Is(context.Cause(ctx), ErrClosed) {
		return closeBudget
	}
	return cancelBudget
}

// report settles the outcome. A writer that failed makes the program one that
// was ended, also when it had ended by itself in the same moment.
func (x *execution) report(ctx context.Context, f finding) {
	if x.stream.err != nil && f.why == noReason {
		f.why, f.cause = stopped, x.stream.err
	}
	x.result, x.err = f.outcome()
	if x.staged != "" && !tookInput(x.err) {
		x.agent.discard(ctx, x.binding, x.staged)
	}
}
