package guest

import (
	"github.com/sandlot-go/sandlot/transport/wire"
)

// attachExecution answers attach-execution: it shows what was kept of an
// execution's output, what comes, and how it ends. It only looks.
func (s *Server) attachExecution(c *call) {
	id, _ := c.body["executionId"].(string)
	if !wire.ValidExecutionID(id) {
		c.fail(refusal(wire.CodeInvalidExecutionID))
		return
	}
	e, log, state := s.executions.kept(id)
	switch {
	case e == nil:
		c.fail(refusal(wire.CodeUnknownExecution))
		return
	case log == nil:
		c.fail(&wire.StreamError{Type: wire.TypeError, Text: wire.CodeNotRetained, State: state})
		return
	}
	from := c.number("fromOffset", 0)
	if !safeInteger(from) {
		c.fail(refusal(wire.CodeInvalidOffset))
		return
	}
	reading, start, _ := log.read(int64(from), c.conn.destroy)
	if reading == nil {
		c.fail(refusal(wire.CodeInvalidOffset))
		return
	}
	defer reading.stop()
	// Its peer has nothing to say. One that does mistakes it for something else.
	c.listen(func([]byte) { c.conn.destroy() })
	c.send(&wire.Attached{
		Type: wire.TypeAttached, ExecutionID: id, State: state, FromOffset: start, Dropped: start - int64(from),
	})
	for {
		pieces, progress := reading.next(c.ctx)
		switch progress {
		case readMore:
			for _, p := range pieces {
				if c.send(p.delta()) != nil {
					c.conn.destroy()
					return
				}
			}
		case readEnd:
			s.attachResult(c, e, log)
			return
		default: // too slow, without an end, or left: it can attach again
			c.conn.destroy()
			return
		}
	}
}

// attachResult ends the answer with the end of the execution.
func (s *Server) attachResult(c *call, e *execution, log *ring) {
	how := s.executions.outcome(e)
	_, end := log.span()
	c.send(&wire.AttachResult{
		Type: wire.TypeAttachResult, ExecutionID: e.id, Outcome: how.State, Started: how.Started,
		Result: how.Result, Error: how.Error, NextOffset: end,
	})
	c.terminate()
}

// kept returns the execution of that id, its log and its state. The log is nil
// if its output is not kept.
func (t *executions) kept(id string) (e *execution, log *ring, state string) {
	if e = t.find(id); e == nil {
		return nil, nil, ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return e, e.log, e.state
}
