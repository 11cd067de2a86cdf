package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A conn is one connection, which carries one request. It belongs to one
// goroutine.
type conn struct {
	net.Conn
	config *Config
	frames *wire.FrameReader
	source io.Reader // what frames reads

	greetings chan struct{} // holds an element for this conn; nil once the request is sent
	unwatch   func() bool   // nil once released
	fired     chan struct{} // closed after the context has closed the connection
}

// open waits for its turn and connects.
func (a *Agent) open(ctx context.Context, b *binding, op string, limit int) (*conn, error) {
	if err := b.queue(ctx, op); err != nil {
		return nil, err
	}
	return a.connect(ctx, b, op, limit)
}

// request connects and sends the request for a stream.
func (a *Agent) request(ctx context.Context, b *binding, op string, frame []byte) (*conn, error) {
	c, err := a.open(ctx, b, op, streamFrame)
	if err != nil {
		return nil, err
	}
	if err := c.send(b, op, frame); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// queue waits for the turn to connect, which connect gives back.
func (b *binding) queue(ctx context.Context, op string) error {
	select {
	case b.greetings <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &DialError{Op: op, Addr: b.addr(), Err: context.Cause(ctx)}
	}
}

// connect connects. Until release, the end of ctx closes the connection.
func (a *Agent) connect(ctx context.Context, b *binding, op string, limit int) (*conn, error) {
	c := &conn{config: &a.config, greetings: b.greetings}
	var err error
	if c.Conn, err = a.dial(ctx, b, op); err != nil {
		c.greeted()
		return nil, err
	}
	c.source = idleReader{c}
	c.frames = wire.NewFrameReader(sourceReader{c}, limit)
	c.watch(ctx)
	return c, nil
}

// watch has the end of ctx close the connection, until release.
func (c *conn) watch(ctx context.Context) {
	fired := make(chan struct{})
	c.fired = fired
	c.unwatch = context.AfterFunc(ctx, func() {
		defer close(fired)
		c.Conn.Close()
	})
}

// greeted makes room for another connection, once the request is sent or the
// connection given up.
func (c *conn) greeted() {
	if c.greetings != nil {
		<-c.greetings
		c.greetings = nil
	}
}

// release makes the connection independent of the context it was opened with.
func (c *conn) release() {
	if c.unwatch == nil {
		return
	}
	if !c.unwatch() {
		<-c.fired
	}
	c.unwatch = nil
}

func (c *conn) close() {
	c.greeted()
	c.release()
	c.Conn.Close()
}

// sourceReader reads what is the conn's source at the time.
type sourceReader struct{ *conn }

func (r sourceReader) Read(p []byte) (int, error) { return r.source.Read(p) }

// idleReader reads with a deadline that every byte puts off.
type idleReader struct{ *conn }

func (r idleReader) Read(p []byte) (int, error) {
	idle := r.config.IdleTimeout
	if err := r.SetReadDeadline(time.Now().Add(idle)); err != nil {
		return 0, err
	}
	n, err := r.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no byte came for %v: %w", idle, err)
	}
	return n, err
}

const writeStep = 256 << 10

// send writes the request. When that fails, the peer may have answered before
// it had read everything; then the error is that answer, if it is a refusal.
func (c *conn) send(b *binding, op string, frame []byte) error {
	err := c.write(frame)
	c.greeted()
	if err == nil {
		return nil
	}
	lost := &LostError{Op: op, Err: fmt.Errorf("sending the request: %w", err)}
	if c.SetReadDeadline(time.Now().Add(c.config.CloseTimeout)) != nil {
		return lost
	}
	payload, readErr := wire.NewFrameReader(c.Conn, smallReply).Next()
	if readErr != nil {
		return lost
	}
	if _, err := wire.ParseExecuteEvent(payload); err != nil {
		if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
			return b.refused(op, refusal)
		}
	}
	return lost
}

// write fails only if the peer has not got all of the frame.
func (c *conn) write(frame []byte) error {
	for len(frame) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.config.IdleTimeout)); err != nil {
			return err
		}
		n, err := c.Conn.Write(frame[:min(len(frame), writeStep)])
		frame = frame[n:]
		if err != nil && len(frame) > 0 {
			return err
		}
	}
	return nil
}

// awaitClose waits for the peer to close after its complete answer, as the
// protocol demands of it. A reset is a close: nothing was due any more.
func (c *conn) awaitClose(op string) error {
	if n := c.frames.Buffered(); n > 0 {
		return &ProtocolError{Op: op, Err: fmt.Errorf("%d bytes or more came after the answer", n)}
	}
	if err := c.SetReadDeadline(time.Now().Add(c.config.CloseTimeout)); err != nil {
		return &LostError{Op: op, Sent: true, Err: err}
	}
	var b [1]byte
	switch n, err := c.Conn.Read(b[:]); {
	case n > 0:
		return &ProtocolError{Op: op, Err: errors.New("bytes came after the answer")}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &ProtocolError{Op: op, Err: fmt.Errorf("the connection was not closed within %v after the answer", c.config.CloseTimeout)}
	case errors.Is(err, net.ErrClosed):
		return &LostError{Op: op, Sent: true, Err: err}
	}
	return nil
}

// readFailure is the error of an answer that could not be read.
func readFailure(op string, err error) error {
	if _, ok := errors.AsType[*wire.TooLargeError](err); ok || errors.Is(err, wire.ErrHeader) {
		return &ProtocolError{Op: op, Err: err}
	}
	if err == io.EOF {
		err = fmt.Errorf("the connection was closed before the answer: %w", io.ErrUnexpectedEOF)
	}
	return &LostError{Op: op, Sent: true, Err: err}
}
