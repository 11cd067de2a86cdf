package guest

import (
	"errors"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// exitedWait is how long a cancel waits for a program whose process has ended
// already and whose output somebody in its group still holds: its own end is
// better than one by signal.
const exitedWait = time.Second

// cancel answers cancel-execution: it confirms that an execution has ended, and
// ends it before if need be.
func (s *Server) cancel(c *call) {
	id, _ := c.body["executionId"].(string)
	if !wire.ValidExecutionID(id) {
		c.fail(refusal(wire.CodeInvalidExecutionID))
		return
	}
	e := s.executions.find(id)
	if e == nil {
		c.reply(&wire.Refusal{BootID: s.bootID, Code: wire.CodeUnknownExecution})
		return
	}
	if err := s.executions.cancel(e); err != nil {
		c.reply(&wire.Refusal{BootID: s.bootID, Code: wire.CodeCancelUnconfirmed, Message: err.Error()})
		return
	}
	c.reply(s.executions.outcome(e))
}

// cancel ends an execution and returns when it has ended, or an error if that
// cannot be confirmed.
func (t *executions) cancel(e *execution) error {
	if t.cancelUnstarted(e) {
		return nil
	}
	<-e.launched
	if t.onlyOutputLeft(e) {
		select {
		case <-e.settled:
		case <-time.After(exitedWait):
		}
	}
	if end := e.terminate(causeCancel, t.server.config.CancelGrace); end != nil {
		if <-end.done; end.err != nil {
			return end.err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.fenced != "" {
		return errors.New(e.fenced)
	}
	return nil
}

// cancelUnstarted reports whether e has not started or is over, and sees to it
// that it never starts.
func (t *executions) cancelUnstarted(e *execution) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.state {
	case wire.StateReserved, wire.StateStarting:
		e.settleLocked(wire.StateCancelled, notStarted(e.asked))
	case wire.StateTerminal:
	default:
		return false
	}
	return true
}

// onlyOutputLeft reports whether the process has ended of itself.
func (t *executions) onlyOutputLeft(e *execution) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.state == wire.StateExited && e.end == nil
}

// outcome says how an execution has ended.
func (t *executions) outcome(e *execution) *wire.Cancellation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &wire.Cancellation{
		OK: true, BootID: t.server.bootID, State: e.outcome, Started: e.started, Result: e.result, Error: e.failure,
	}
}
