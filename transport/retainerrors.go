package transport

import (
	"errors"
	"fmt"
)

// ErrDetached is why a program is not followed any more after Cmd.Detach, and a
// session after Terminal.Detach.
var ErrDetached = errors.New("transport: detached")

// An ExecutionDetachedError reports a program that is not followed any more and
// may still run. Its output was delivered up to Offset; Agent.Attach goes on
// from there.
type ExecutionDetachedError struct {
	ID     string
	Offset int64
	Err    error // why it is not followed
}

func (e *ExecutionDetachedError) Error() string {
	return fmt.Sprintf("transport: execution %s is not followed any more, it may still run (attach again from offset %d): %v", e.ID, e.Offset, e.Err)
}

func (e *ExecutionDetachedError) Unwrap() error { return e.Err }

func (e *ExecutionDetachedError) hadNoEffect() bool { return false }

// A NotAttachableError reports that the guest cannot tell of an execution.
type NotAttachableError struct {
	ID     string
	Reason string // "unknown_execution", "output_not_retained", "invalid_offset" or another code of the guest
	State  string // with "output_not_retained"; "reserved" means that it never started
	Text   string // the guest's words
}

func (e *NotAttachableError) Error() string {
	s := fmt.Sprintf("transport: execution %s cannot be attached to: %s", e.ID, e.Text)
	if e.State != "" {
		s += " (state " + e.State + ")"
	}
	return s
}

func (e *NotAttachableError) hadNoEffect() bool { return true }
