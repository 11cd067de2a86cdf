package guest

import (
	"fmt"
	"time"
)

type cause int

const (
	causeCancel cause = iota
	causeTimeout
	causeQuiesce
)

// A termination is the one attempt to end an execution, which all that want it
// to end share: the first decides how.
type termination struct {
	cause   cause
	decided chan struct{} // closed when gone is known
	gone    bool          // the process group is
	done    chan struct{} // closed when the execution has settled, or err is known
	err     error         // the end could not be confirmed
}

// terminate begins to end a launched execution, or joins in. It returns nil if
// nothing runs any more.
func (e *execution) terminate(why cause, grace time.Duration) *termination {
	t := &e.server.executions
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.end != nil {
		return e.end
	}
	if e.program == nil || closed(e.settled)() {
		return nil
	}
	e.end = &termination{cause: why, decided: make(chan struct{}), done: make(chan struct{})}
	e.server.programs.Go(func() { e.end.run(e, grace) })
	return e.end
}

func (end *termination) run(e *execution, grace time.Duration) {
	defer close(end.done)
	limit := e.server.config.CancelTimeout
	end.gone = e.program.group.end(grace, limit)
	if !end.gone {
		end.err = fmt.Errorf("process group %d has members that did not end within %v", e.program.group, limit)
		e.server.retire(end.err.Error())
		close(end.decided)
		e.outbox.destroy()
		if e.log != nil {
			e.log.close(true)
		}
		return
	}
	close(end.decided)
	// What the group has written is in the pipes. Room is made for it even if
	// the peer does not read, and a process outside the group that still has
	// the other end is not waited for.
	e.hurry()
	e.program.hangUpIfHeld()
	<-e.settled
}
