package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	codeTarget refusal = wire.CodeInvalidTarget

	connectTime = 30 * time.Second // to a port of this machine
	tunnelRead  = 64 << 10
)

// target is the address that a tcp-connect asks for: a port of the loopback
// interface and nothing else.
func (c *call) target() (string, error) {
	host := "127.0.0.1"
	if v, ok := c.field("host"); ok {
		host, _ = v.(string)
	}
	port := c.number("port", 0)
	if (host != "127.0.0.1" && host != "::1") || !safeInteger(port) || port < 1 || port > 65535 {
		return "", codeTarget
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

// connect answers tcp-connect: it connects to a port and carries bytes both
// ways.
func (s *Server) connect(c *call) {
	target, err := c.target()
	if err != nil {
		c.fail(err)
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, connectTime)
	defer cancel()
	up, err := s.config.DialContext(ctx, "tcp", target)
	if err != nil {
		c.fail(connectError(err, target))
		return
	}
	t := &tunnel{up: up}
	defer up.Close()
	defer whenDone(c.ctx, func() { up.Close() })()
	beat := c.heartbeat()
	if c.send(&wire.Ready{Type: wire.TypeReady, BootID: s.bootID, HeartbeatMs: beat}) != nil {
		c.conn.destroy()
		return
	}
	stop := c.conn.beat(beat)
	defer stop()
	c.listen(t.take)
	err = t.send(c.conn)
	stop()
	up.Close()
	switch {
	case c.ctx.Err() != nil: // the peer has gone
	case t.isDestroyed():
		c.conn.finish()
	case err != nil:
		c.fail(refusal(err.Error()))
	default:
		c.send(&wire.Bare{Type: wire.TypeEnd})
		c.conn.finish()
	}
}

// connectError words a failed connect as the reference guest does.
func connectError(err error, target string) error {
	code, _ := osCode(err)
	switch {
	case code != "":
	case errors.Is(err, context.DeadlineExceeded):
		code = "ETIMEDOUT"
	default:
		return refusal("connect " + err.Error())
	}
	host, port, _ := net.SplitHostPort(target)
	return refusal("connect " + code + " " + host + ":" + port)
}

// A tunnel carries bytes between a connection and a port of this machine.
type tunnel struct {
	up net.Conn

	mu        sync.Mutex // guards the fields below
	destroyed bool       // the peer wants no more
	failed    error      // to write to up
}

// take takes a frame from the peer. It returns when up has taken what is in it.
func (t *tunnel) take(payload []byte) {
	frame, ok := wire.ParseHostFrame(payload)
	if !ok {
		return
	}
	switch frame.Type {
	case wire.TypeData:
		data := decodeBase64(frame.Data)
		if len(data) == 0 || len(data) > wire.MaxTunnelData || t.failure() != nil {
			return
		}
		if _, err := t.up.Write(data); err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.failed = err
		}
	case wire.TypeEnd:
		if half, ok := t.up.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
	case wire.TypeDestroy:
		t.mu.Lock()
		t.destroyed = true
		t.mu.Unlock()
		t.up.Close()
	}
}

func (t *tunnel) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *tunnel) isDestroyed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.destroyed
}

// send sends to the peer what comes from up, until its end. A peer that does not
// read holds up up and nobody else.
func (t *tunnel) send(to *conn) error {
	buf := make([]byte, tunnelRead)
	var frame []byte
	for {
		n, err := t.up.Read(buf)
		if n > 0 {
			frame = wire.AppendTunnelData(frame[:0], buf[:n])
			if err := to.write(frame); err != nil {
				to.destroy()
				return err
			}
		}
		switch {
		case err == nil:
		case t.failure() != nil: // the end may only be that of the other direction
			return socketError("write", t.failure())
		case errors.Is(err, io.EOF):
			return nil
		default:
			return socketError("read", err)
		}
	}
}

func socketError(call string, err error) error {
	if code, _ := osCode(err); code != "" {
		return refusal(call + " " + code)
	}
	return refusal(call + " " + err.Error())
}
