package wire

import "encoding/base64"

// ParseConnectEvent reads one frame of a tcp-connect: a *Ready, a []byte of
// decoded data, a *Bare of TypeEnd or TypeHeartbeat, or a *StreamError. A
// control-shaped refusal comes back as the error, a *Refusal.
func ParseConnectEvent(payload []byte) (any, error) {
	if data, ok := AppendData([]byte{}, payload); ok {
		return data, nil
	}
	m, kind, err := eventType("tcp-connect event", payload)
	if err != nil {
		return nil, err
	}
	switch kind {
	case TypeReady:
		return m.ready(), m.err
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
	case TypeEnd, TypeHeartbeat:
		return &Bare{Type: kind}, nil
	case TypeError:
		e := &StreamError{Type: kind}
		field(m, "error", true, &e.Text)
		return e, m.err
	}
	m.fail("type %.40q", kind)
	return nil, m.err
}
