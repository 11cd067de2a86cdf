package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	// linger is how long a connection is kept open for reading after its answer,
	// for the peer to close it: closing first, with late bytes unread, would
	// reset the connection and can destroy the answer.
	linger = 10 * time.Second

	// writeStall is how long a peer may take nothing of an answer.
	writeStall = 10 * time.Minute

	// writePiece is what is written under one deadline.
	writePiece = 256 << 10

	// laterFrame is the largest frame after the first that is looked at. What
	// follows the request has no meaning to the operations that are here, and
	// is not worth more memory than that.
	laterFrame = 64 << 10

	// streamFrame is the largest frame on a stream that goes both ways: what
	// carries the most that one may, in base64.
	streamFrame = 16 << 20

	keepAlive = 15 * time.Second
)

// A conn is one connection: one request and its answer.
type conn struct {
	server *Server
	raw    net.Conn
	frames *wire.FrameReader
	born   time.Time

	ctx    context.Context // done when nobody reads the answer any more
	cancel context.CancelFunc

	admitted bool // authenticated; the reading goroutine's own
	held     int  // bytes received before that; guarded by preauth.mu

	heard atomic.Int64 // when a byte came last, since born
	deaf  atomic.Bool  // what came has nowhere to go at the moment, and nothing is read

	writing chan struct{} // holds a token while a frame is being written
	torn    bool          // a frame was begun and not ended; guarded by writing

	mu      sync.Mutex // guards the fields below
	verdict error      // why another goroutine wants this connection refused
	refused bool       // a refusal is the last that is written
	ended   bool       // the write side is closed
}

func newConn(s *Server, raw net.Conn) *conn {
	c := &conn{server: s, raw: raw, born: time.Now(), writing: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.frames = wire.NewFrameReader(c, s.config.MaxFirstFrameBytes)
	if t, ok := raw.(interface {
		SetKeepAliveConfig(net.KeepAliveConfig) error
	}); ok {
		t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 4})
	}
	return c
}

// Read reads for the frame reader, and enforces the limits of connections that
// have not authenticated.
func (c *conn) Read(p []byte) (int, error) {
	if c.admitted {
		n, err := c.raw.Read(p)
		if n > 0 {
			c.hearsNow()
		}
		return n, err
	}
	config := &c.server.config
	deadline := time.Now().Add(config.PreauthIdle)
	if end := c.born.Add(config.PreauthDeadline); end.Before(deadline) {
		deadline = end
	}
	// Who refuses the connection condemns it and then wakes it: whatever comes
	// between, one of the two is seen here.
	c.raw.SetReadDeadline(deadline)
	if err := c.condemned(); err != nil {
		return 0, err
	}
	n, err := c.raw.Read(p)
	if over := c.server.preauth.hold(c, n); over != nil {
		return 0, over
	}
	if verdict := c.condemned(); verdict != nil && err != nil {
		return 0, verdict
	}
	return n, err
}

// condemn makes the reading goroutine refuse the connection, which is then to be
// woken.
func (c *conn) condemn(verdict error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verdict = verdict
}

func (c *conn) wake() { c.raw.SetReadDeadline(time.Unix(1, 0)) }

func (c *conn) condemned() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdict
}

// serve handles the connection from its first byte to its close.
func (c *conn) serve() {
	defer c.destroy()
	payload, err := c.frames.Next()
	if err != nil {
		c.broken(err)
		return
	}
	envelope, err := c.server.parse(payload)
	if err != nil {
		return
	}
	call := newCall(c, envelope)
	if envelope.Op != wire.OpHealth {
		if !c.server.gate.admits(envelope.Token) {
			c.refuse(refusal(wire.CodeUnauthorized))
			return
		}
		if !c.server.preauth.leave(c) {
			if verdict := c.condemned(); verdict != nil {
				c.refuse(verdict)
			}
			return // or else the server has closed it
		}
		c.admitted = true
		c.raw.SetReadDeadline(time.Time{})
	}
	c.server.preauth.release(c)
	c.frames.SetLimit(laterFrame)
	if call.hears {
		c.frames.SetLimit(min(streamFrame, c.server.config.MaxFrameBytes))
	}
	done := c.server.begin(call.open)
	go func() {
		defer c.server.end(done)
		call.answer()
	}()
	c.follow(call)
	<-done
}

// follow reads what the peer sends after its request, if only to see it go. It
// returns when nothing more is to be read.
func (c *conn) follow(call *call) {
	limit, name := c.server.config.MaxFrameBytes, variableMaxFrame
	if !c.admitted {
		limit, name = c.server.config.MaxFirstFrameBytes, variableMaxFirstFrame
	}
	var err error
	for err == nil {
		var payload []byte
		payload, err = c.frames.Next()
		c.server.preauth.release(c)
		if err == nil && call.hears {
			call.hear(payload)
		}
	}
	large, ok := errors.AsType[*wire.TooLargeError](err)
	if ok && !call.hears && large.Announced <= int64(limit) {
		io.Copy(io.Discard, c.raw)
		ok = false
	}
	switch {
	case !call.stream:
		// The one reply is still sent: a peer that has closed its write side
		// may be waiting for it.
	case ok:
		if call.hears && large.Announced <= int64(limit) {
			limit = streamFrame
		}
		c.refuse(tooLarge(large.Announced, limit, name))
	default:
		c.destroy()
	}
}

// broken ends a connection whose first frame did not come.
func (c *conn) broken(err error) {
	if large, ok := errors.AsType[*wire.TooLargeError](err); ok {
		c.refuse(tooLarge(large.Announced, large.Limit, variableMaxFirstFrame))
		return
	}
	if verdict, ok := errors.AsType[refusal](err); ok {
		c.refuse(verdict)
	}
}

func tooLarge(announced int64, limit int, variable string) refusal {
	return refusal(fmt.Sprintf("%s: announced %d bytes, limit %d (%s)", wire.CodeFrameTooLarge, announced, limit, variable))
}

// refuse answers with one frame of the control shape and ends the connection.
// What the peer is still sending is read and thrown away for a while, so that
// the frame is not lost to a reset.
func (c *conn) refuse(why error) {
	defer c.destroy()
	c.server.preauth.leave(c)
	end := time.Now().Add(c.server.config.RefusalGrace)
	c.mu.Lock()
	last := c.ended || c.refused
	c.refused = true
	c.raw.SetWriteDeadline(end)
	c.mu.Unlock()
	payload, err := wire.Marshal(&wire.Refusal{Code: why.Error()})
	if last || err != nil {
		return
	}
	c.writing <- struct{}{} // the deadline has ended a write that was stuck
	if err = net.ErrClosed; !c.torn {
		_, err = c.raw.Write(wire.AppendFrame(nil, payload))
	}
	<-c.writing
	c.cancel()
	if err != nil || !c.end() {
		return
	}
	select {
	case c.server.lingering <- struct{}{}:
		c.raw.SetReadDeadline(end)
		io.Copy(io.Discard, c.raw)
		<-c.server.lingering
	default: // enough of them are being waited for
	}
}

// write sends bytes of the answer. The peer may be slow, but not for ever.
func (c *conn) write(b []byte) error {
	c.writing <- struct{}{}
	return c.writeHeld(b)
}

// writeUnlessBusy is write, unless something else is being written.
func (c *conn) writeUnlessBusy(b []byte) {
	select {
	case c.writing <- struct{}{}:
		c.writeHeld(b)
	default:
	}
}

// writeHeld is write for who has put the token into writing.
func (c *conn) writeHeld(b []byte) error {
	defer func() {
		c.torn = len(b) > 0
		<-c.writing
	}()
	for len(b) > 0 {
		n := min(len(b), writePiece)
		c.mu.Lock()
		over := c.ended || c.refused
		if !over {
			c.raw.SetWriteDeadline(time.Now().Add(writeStall))
		}
		c.mu.Unlock()
		if over {
			return net.ErrClosed
		}
		if _, err := c.raw.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// end closes the write side, once, and reports whether that worked.
func (c *conn) end() bool {
	c.mu.Lock()
	again := c.ended
	c.ended = true
	c.mu.Unlock()
	half, ok := c.raw.(interface{ CloseWrite() error })
	return !again && ok && half.CloseWrite() == nil
}

// finish ends an answer that is complete. The peer closes the connection, or
// else the reading goroutine does when the deadline has passed.
func (c *conn) finish() {
	if !c.end() {
		c.destroy()
	} else if c.admitted {
		c.raw.SetReadDeadline(time.Now().Add(linger))
	}
}

// destroy closes the connection at once. A FIN goes first, so that a peer that
// is reading sees an end and not a reset.
func (c *conn) destroy() {
	c.cancel()
	c.server.preauth.leave(c)
	c.end()
	c.raw.Close()
}
