package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const tunnelStep = 48 << 10 // bytes in one frame; a multiple of 3

// A GuestConn is a connection to a port in the guest, which the guest makes to
// its own loopback interface.
//
// What the other end closes is closed in both directions: after the io.EOF of a
// Read nothing that is written arrives any more, so finish writing first or use
// a protocol that says when it is done. The other way round CloseWrite is as
// usual: it ends what the other end reads, which can still answer. Close waits
// for nothing; to be sure that what was written has arrived, CloseWrite and
// read up to io.EOF.
//
// A connection that was lost is a *LostError, never an io.EOF. When a write
// deadline cuts off what was half written, the connection is lost.
type GuestConn struct {
	stream *duplex
	in     *inlet
	port   int

	readDeadline, writeDeadline deadline

	mu       sync.Mutex // guards what follows
	writeErr error      // why nothing can be written; nil while it can
}

var _ net.Conn = (*GuestConn)(nil)

// DialGuest connects to a port that something in the guest listens on at
// 127.0.0.1. ctx bounds that and not the connection, which is a *GuestConn. The
// error is a *PortError if the guest could not connect.
func (a *Agent) DialGuest(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, &PortError{Port: port, Text: "there is no such port"}
	}
	var g *GuestConn
	err := a.openLive(ctx, func(dial, life context.Context, end func(), b *binding) error {
		s, err := a.openDuplex(dial, b, wire.OpConnect, wire.ConnectBody{Host: "127.0.0.1", Port: port, HeartbeatMs: roundMs(a.config.Heartbeat)})
		if err != nil {
			return err
		}
		ready, err := awaitPort(s, port)
		if err != nil {
			s.conn.close()
			return err
		}
		b.booted(ready.BootID)
		g = &GuestConn{stream: s, port: port, in: newInlet(nil)}
		s.live(life, end, ready.HeartbeatMs, g.read)
		return nil
	})
	if err != nil {
		return nil, about(fmt.Sprintf("to port %d", port), refusedError(wire.OpConnect, err))
	}
	return g, nil
}

// openLive has open make a stream live, on the guest that Refresh names if need
// be. dial bounds that, and ends with Agent.Close too; life and end are for the
// stream.
func (a *Agent) openLive(ctx context.Context, open func(dial, life context.Context, end func(), b *binding) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	life, end, err := a.begin(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	dial, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
	err = a.rebinding(dial, func(b *binding) error {
		return a.uncrowd(dial, func() error { return open(dial, life, end, b) })
	})
	if err != nil {
		err = callerFirst(dial, err)
		end()
		return err
	}
	return nil
}

// awaitPort waits until the guest has connected.
func awaitPort(s *duplex, port int) (*wire.Ready, error) {
	event, err := s.event(wire.ParseConnectEvent)
	if err != nil {
		return nil, err
	}
	switch event := event.(type) {
	case *wire.Ready:
		return event, nil
	case *wire.StreamError:
		return nil, &PortError{Port: port, Text: event.Text}
	}
	return nil, s.broken("the connection was not the first thing to be told")
}

// read hands over what comes.
func (g *GuestConn) read() error {
	defer close(g.in.pieces)
	for {
		event, err := g.stream.event(wire.ParseConnectEvent)
		if err != nil {
			return g.stream.interrupted(err)
		}
		switch event := event.(type) {
		case []byte:
			if !g.in.give(event, g.stream.gone) {
				return g.stream.reason()
			}
		case *wire.Bare:
			if event.Type == wire.TypeEnd {
				return io.EOF
			}
		case *wire.StreamError:
			return &PortError{Port: g.port, Text: event.Text}
		default:
			return g.stream.broken("it was connected twice")
		}
	}
}

// Read implements net.Conn.
func (g *GuestConn) Read(p []byte) (int, error) {
	n, more, err := g.in.read(p, g.readDeadline.passed())
	if !more {
		<-g.stream.gone
		err = g.stream.reason()
	}
	if err != nil {
		return n, g.fail("read", err)
	}
	return n, nil
}

// Write implements net.Conn. It waits while the other end does not read.
func (g *GuestConn) Write(p []byte) (n int, err error) {
	frame := make([]byte, 0, min(len(p), tunnelStep)*4/3+64)
	for len(p) > 0 {
		if err := g.writable(); err != nil {
			return n, g.fail("write", err)
		}
		step := min(len(p), tunnelStep)
		frame = wire.AppendTunnelData(frame[:0], p[:step])
		if err := g.stream.send(frame, g.writeDeadline.passed()); err != nil {
			return n, g.fail("write", err)
		}
		n, p = n+step, p[step:]
	}
	return n, nil
}

func (g *GuestConn) writable() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writeErr
}

// CloseWrite ends what the other end reads.
func (g *GuestConn) CloseWrite() error {
	g.mu.Lock()
	first := g.writeErr == nil
	if first {
		g.writeErr = errWriteClosed
	}
	g.mu.Unlock()
	if !first {
		return nil
	}
	frame := wire.AppendFrame(nil, wire.HostFrame{Type: wire.TypeEnd}.Append(nil))
	if err := g.stream.send(frame, g.writeDeadline.passed()); err != nil && err != io.EOF {
		return g.fail("close", err)
	}
	return nil
}

var errWriteClosed = errors.New("writing was closed before")

// Close ends the connection in both directions. What was not read is lost. A
// second call does nothing.
func (g *GuestConn) Close() error {
	g.stream.sever()
	return nil
}

// fail is err in the form of package net, except for the plain end. What is
// written after the end is lost, whoever has ended it.
func (g *GuestConn) fail(op string, err error) error {
	if err == io.EOF && op == "read" {
		return err
	}
	if err == io.EOF {
		err = syscall.EPIPE
	}
	return &net.OpError{Op: op, Net: "tcp", Source: g.LocalAddr(), Addr: g.RemoteAddr(), Err: err}
}

// LocalAddr is this side's address of the connection to the guest's agent.
func (g *GuestConn) LocalAddr() net.Addr { return g.stream.conn.LocalAddr() }

// RemoteAddr is the port's address inside the guest.
func (g *GuestConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: g.port}
}

// SetDeadline implements net.Conn.
func (g *GuestConn) SetDeadline(t time.Time) error {
	g.SetReadDeadline(t)
	return g.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (g *GuestConn) SetReadDeadline(t time.Time) error {
	g.readDeadline.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (g *GuestConn) SetWriteDeadline(t time.Time) error {
	g.writeDeadline.set(t)
	g.stream.setWriteDeadline(t)
	return nil
}

// A PortError reports that the guest could not connect to one of its ports, or
// that the connection failed there. It matches syscall.ECONNREFUSED and
// syscall.ECONNRESET when the guest said so.
type PortError struct {
	Port int
	Text string // the guest's words
}

func (e *PortError) Error() string {
	return fmt.Sprintf("transport: port %d of the guest: %s", e.Port, e.Text)
}

// Is reports whether target is the system's error of the same meaning.
func (e *PortError) Is(target error) bool {
	switch target {
	case syscall.ECONNREFUSED:
		return strings.Contains(e.Text, "ECONNREFUSED")
	case syscall.ECONNRESET:
		return strings.Contains(e.Text, "ECONNRESET")
	}
	return false
}

func (e *PortError) hadNoEffect() bool { return strings.HasPrefix(e.Text, "connect ") }
