package transport

import (
	"errors"
	"fmt"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A readState is how far the stream of a file has come. It holds the peer to
// what it announced.
type readState struct {
	path           string
	offset, length int64 // asked for; a negative length is the rest of the file
	limit          int64 // bytes that are accepted

	meta     *wire.Meta // nil until it has come
	received int64
	piece    []byte // the buffer of the data
}

// next takes an event. It returns the data in it and whether it is the last.
func (s *readState) next(event any) (data []byte, last bool, err error) {
	if s.meta == nil {
		switch v := event.(type) {
		case *wire.Meta:
			s.meta = v
			return nil, false, s.judge(v)
		case *wire.StreamError:
			return nil, false, newFileError(wire.OpReadFileStream, s.path, v.Text)
		}
		return nil, false, s.broken("the file's size did not come first")
	}
	switch v := event.(type) {
	case []byte:
		if s.received += int64(len(v)); s.received > s.meta.Length {
			return nil, false, s.broken("more than the %d bytes came that were announced", s.meta.Length)
		}
		return v, false, nil
	case *wire.End:
		switch {
		case v.BytesSent != s.received:
			return nil, false, s.broken("%d bytes were sent and %d came", v.BytesSent, s.received)
		case s.received < s.meta.Length:
			text := fmt.Sprintf("the file became shorter while it was read: %d bytes came of %d", s.received, s.meta.Length)
			return nil, false, newFileError(wire.OpReadFileStream, s.path, text)
		}
		return nil, true, nil
	case *wire.StreamError:
		return nil, false, newFileError(wire.OpReadFileStream, s.path, v.Text)
	}
	return nil, false, s.broken("the file's size came twice")
}

func (s *readState) judge(m *wire.Meta) error {
	rest := max(0, m.SizeBytes-m.Offset)
	switch {
	case m.Offset != s.offset:
		return s.broken("the data is from %d and was to be from %d", m.Offset, s.offset)
	case m.Length > rest:
		return s.broken("%d bytes are announced of %d that there are", m.Length, rest)
	case s.length >= 0 && m.Length > s.length:
		return s.broken("%d bytes are announced and %d were asked for", m.Length, s.length)
	case m.Length > s.limit:
		return &TooLargeError{What: s.path, Size: m.Length, Limit: s.limit}
	}
	return nil
}

func (s *readState) broken(format string, args ...any) error {
	return &ProtocolError{Op: wire.OpReadFileStream, Err: fmt.Errorf(format, args...)}
}

// judgeRange checks the reply to a read of a range.
func judgeRange(r wire.ReadReply, data []byte, offset, length int64) error {
	var err error
	switch n := int64(len(data)); {
	case r.Offset == nil || r.BytesRead == nil:
		err = errors.New("a range was asked for and is not what came")
	case *r.Offset != offset:
		err = fmt.Errorf("the data is from %d and was to be from %d", *r.Offset, offset)
	case *r.BytesRead != n:
		err = fmt.Errorf("%d bytes are announced and %d came", *r.BytesRead, n)
	case n > length || n > max(0, r.SizeBytes-offset):
		err = fmt.Errorf("%d bytes came of %d that were asked for, from %d in a file of %d", n, length, offset, r.SizeBytes)
	default:
		return nil
	}
	return &ProtocolError{Op: wire.OpReadFile, Err: err}
}
