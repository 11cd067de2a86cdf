package transport

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A streamEnd is how the stream of an execution ended. fault is nil if there
// is an answer that is complete: a result with all that has to follow it, a
// failure or a refusal.
type streamEnd struct {
	result  *wire.Result
	failed  *wire.StreamError
	refused *wire.Refusal
	output  bool // some came before
	fault   error
}

// A meaning is what the end of a stream says about the program.
type meaning int

const (
	endUnknown    meaning = iota // it may run: it has to be ended
	endFinished                  // it has ended as the result says
	endNotStarted                // nothing of it ran or will run
)

func (e *streamEnd) meaning() meaning {
	switch {
	case e.fault == nil && e.result != nil:
		return endFinished
	case e.output:
		return endUnknown
	case e.failed != nil && refusesBeforeStart(e.failed.Text), e.refused != nil && refusesBeforeStart(e.refused.Code):
		return endNotStarted
	}
	return endUnknown
}

// refusesBeforeStart reports whether a guest that answers so has certainly not
// started the program. The texts of a failed start are not among them: the
// record of the execution says better what became of it.
func refusesBeforeStart(text string) bool {
	return slices.Contains(beforeStart, wire.Code(text))
}

var beforeStart = []string{
	wire.CodeUnauthorized, wire.CodeRetiring, wire.CodeUnknownOp, wire.CodeFrameTooLarge,
	wire.CodeInvalidExecutionID, wire.CodeUnknownExecution, wire.CodeExecutionCancelled,
	wire.CodeTooManyConnections, wire.CodePreauthBuffer, wire.CodeQuiescing,
	wire.CodeMissingCommand, wire.CodeRetainCapacity, wire.CodeRetainNeedsID, "invalid_cwd", "invalid_timeout", "mkdir_failed",
}

// A reason is why a program has to be ended from here.
type reason int

const (
	noReason   reason = iota
	stopped           // its context ended, or its output could not be written
	overdue           // the guest should have ended it by its timeout
	reconciled        // its stream ended in a way that leaves open what it does
)

// A finding is all that was learned about an execution.
type finding struct {
	name    string
	addr    string
	timeout time.Duration

	why   reason
	cause error              // with stopped
	end   streamEnd          // fault says so when the stream did not end
	ack   *wire.Cancellation // nil when there is none
	unack *CancelError       // why there is no ack, where one was asked for
}

// outcome is what Wait reports. The context's cause goes before everything, and
// the word of a result before that of an acknowledgement.
func (f finding) outcome() (*Result, error) {
	switch f.end.meaning() {
	case endFinished:
		return f.finished()
	case endNotStarted:
		if f.why == stopped {
			return nil, &StoppedError{Name: f.name, Cause: f.cause}
		}
		return nil, f.notStarted()
	}
	if f.ack == nil {
		err := f.unack
		err.Name, err.Cause = f.name, f.cause
		switch f.why {
		case overdue:
			err.Cause = f.late()
		case reconciled:
			err.Cause = f.fault()
		}
		return newResult(f.end.result), err
	}
	if f.ack.State == wire.StateFailed || !f.ack.Started {
		if f.why == stopped {
			return nil, &StoppedError{Name: f.name, Cause: f.cause}
		}
		return nil, f.notStarted()
	}
	lost := &LostError{Op: "execute " + f.name, Sent: true, Confirmed: true, Result: newResult(f.ack.Result), Err: f.fault()}
	switch f.why {
	case stopped:
		lost.Cause = f.cause
	case overdue:
		lost.Cause = f.late()
	}
	return lost.Result, lost
}

func (f finding) finished() (*Result, error) {
	r := newResult(f.end.result)
	if f.why == stopped {
		return r, &StoppedError{Name: f.name, Cause: f.cause, Result: r}
	}
	if f.why == overdue && (f.ack == nil || f.ack.State == wire.StateCancelled) {
		r.TimedOut = true
	}
	if r.success() {
		return r, nil
	}
	return r, &ExitError{Result: *r, name: f.name, timeout: f.timeout}
}

func (f finding) notStarted() error {
	switch {
	case f.end.refused != nil:
		switch r := f.end.refused; r.Code {
		case wire.CodeUnauthorized:
			return &UnauthorizedError{Op: wire.OpExecute, Addr: f.addr}
		case wire.CodeRetiring:
			return &RetiringError{Op: wire.OpExecute, Addr: f.addr}
		default:
			return newStartError(f.name, words(r))
		}
	case f.ack != nil && f.ack.Error != "":
		return newStartError(f.name, f.ack.Error)
	case f.end.failed != nil && f.end.failed.Text == wire.CodeRetiring:
		return &RetiringError{Op: wire.OpExecute, Addr: f.addr}
	case f.end.failed != nil:
		return newStartError(f.name, f.end.failed.Text)
	}
	return &StartError{Name: f.name, Err: f.fault()}
}

// fault is what was wrong with the stream.
func (f finding) fault() error {
	switch {
	case f.end.fault != nil:
		return f.end.fault
	case f.end.failed != nil:
		return f.end.failed
	case f.end.refused != nil:
		return f.end.refused
	}
	return errNoEnd
}

var errNoEnd = errors.New("the stream did not end")

func (f finding) late() error {
	return fmt.Errorf("no result came within the timeout of %v", f.timeout)
}
