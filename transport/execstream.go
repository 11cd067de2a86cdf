package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// execStream reads the stream of one execution and hands its output out. Except
// for drain and the channels it belongs to the goroutine that calls read.
type execStream struct {
	conn    *conn
	clock   *streamClock
	outputs map[string]*output // by type of frame
	broken  chan struct{}      // closed when a writer has failed
	err     error              // of the writer; valid once broken is closed
}

// output is where one stream of the program goes.
type output struct {
	w    io.Writer // nil: nowhere, or it has failed
	left int64     // bytes of text that may come yet
}

func newExecStream(c *conn, cmd *Cmd) *execStream {
	s := &execStream{
		outputs: map[string]*output{
			wire.TypeStdout: {cmd.Stdout, cmd.maxText()},
			wire.TypeStderr: {cmd.Stderr, cmd.maxText()},
		},
		broken: make(chan struct{}),
	}
	return s.over(c, cmd.timeout())
}

// over makes it the stream over another connection.
func (s *execStream) over(c *conn, timeout time.Duration) *execStream {
	s.conn, s.clock = c, newStreamClock(c.Conn, timeout+observeAfter, timeout+overdueAfter)
	c.source = s.clock
	return s
}

// read reads the stream to its end.
func (s *execStream) read() (end streamEnd) {
	for {
		payload, err := s.conn.frames.Next()
		if err != nil {
			end.fault = streamFault(err, end.result != nil)
			return end
		}
		if len(payload) == 0 {
			if end.result == nil {
				end.fault = errors.New("the stream ended without a result")
				return end
			}
			end.fault = s.conn.awaitClose(wire.OpExecute)
			return end
		}
		event, err := wire.ParseExecuteEvent(payload)
		if refusal, ok := errors.AsType[*wire.Refusal](err); ok && end.result == nil {
			end.refused = refusal
			return end
		}
		if err == nil && end.result != nil {
			err = errors.New("an event came after the result")
		}
		if err == nil {
			switch event := event.(type) {
			case *wire.Delta:
				end.output = true
				err = s.deliver(event)
			case *wire.Result:
				end.result = event
			case *wire.StreamError:
				end.failed = event
				return end
			}
		}
		if err != nil {
			end.fault = &ProtocolError{Op: wire.OpExecute, Err: err}
			return end
		}
	}
}

// deliver writes output. Its error is that of a peer that sends more than it
// was told to.
func (s *execStream) deliver(d *wire.Delta) error {
	out := s.outputs[d.Type]
	if out.left -= int64(len(d.Data)); out.left < 0 {
		return fmt.Errorf("more %s came than MaxOutput allows", d.Type)
	}
	if out.w == nil || d.Data == "" {
		return nil
	}
	start := time.Now()
	n, err := io.WriteString(out.w, d.Data)
	s.clock.pause(start)
	if err == nil && n != len(d.Data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		out.w = nil
		if s.err == nil {
			s.err = fmt.Errorf("its output could not be written: %w", err)
			close(s.broken)
		}
	}
	return nil
}

func streamFault(err error, result bool) error {
	switch {
	case err == io.EOF && result:
		return errors.New("the connection was closed after the result and before the end of the stream")
	case err == io.EOF:
		return fmt.Errorf("the connection was closed before the result: %w", io.ErrUnexpectedEOF)
	case errors.Is(err, wire.ErrHeader):
		return &ProtocolError{Op: wire.OpExecute, Err: err}
	}
	if _, ok := errors.AsType[*wire.TooLargeError](err); ok {
		return &ProtocolError{Op: wire.OpExecute, Err: err}
	}
	return err
}

// A streamClock reads a connection against two times: at the first the channel
// overdue is closed, at the second reading ends. They are put off by the time
// that is spent in the writers of the output, since a slow one is no fault of
// the peer's.
type streamClock struct {
	conn    net.Conn
	overdue chan struct{}

	mu     sync.Mutex // guards what follows
	warn   time.Time  // zero once overdue is closed
	limit  time.Time
	set    time.Time // when limit was last set
	reason error     // what ends at limit
}

func newStreamClock(c net.Conn, observe, overdue time.Duration) *streamClock {
	now := time.Now()
	return &streamClock{
		conn: c, overdue: make(chan struct{}),
		warn: now.Add(overdue), limit: now.Add(observe), set: now,
		reason: fmt.Errorf("no end came within %v", observe),
	}
}

// Read is the connection's, with the deadlines of the clock.
func (c *streamClock) Read(p []byte) (int, error) {
	for {
		if err := c.arm(); err != nil {
			return 0, err
		}
		n, err := c.conn.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := c.passed(); err != nil {
			return 0, err
		}
	}
}

func (c *streamClock) arm() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.limit
	if !c.warn.IsZero() && c.warn.Before(at) {
		at = c.warn
	}
	return c.conn.SetReadDeadline(at)
}

// passed acts on a deadline that has passed.
func (c *streamClock) passed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !now.Before(c.limit) {
		return fmt.Errorf("%w: %w", c.reason, os.ErrDeadlineExceeded)
	}
	if !c.warn.IsZero() && !now.Before(c.warn) {
		c.warn = time.Time{}
		close(c.overdue)
	}
	return nil
}

// pause puts the times off by what has passed since start.
func (c *streamClock) pause(start time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.warn.IsZero() {
		c.warn = c.warn.Add(now.Sub(start))
	}
	if start.Before(c.set) {
		start = c.set
	}
	c.limit = c.limit.Add(now.Sub(start))
}

// left is how long reading may go on.
func (c *streamClock) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.limit)
}

// drain makes reading end after d, unless it ends sooner anyway.
func (c *streamClock) drain(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.warn, c.set = time.Time{}, now
	if at := now.Add(d); at.Before(c.limit) {
		c.limit = at
		c.reason = fmt.Errorf("the end of the stream did not come within %v of the program's end", d)
	}
	c.conn.SetReadDeadline(c.limit)
}
