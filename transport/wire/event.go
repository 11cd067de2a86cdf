package wire

import (
	"encoding/base64"
)

// The types of stream frames.
const (
	TypeStdout = "stdout_delta"
	TypeStderr = "stderr_delta"
	TypeResult = "result"
	TypeError  = "error"
	TypeMeta   = "meta"
	TypeData   = "data"
	TypeEnd    = "end"
)

// A Delta is a piece of a program's output. Data is text: bytes that are no
// UTF-8 have become U+FFFD before they reached the wire.
type Delta struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// A StreamError ends a stream without a result. State comes with
// CodeNotRetained and NextOffset with CodeInvalidOffset of a session.
type StreamError struct {
	Type       string `json:"type"`
	Text       string `json:"error"`
	State      string `json:"state,omitempty"`
	NextOffset *int64 `json:"nextOffset,omitempty"`
}

func (e *StreamError) Error() string { return "guest: " + e.Text }

// A Meta opens the answer to read-file-stream.
type Meta struct {
	Type      string `json:"type"`
	SizeBytes int64  `json:"sizeBytes"` // of the whole file
	Offset    int64  `json:"offset"`
	Length    int64  `json:"length"` // bytes that follow
}

// A Data is a piece of a file, base64 on the wire.
type Data struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// An End closes the answer to read-file-stream.
type End struct {
	Type      string `json:"type"`
	BytesSent int64  `json:"bytesSent"`
}

// eventType reads the type of a stream frame. A frame with ok false is how a
// guest refuses before it has looked at the operation, and comes back as a
// *Refusal.
func eventType(name string, payload []byte) (*message, string, error) {
	m := parse(name, payload)
	if m.err != nil {
		return m, "", m.err
	}
	_, control := m.fields["ok"]
	if _, typed := m.fields["type"]; control && !typed {
		_, err := reply(name, payload)
		if err == nil {
			err = &MessageError{Message: name, Problem: "a control reply"}
		}
		return m, "", err
	}
	var kind string
	field(m, "type", true, &kind)
	return m, kind, m.err
}

// ParseExecuteEvent reads one frame of an execute stream: a *Delta, a *Result
// or a *StreamError. A control-shaped refusal comes back as the error, a
// *Refusal.
func ParseExecuteEvent(payload []byte) (any, error) {
	m, kind, err := eventType("execute event", payload)
	if err != nil {
		return nil, err
	}
	switch kind {
	case TypeStdout, TypeStderr:
		d := &Delta{Type: kind}
		field(m, "data", true, &d.Data)
		return d, m.err
	case TypeResult:
		r := &Result{Type: kind}
		m.result(r)
		return r, m.err
	case TypeError:
		e := &StreamError{Type: kind}
		field(m, "error", true, &e.Text)
		return e, m.err
	}
	m.fail("type %.40q", kind)
	return nil, m.err
}

// ParseReadEvent reads one frame of a read-file-stream: a *Meta, a []byte of
// decoded data, an *End or a *StreamError. A control-shaped refusal comes back
// as the error, a *Refusal.
func ParseReadEvent(payload []byte) (any, error) {
	if data, ok := AppendData([]byte{}, payload); ok {
		return data, nil
	}
	m, kind, err := eventType("read-file-stream event", payload)
	if err != nil {
		return nil, err
	}
	switch kind {
	case TypeMeta:
		v := &Meta{Type: kind}
		m.size("sizeBytes", true, &v.SizeBytes)
		m.size("offset", true, &v.Offset)
		m.size("length", true, &v.Length)
		return v, m.err
	case TypeData:
		var text string
		field(m, "data", true, &text)
		if m.err != nil {
			return nil, m.err
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			m.fail("data is no base64")
		}
		return data, m.err
	case TypeEnd:
		v := &End{Type: kind}
		m.size("bytesSent", true, &v.BytesSent)
		return v, m.err
	case TypeError:
		e := &StreamError{Type: kind}
		field(m, "error", true, &e.Text)
		return e, m.err
	}
	m.fail("type %.40q", kind)
	return nil, m.err
}
