package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// bytesConn is a connection whose peer has sent the bytes and closed.
type bytesConn struct {
	net.Conn
	r io.Reader
}

func (c bytesConn) Read(p []byte) (int, error)      { return c.r.Read(p) }
func (c bytesConn) SetReadDeadline(time.Time) error { return nil }

func receiving(data []byte) *conn {
	config := Config{}.withDefaults()
	c := &conn{Conn: bytesConn{r: bytes.NewReader(data)}, config: &config}
	c.frames = wire.NewFrameReader(idleReader{c}, streamFrame)
	return c
}

func stream(payloads ...string) (b []byte) {
	for _, p := range payloads {
		b = wire.AppendFrame(b, []byte(p))
	}
	return b
}

// FuzzExecuteStream reads arbitrary bytes as the stream of a program. Only a
// result with the terminator behind it, and nothing behind that, is an end of
// the program; no more output is handed on than was allowed.
func FuzzExecuteStream(f *testing.F) {
	const delta = `{"type":"stdout_delta","data":"x☕"}`
	const result = `{"type":"result","exitCode":0,"timedOut":false,"durationMs":1}`
	f.Add(stream(delta, result, ""))
	f.Add(stream(delta, `{"type":"stderr_delta","data":"\ud800"}`, result))
	f.Add(stream(result, "", ""))
	f.Add(stream(`{"type":"error","error":"invalid_cwd: x"}`, ""))
	f.Add(stream(`{"ok":false,"error":"unauthorized"}`))
	f.Add(stream(delta, delta, delta, delta, delta, delta, delta, delta, delta, result, ""))
	f.Add([]byte("00000010\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 10
		var out, errs bytes.Buffer
		s := newExecStream(receiving(data), &Cmd{Stdout: &out, Stderr: &errs, MaxOutput: most})
		end := s.read()
		if out.Len() > 3*most || errs.Len() > 3*most {
			t.Errorf("%d and %d bytes of output, at most %d were allowed", out.Len(), errs.Len(), 3*most)
		}
		complete := end.fault == nil && end.result != nil
		if (end.meaning() == endFinished) != complete {
			t.Errorf("the meaning of %+v is %v", end, end.meaning())
		}
		if complete && (!bytes.HasSuffix(data, []byte("00000000\n")) || bytes.Count(data, []byte("\n{")) < 1) {
			t.Errorf("taken for complete: %q", data)
		}
		if end.fault == nil && end.result == nil && end.failed == nil && end.refused == nil {
			t.Error("an end without a reason")
		}
		for _, why := range []reason{noReason, stopped, overdue, reconciled} {
			for _, ack := range []*wire.Cancellation{nil, {State: wire.StateCancelled, Started: true}, {State: wire.StateCancelled}, {State: wire.StateFailed, Started: true, Error: "x"}, {State: wire.StateCompleted, Started: true, Result: &wire.Result{}}} {
				fd := finding{name: "x", why: why, end: end, ack: ack}
				if why == stopped {
					fd.cause = io.ErrClosedPipe
				}
				if ack == nil {
					fd.unack = &CancelError{Err: io.EOF}
				}
				_, err := fd.outcome()
				if err == nil && !complete {
					t.Errorf("a success of %+v with %+v", end, ack)
				}
				if why == stopped && !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("%v does not wrap the cause", err)
				}
				if err != nil && err.Error() == "" {
					t.Error("an error without a text")
				}
			}
		}
	})
}

// FuzzReadStream reads arbitrary bytes as the stream of a file. What is taken
// for the whole file has the length that was announced.
func FuzzReadStream(f *testing.F) {
	f.Add(stream(`{"type":"meta","sizeBytes":8,"offset":0,"length":8}`, `{"type":"data","data":"AgMEBQYH"}`, `{"type":"data","data":"AgM="}`, `{"type":"end","bytesSent":8}`, ""), int64(0), int64(-1))
	f.Add(stream(`{"type":"meta","sizeBytes":8,"offset":2,"length":6}`, `{"type":"data","data":"AgMEBQYH"}`, `{"type":"end","bytesSent":6}`), int64(2), int64(6))
	f.Add(stream(`{"type":"meta","sizeBytes":0,"offset":9,"length":0}`, `{"type":"end","bytesSent":0}`), int64(9), int64(100))
	f.Add(stream(`{"type":"error","error":"ENOENT: x"}`, ""), int64(0), int64(-1))
	f.Add(stream(`{"type":"data","data":"AgM="}`), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, offset, length int64) {
		c, b := receiving(data), &binding{}
		s := readState{path: "a", offset: max(0, offset), length: length, limit: 1 << 20}
		var n int64
		for {
			got, last, err := c.fileEvent(b, wire.OpReadFileStream, &s)
			if err != nil {
				return
			}
			if n += int64(len(got)); n > s.meta.Length || n > s.limit || length >= 0 && n > length {
				t.Fatalf("%d bytes of %d, asked for %d", n, s.meta.Length, length)
			}
			if last {
				if n != s.meta.Length {
					t.Fatalf("taken for whole: %d bytes of %d", n, s.meta.Length)
				}
				return
			}
		}
	})
}

// FuzzControlReply has no panics and no success without a close.
func FuzzControlReply(f *testing.F) {
	f.Add(stream(`{"ok":true,"protocolVersion":2,"features":["flush"]}`))
	f.Add(stream(`{"ok":false,"error":"unauthorized"}`, "x"))
	f.Add(append(stream(`{"ok":true,"protocolVersion":2}`), 'x'))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := receiving(data)
		payload, err := c.frames.Next()
		if err != nil {
			if err := readFailure("op", err); err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		n := len(payload)
		if err := c.awaitClose("op"); (err == nil) != (len(data) == wire.HeaderLen+n) {
			t.Errorf("%d bytes with a frame of %d: %v", len(data), n, err)
		}
	})
}
