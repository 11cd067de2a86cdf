package wire

// The types of frames of an attach-execution, beside deltas.
const (
	TypeAttached     = "attached"
	TypeAttachResult = "attach_result"
)

// A RetainedDelta is a piece of output that the guest keeps. Offset and
// NextOffset are its place in bytes in one space for both streams, and say
// nothing about the length of Data, whose bytes may have become U+FFFD.
type RetainedDelta struct {
	Type       string `json:"type"`
	Data       string `json:"data"`
	Offset     int64  `json:"offset"`
	NextOffset int64  `json:"nextOffset"`
}

// An Attached opens the answer to attach-execution. Dropped bytes lay between
// the offset that was asked for and FromOffset, the first one that is kept.
type Attached struct {
	Type        string `json:"type"`
	ExecutionID string `json:"executionId"`
	State       string `json:"state"`
	FromOffset  int64  `json:"fromOffset"`
	Dropped     int64  `json:"droppedBytes"`
}

// An AttachResult is the end of an execution whose output is kept. Outcome is
// StateCompleted, StateCancelled or StateFailed.
type AttachResult struct {
	Type        string  `json:"type"`
	ExecutionID string  `json:"executionId"`
	Outcome     string  `json:"outcome"`
	Started     bool    `json:"started"`
	Result      *Result `json:"result,omitempty"`
	Error       string  `json:"error,omitempty"`
	NextOffset  int64   `json:"nextOffset"`
}

// ParseRetainedEvent reads one frame of an execute stream with RetainOutput or
// of an attach-execution: a *RetainedDelta, *Attached, *AttachResult, *Result
// or *StreamError. A control-shaped refusal comes back as the error, a *Refusal.
func ParseRetainedEvent(payload []byte) (any, error) {
	m, kind, err := eventType("event of a retained execution", payload)
	if err != nil {
		return nil, err
	}
	switch kind {
	case TypeStdout, TypeStderr:
		d := &RetainedDelta{Type: kind}
		field(m, "data", true, &d.Data)
		m.span(&d.Offset, &d.NextOffset)
		return d, m.err
	case TypeAttached:
		a := &Attached{Type: kind}
		field(m, "executionId", true, &a.ExecutionID)
		field(m, "state", true, &a.State)
		m.size("fromOffset", true, &a.FromOffset)
		m.size("droppedBytes", true, &a.Dropped)
		return a, m.err
	case TypeAttachResult:
		r := &AttachResult{Type: kind}
		field(m, "executionId", true, &r.ExecutionID)
		field(m, "outcome", true, &r.Outcome)
		field(m, "started", true, &r.Started)
		field(m, "error", false, &r.Error)
		m.size("nextOffset", true, &r.NextOffset)
		r.Result = m.nestedResult()
		switch r.Outcome {
		case StateCancelled, StateCompleted, StateFailed:
		default:
			m.fail("outcome %.40q", r.Outcome)
		}
		return r, m.err
	case TypeResult:
		r := &Result{Type: kind}
		m.result(r)
		return r, m.err
	case TypeError:
		e := &StreamError{Type: kind}
		field(m, "error", true, &e.Text)
		field(m, "state", false, &e.State)
		return e, m.err
	}
	m.fail("type %.40q", kind)
	return nil, m.err
}

// span reads the place of a piece of output, which does not run backwards.
func (m *message) span(offset, next *int64) {
	m.size("offset", true, offset)
	m.size("nextOffset", true, next)
	if *next < *offset {
		m.fail("nextOffset %d is before offset %d", *next, *offset)
	}
}

// nestedResult reads the field "result", which may be absent.
func (m *message) nestedResult() *Result {
	var fields map[string]any
	if !field(m, "result", false, &fields) {
		return nil
	}
	inner := &message{name: m.name + "'s result", fields: fields}
	r := &Result{}
	if inner.result(r); inner.err != nil && m.err == nil {
		m.err = inner.err
	}
	return r
}
