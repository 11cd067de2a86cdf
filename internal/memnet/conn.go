package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const defaultBuffer = 256 << 10

// A Conn is one end of a connection.
type Conn struct {
	link          *link
	local, remote net.Addr
	in, out       *stream // out is the peer's in

	// Guarded by link.mu.
	closed                bool
	readLimit, writeLimit *deadline
}

var _ net.Conn = (*Conn)(nil)

// A link is what both ends share: one lock, and one condition that is broadcast
// whenever anything a reader or writer waits for may have changed.
type link struct {
	mu   sync.Mutex
	cond sync.Cond
}

// A stream is one direction.
type stream struct {
	buf   []byte
	limit int
	ended bool  // the writer closed its side: EOF after what is in buf
	dead  bool  // the reader is gone: nobody will read what is written
	reset error // the writer tore the connection down
}

// A deadline is replaced, never changed, so that a timer that fires late
// touches nothing but its own.
type deadline struct {
	timer   *time.Timer
	expired bool
}

func newPair(client, server net.Addr, buffer int) (c, s *Conn) {
	if buffer <= 0 {
		buffer = defaultBuffer
	}
	l := &link{}
	l.cond.L = &l.mu
	up, down := &stream{limit: buffer}, &stream{limit: buffer}
	c = &Conn{link: l, local: client, remote: server, in: down, out: up}
	s = &Conn{link: l, local: server, remote: client, in: up, out: down}
	return c, s
}

// Read reads what has arrived, and waits while that is nothing.
func (c *Conn) Read(p []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.fail("read", net.ErrClosed)
		case c.readLimit.over():
			return 0, c.fail("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case c.in.reset != nil:
			return 0, c.fail("read", c.in.reset)
		case len(c.in.buf) > 0:
			n := copy(p, c.in.buf)
			c.in.buf = c.in.buf[n:]
			if len(c.in.buf) == 0 {
				c.in.buf = nil
			}
			c.link.cond.Broadcast()
			return n, nil
		case c.in.ended:
			return 0, io.EOF
		}
		c.link.cond.Wait()
	}
}

// Write puts p on its way, and waits while the peer does not read and the
// buffer is full.
func (c *Conn) Write(p []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for n := 0; ; {
		switch room := c.out.limit - len(c.out.buf); {
		case c.closed:
			return n, c.fail("write", net.ErrClosed)
		case c.writeLimit.over():
			return n, c.fail("write", os.ErrDeadlineExceeded)
		case c.in.reset != nil:
			return n, c.fail("write", c.in.reset)
		case c.out.ended || c.out.dead:
			return n, c.fail("write", syscall.EPIPE)
		case n == len(p):
			return n, nil
		case room > 0:
			part := p[n:min(len(p), n+room)]
			c.out.buf = append(c.out.buf, part...)
			n += len(part)
			c.link.cond.Broadcast()
			continue
		}
		c.link.cond.Wait()
	}
}

// Close ends both directions. The peer reads what was written and then EOF; its
// writes fail with EPIPE. A second call returns net.ErrClosed.
func (c *Conn) Close() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.closeLocked()
	return nil
}

// Reset tears the connection down as an RST does: what was written and not yet
// read is lost, and the peer's calls fail with ECONNRESET. On a closed Conn it
// does nothing.
func (c *Conn) Reset() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.closed {
		return
	}
	c.out.buf = nil
	c.out.reset = syscall.ECONNRESET
	c.closeLocked()
}

// CloseWrite ends the direction that this end writes. The peer reads EOF after
// what was written and can still write.
func (c *Conn) CloseWrite() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.out.ended = true
	c.link.cond.Broadcast()
	return nil
}

func (c *Conn) closeLocked() {
	c.closed = true
	c.out.ended = true
	c.in.dead = true
	c.in.buf = nil
	c.readLimit.stop()
	c.writeLimit.stop()
	c.link.cond.Broadcast()
}

// LocalAddr is a *net.TCPAddr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is a *net.TCPAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.limit(t, true, true) }

// SetReadDeadline applies to the call in flight and to those to come; zero
// takes it back.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.limit(t, true, false) }

// SetWriteDeadline is as SetReadDeadline.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.limit(t, false, true) }

func (c *Conn) limit(t time.Time, read, write bool) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	if read {
		c.readLimit.stop()
		c.readLimit = c.link.deadlineLocked(t)
	}
	if write {
		c.writeLimit.stop()
		c.writeLimit = c.link.deadlineLocked(t)
	}
	c.link.cond.Broadcast()
	return nil
}

func (l *link) deadlineLocked(t time.Time) *deadline {
	if t.IsZero() {
		return nil
	}
	d := &deadline{}
	wait := time.Until(t)
	if wait <= 0 {
		d.expired = true
		return d
	}
	d.timer = time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		d.expired = true
		l.cond.Broadcast()
	})
	return d
}

func (d *deadline) over() bool { return d != nil && d.expired }

func (d *deadline) stop() {
	if d != nil && d.timer != nil {
		d.timer.Stop()
	}
}

func (c *Conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
