package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	reattachWindow = 30 * time.Second // without news of the execution
	reattachPause  = 250 * time.Millisecond
	unbounded      = 100 * 365 * 24 * time.Hour
)

// A follower reads the output of an execution that the guest keeps, over as
// many connections as it takes. Apart from offset and broken it belongs to the
// goroutine that calls run.
type follower struct {
	agent   *Agent
	binding *binding
	id      string
	outputs map[string]*output
	onGap   func(Gap)
	watcher bool          // the execution is not to be ended, whatever happens here
	left    time.Duration // of the time that is given

	conn     *conn  // nil: attach
	attached bool   // conn is that of an attach-execution
	frame    []byte // the request to execute; nil unless it is this side's
	unread   bool   // the guest has turned that away, and not read it
	refused  error  // why the guest did not execute anything
	cursor   cursor
	offset   atomic.Int64  // cursor.at, for others
	broken   chan struct{} // closed when a writer has failed
	err      error         // of the writer; valid once broken is closed
}

// run follows the execution until it has ended. Where lost is nil that was seen:
// in a result, or as an acknowledgement would tell it.
func (f *follower) run(ctx context.Context) (end streamEnd, ack *wire.Cancellation, lost error) {
	var until time.Time // of trying; zero while nothing went wrong
	for {
		var opened time.Time
		before := f.cursor.at
		limit := reattachWindow
		if !until.IsZero() {
			limit = time.Until(until)
		}
		err := f.attach(ctx, limit)
		if err == nil {
			opened = time.Now()
			end, ack, err = f.stream()
		}
		if err == nil {
			return end, ack, nil
		}
		lasted := !opened.IsZero() && time.Since(opened) >= reattachWindow
		if until.IsZero() || lasted || f.cursor.at > before {
			until = time.Now().Add(reattachWindow)
		}
		if !followAgain(err) || time.Until(until) <= reattachPause || f.left <= reattachPause || sleep(ctx, reattachPause) != nil {
			return streamEnd{}, nil, callerFirst(ctx, err)
		}
	}
}

// followAgain reports whether what went wrong may be better in a moment.
func followAgain(err error) bool {
	switch e := err.(type) {
	case *LostError, *DialError, *RefusedError:
		return true
	case *NotAttachableError:
		return !finalReason(e.Reason)
	}
	return false
}

// attach opens a stream from the cursor on, unless one is open. It is that of
// the execution itself if the guest has not read the request for it.
func (f *follower) attach(ctx context.Context, limit time.Duration) error {
	if f.conn != nil {
		return nil
	}
	start := time.Now()
	defer func() { f.left -= time.Since(start) }()
	limit = min(limit, f.left)
	dctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no attachment came about within %v", limit))
	defer cancel()
	if f.unread {
		c, err := f.agent.execute(dctx, f.binding, f.frame)
		if err != nil {
			f.unread = SafeToRetry(err)
			return err
		}
		c.watch(ctx)
		f.conn, f.attached, f.unread = c, false, false
		return nil
	}
	const op = wire.OpAttachExecution
	frame, err := requestFrame(f.binding, op, wire.AttachBody{ExecutionID: f.id, FromOffset: f.cursor.at})
	if err != nil {
		return err
	}
	c, err := f.agent.request(dctx, f.binding, op, frame)
	if err != nil {
		return err
	}
	err = f.begin(c)
	c.release()
	if err != nil {
		c.close()
		return err
	}
	c.watch(ctx)
	f.conn, f.attached = c, true
	return nil
}

// begin reads the first event of an attachment.
func (f *follower) begin(c *conn) error {
	const op = wire.OpAttachExecution
	payload, err := c.frames.Next()
	if err != nil {
		return readFailure(op, err)
	}
	event, err := f.event(op, payload)
	if err != nil {
		return err
	}
	first, ok := event.(*wire.Attached)
	if !ok || first.ExecutionID != f.id {
		return &ProtocolError{Op: op, Err: errors.New("the attachment to this execution did not come first")}
	}
	gap, err := f.cursor.begin(first.FromOffset, first.Dropped)
	if err != nil {
		return &ProtocolError{Op: op, Err: err}
	}
	f.offset.Store(f.cursor.at)
	if gap != nil && f.onGap != nil {
		f.onGap(*gap)
	}
	return nil
}

// event reads an event; a refusal is an error.
func (f *follower) event(op string, payload []byte) (any, error) {
	event, err := wire.ParseRetainedEvent(payload)
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		return nil, refusedError(op, f.binding.refused(op, refusal))
	}
	if err != nil {
		return nil, &ProtocolError{Op: op, Err: err}
	}
	if e, ok := event.(*wire.StreamError); ok && op == wire.OpAttachExecution {
		if e.Text == wire.CodeRetiring {
			return nil, &RetiringError{Op: op, Addr: f.binding.addr()}
		}
		return nil, &NotAttachableError{ID: f.id, Reason: wire.Code(e.Text), State: e.State, Text: e.Text}
	}
	return event, nil
}

// stream reads the open connection to its end.
func (f *follower) stream() (streamEnd, *wire.Cancellation, error) {
	c := f.conn
	clock := newStreamClock(c.Conn, f.left, unbounded)
	c.source = clock
	defer func() {
		f.left = clock.left()
		f.conn = nil
		c.close()
	}()
	if f.attached {
		return f.attachment(c, clock)
	}
	end, err := f.execution(c, clock)
	return end, nil, err
}

func (f *follower) attachment(c *conn, clock *streamClock) (streamEnd, *wire.Cancellation, error) {
	const op = wire.OpAttachExecution
	for {
		event, err := f.next(op, c)
		if err != nil {
			return streamEnd{}, nil, err
		}
		switch event := event.(type) {
		case *wire.RetainedDelta:
			if err := f.deliver(op, event, clock); err != nil {
				return streamEnd{}, nil, err
			}
		case *wire.AttachResult:
			if err := f.cursor.end(event.NextOffset); err != nil || event.ExecutionID != f.id {
				return streamEnd{}, nil, protocolError(op, err, "the end of another execution came")
			}
			clock.drain(c.config.CloseTimeout)
			if more, err := c.frames.Next(); err == nil && len(more) > 0 {
				return streamEnd{}, nil, protocolError(op, nil, "an event came after the end")
			} // else the numbers say that all there is has come
			end, ack := attachEnd(event)
			return end, ack, nil
		default:
			return streamEnd{}, nil, protocolError(op, nil, "an event came that does not belong to an attachment")
		}
	}
}

func protocolError(op string, err error, text string) error {
	if err == nil {
		err = errors.New(text)
	}
	return &ProtocolError{Op: op, Err: err}
}

// attachEnd is what the end of an attachment says: as much as the
// acknowledgement of a cancellation does, in case there is no result.
func attachEnd(r *wire.AttachResult) (streamEnd, *wire.Cancellation) {
	if r.Started && r.Result != nil {
		return streamEnd{result: r.Result}, nil
	}
	fault := errors.New("it was ended before it had started")
	if r.Started && r.Outcome != wire.StateFailed {
		fault = errors.New("the guest does not say how it ended")
	}
	return streamEnd{fault: fault}, &wire.Cancellation{State: r.Outcome, Started: r.Started, Error: r.Error}
}

// execution reads the stream that answers execute. Where that leaves anything
// open the record of the execution, which an attachment tells, says better.
func (f *follower) execution(c *conn, clock *streamClock) (end streamEnd, err error) {
	const op = wire.OpExecute
	for {
		event, err := f.next(op, c)
		if err != nil {
			if f.unread = !end.output && crowded(err); !end.output && refusedAll(err) {
				f.refused = err
			}
			return streamEnd{}, err
		}
		switch event := event.(type) {
		case *wire.RetainedDelta:
			end.output = true
			if err := f.deliver(op, event, clock); err != nil {
				return streamEnd{}, err
			}
		case *wire.StreamError:
			end.failed = event
			if end.meaning() == endNotStarted {
				return end, nil
			}
			return streamEnd{}, &LostError{Op: op, Sent: true, Err: event}
		case *wire.Result:
			payload, err := c.frames.Next()
			switch {
			case err != nil:
				return streamEnd{}, readFailure(op, err)
			case len(payload) > 0:
				return streamEnd{}, protocolError(op, nil, "an event came after the result")
			}
			end.result = event
			return end, c.awaitClose(op)
		default:
			return streamEnd{}, protocolError(op, nil, "an event came that does not belong to an execution")
		}
	}
}

// refusedAll reports whether the guest has refused the request for what is not
// the request's fault.
func refusedAll(err error) bool {
	switch err.(type) {
	case *UnauthorizedError, *RetiringError:
		return true
	}
	return false
}

func (f *follower) next(op string, c *conn) (any, error) {
	payload, err := c.frames.Next()
	if err != nil {
		return nil, readFailure(op, err)
	}
	if len(payload) == 0 {
		return nil, &LostError{Op: op, Sent: true, Err: errors.New("the stream ended without a result")}
	}
	return f.event(op, payload)
}

// deliver writes output. A writer that fails does not keep the rest from being
// read: its program is ended, and that has to be seen.
func (f *follower) deliver(op string, d *wire.RetainedDelta, clock *streamClock) error {
	if err := f.cursor.move(d.Offset, d.NextOffset, d.Data); err != nil {
		return &ProtocolError{Op: op, Err: err}
	}
	out := f.outputs[d.Type]
	if out.left -= int64(len(d.Data)); out.left < 0 {
		return &ProtocolError{Op: op, Err: fmt.Errorf("more %s came than MaxOutput allows", d.Type)}
	}
	if out.w != nil && d.Data != "" {
		start := time.Now()
		n, err := io.WriteString(out.w, d.Data)
		clock.pause(start)
		if err == nil && n != len(d.Data) {
			err = io.ErrShortWrite
		}
		if err != nil {
			out.w = nil
			if f.err == nil {
				f.err = fmt.Errorf("its output could not be written: %w", err)
				close(f.broken)
			}
			if f.watcher {
				return f.err
			}
		}
	}
	f.offset.Store(f.cursor.at)
	return nil
}
