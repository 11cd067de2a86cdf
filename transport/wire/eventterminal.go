package wire

import (
	"encoding/json"
	"math"
)

// The types of frames of terminals, attached sessions and tcp-connect, beside
// TypeData, TypeEnd and TypeError.
const (
	TypeReady     = "ready"
	TypeExit      = "exit"
	TypeDetached  = "detached"
	TypeHeartbeat = "heartbeat"
)

// The reasons of a Detached.
const (
	DetachedSuperseded = "superseded"
	DetachedSlowReader = "slow_reader"
)

// The streams of a SessionData.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
)

// A Bare frame has nothing but its type: TypeHeartbeat, or TypeEnd of a
// tcp-connect.
type Bare struct {
	Type string `json:"type"`
}

// A Ready opens a terminal that is no session, and a tcp-connect. HeartbeatMs
// is zero unless the guest took up the heartbeat that was asked for.
type Ready struct {
	Type        string `json:"type"`
	BootID      string `json:"guestBootId,omitempty"`
	HeartbeatMs int64  `json:"heartbeatMs,omitempty"`
}

// A SessionReady opens a persistent terminal and an attach-session. ExitCode is
// nil unless the session has exited.
type SessionReady struct {
	Type        string `json:"type"`
	BootID      string `json:"guestBootId,omitempty"`
	SessionID   string `json:"sessionId"`
	Kind        string `json:"kind"`
	State       string `json:"state"`
	ExitCode    *int   `json:"exitCode,omitempty"`
	Signal      int    `json:"signal,omitempty"`
	FromOffset  int64  `json:"fromOffset"`
	Dropped     int64  `json:"droppedBytes"`
	NextOffset  int64  `json:"nextOffset"`
	HeartbeatMs int64  `json:"heartbeatMs,omitempty"`
}

// A SessionData is a piece of a session's output, with its place in bytes in
// one space for both streams.
type SessionData struct {
	Type       string `json:"type"`
	Stream     string `json:"stream"`
	Data       string `json:"data"`
	Offset     int64  `json:"offset"`
	NextOffset int64  `json:"nextOffset"`
}

// An Exit is the end of the program of a terminal or session. Signal is the
// number of the signal that ended it, with an ExitCode of -1. NextOffset is
// there for sessions only.
type Exit struct {
	Type       string `json:"type"`
	ExitCode   int    `json:"exitCode"`
	Signal     int    `json:"signal,omitempty"`
	NextOffset *int64 `json:"nextOffset,omitempty"`
}

// A Detached ends an attachment while its session lives on.
type Detached struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
}

// ParseTerminalEvent reads one frame of a terminal or an attached session: a
// *Ready, *SessionReady, *Data whose Data is text, *SessionData, *Exit,
// *Detached, *Bare heartbeat or *StreamError. A control-shaped refusal comes
// back as the error, a *Refusal.
func ParseTerminalEvent(payload []byte) (any, error) {
	m, kind, err := eventType("terminal event", payload)
	if err != nil {
		return nil, err
	}
	switch kind {
	case TypeReady:
		if m.fields["sessionId"] != nil {
			return m.sessionReady(), m.err
		}
		return m.ready(), m.err
	case TypeData:
		if m.fields["offset"] == nil && m.fields["nextOffset"] == nil {
			d := &Data{Type: kind}
			field(m, "data", true, &d.Data)
			return d, m.err
		}
		d := &SessionData{Type: kind}
		field(m, "data", true, &d.Data)
		field(m, "stream", true, &d.Stream)
		m.span(&d.Offset, &d.NextOffset)
		if m.err == nil && d.Stream != StreamStdout && d.Stream != StreamStderr {
			m.fail("stream %.40q", d.Stream)
		}
		return d, m.err
	case TypeExit:
		e := &Exit{Type: kind}
		m.exit(true, &e.ExitCode, &e.Signal)
		var next int64
		if m.size("nextOffset", false, &next) {
			e.NextOffset = new(next)
		}
		return e, m.err
	case TypeDetached:
		d := &Detached{Type: kind}
		field(m, "reason", true, &d.Reason)
		return d, m.err
	case TypeHeartbeat:
		return &Bare{Type: kind}, nil
	case TypeError:
		e := &StreamError{Type: kind}
		field(m, "error", true, &e.Text)
		var next int64
		if m.size("nextOffset", false, &next) {
			e.NextOffset = new(next)
		}
		return e, m.err
	}
	m.fail("type %.40q", kind)
	return nil, m.err
}

func (m *message) ready() *Ready {
	r := &Ready{Type: TypeReady, HeartbeatMs: m.heartbeat()}
	field(m, "guestBootId", false, &r.BootID)
	return r
}

func (m *message) sessionReady() *SessionReady {
	r := &SessionReady{Type: TypeReady, HeartbeatMs: m.heartbeat()}
	field(m, "guestBootId", false, &r.BootID)
	field(m, "sessionId", true, &r.SessionID)
	field(m, "kind", true, &r.Kind)
	field(m, "state", true, &r.State)
	m.size("fromOffset", true, &r.FromOffset)
	m.size("droppedBytes", true, &r.Dropped)
	m.size("nextOffset", true, &r.NextOffset)
	var code int
	if m.exit(false, &code, &r.Signal) {
		r.ExitCode = new(code)
	}
	return r
}

// exit reads how a program ended and reports whether it has.
func (m *message) exit(required bool, code, signal *int) bool {
	var n, s int64
	there := m.integer("exitCode", required, &n)
	m.integer("signal", false, &s)
	if n < math.MinInt32 || n > math.MaxInt32 {
		m.fail("exitCode %d is out of range", n)
	}
	if s < 0 || s > math.MaxInt32 {
		m.fail("signal %d is out of range", s)
	}
	*code, *signal = int(n), int(s)
	return there
}

// heartbeat reads the field "heartbeatMs" in whole milliseconds. What is no
// number above zero arms nothing, and is no error.
func (m *message) heartbeat() int64 {
	number, _ := m.fields["heartbeatMs"].(json.Number)
	ms, err := number.Float64()
	if err != nil || !(ms > 0) {
		return 0
	}
	return int64(max(1, math.Floor(min(ms, MaxSafeInteger))))
}
