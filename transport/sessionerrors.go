package transport

import "fmt"

// A SessionDetachedError reports a session that is not attached any more and
// may still run. Its output was read up to Offset; AttachSession goes on from
// there.
type SessionDetachedError struct {
	ID     string
	Offset int64
	Err    error // why: ErrDetached, ErrSuperseded, or what broke
}

func (e *SessionDetachedError) Error() string {
	return fmt.Sprintf("transport: session %s is not attached any more (attach again from offset %d): %v", e.ID, e.Offset, e.Err)
}

func (e *SessionDetachedError) Unwrap() error { return e.Err }

func (e *SessionDetachedError) hadNoEffect() bool { return false }

// A SessionError is the guest's refusal of an operation on a session, which had
// no effect.
type SessionError struct {
	Op     string
	ID     string // empty when it was about all of them
	Reason string // such as "unknown_session", "session_exists" or "session_capacity"
	Text   string // the guest's words
}

func (e *SessionError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("transport: %s: %s", e.Op, e.Text)
	}
	return fmt.Sprintf("transport: %s: session %s: %s", e.Op, e.ID, e.Text)
}

func (e *SessionError) hadNoEffect() bool { return true }
