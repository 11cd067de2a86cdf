//go:build linux

package guest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// upstream serves one connection on a port of its own and returns the port.
func upstream(t *testing.T, serve func(*net.TCPConn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		serve(conn.(*net.TCPConn))
	}()
	t.Cleanup(func() { l.Close(); await(t, served, "the end of the server") })
	return l.Addr().(*net.TCPAddr).Port
}

// tunnel opens a tcp-connect, which must work.
func (g *testGuest) tunnel(port int, beat int) *line {
	g.t.Helper()
	body := object{"port": port}
	if beat > 0 {
		body["heartbeatMs"] = beat
	}
	l := g.ask(wire.OpConnect, body)
	if first := parse(g.t, l.next()); first["type"] != wire.TypeReady || first["guestBootId"] == nil {
		g.t.Fatalf("%v, want ready", first)
	}
	return l
}

// TestTunnel carries much both ways at once, in frames of all sizes.
func TestTunnel(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	const total = 8 << 20
	l := g.tunnel(upstream(t, echoServer), 0)
	random := rand.NewChaCha8([32]byte{7})
	sent, got := sha256.New(), sha256.New()
	done := make(chan error, 1)
	go func() {
		piece := make([]byte, 3<<20)
		var frame []byte
		for left := total; left > 0; {
			n := min(left, 1+int(random.Uint64()%uint64(len(piece))))
			random.Read(piece[:n])
			sent.Write(piece[:n])
			frame = wire.AppendTunnelData(frame[:0], piece[:n])
			if _, err := l.conn.Write(frame); err != nil {
				done <- err
				return
			}
			left -= n
		}
		_, err := l.conn.Write(frameOfType(wire.TypeEnd))
		done <- err
	}()
	bytes := 0
	for {
		event, err := wire.ParseConnectEvent([]byte(l.next()))
		if err != nil {
			t.Fatal(err)
		}
		data, ok := event.([]byte)
		if !ok {
			if end, ok := event.(*wire.Bare); !ok || end.Type != wire.TypeEnd {
				t.Errorf("%+v, want the end", event)
			}
			break
		}
		bytes += len(data)
		got.Write(data)
	}
	l.end()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if bytes != total || string(sent.Sum(nil)) != string(got.Sum(nil)) {
		t.Errorf("%d bytes came back, not those that were sent", bytes)
	}
}

func frameOfType(kind string) []byte { return frame(object{"type": kind}) }

func tunnelData(b []byte) []byte { return wire.AppendTunnelData(nil, b) }

// TestTunnelSlowReader has a peer that does not read: what it would have to read
// stays where it comes from.
func TestTunnelSlowReader(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	const total = 20 << 20
	all := make(chan struct{})
	l := g.tunnel(upstream(t, func(c *net.TCPConn) {
		c.Write(make([]byte, total))
		close(all)
	}), 0)
	pause(500)
	select {
	case <-all:
		t.Errorf("%d bytes were taken for a peer that reads nothing", total)
	default:
	}
	n := 0
	for _, payload := range l.rest() {
		if data, ok := parse(t, payload)["data"].(string); ok {
			n += base64.StdEncoding.DecodedLen(len(data))
		}
	}
	if n < total {
		t.Errorf("%d bytes, want %d", n, total)
	}
}

// TestTunnelEnds covers who ends what.
func TestTunnelEnds(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	t.Run("the peer leaves", func(t *testing.T) {
		gone := make(chan struct{})
		l := g.tunnel(upstream(t, func(c *net.TCPConn) {
			io.Copy(io.Discard, c)
			close(gone)
		}), 0)
		l.conn.Close()
		await(t, gone, "the end at the port")
	})
	t.Run("the peer leaves while the port takes nothing, with data before", func(t *testing.T) {
		heard := make(chan int64, 1)
		l := g.tunnel(upstream(t, func(c *net.TCPConn) {
			n, _ := io.Copy(io.Discard, c)
			heard <- n
		}), 0)
		l.write(tunnelData(bytes.Repeat([]byte("x"), 5<<20)))
		l.conn.Close()
		if n := <-heard; n != 5<<20 {
			t.Errorf("%d bytes arrived", n)
		}
	})
	t.Run("the port does not want to hear more", func(t *testing.T) {
		l := g.tunnel(upstream(t, func(c *net.TCPConn) { c.Read(make([]byte, 1)) }), 0)
		go l.conn.Write(bytes.Repeat(tunnelData(make([]byte, 1<<20)), 16))
		last := parse(t, l.next())
		if text, _ := last["error"].(string); last["type"] != wire.TypeError || (text != "read ECONNRESET" && text != "write EPIPE" && text != "write ECONNRESET") {
			t.Errorf("%v", last)
		}
	})
	t.Run("a frame that is too large", func(t *testing.T) {
		l := g.tunnel(upstream(t, echoServer), 0)
		l.write([]byte("01000001\n"))
		if got := parse(t, l.next()); got["error"] != "frame_too_large: announced 16777217 bytes, limit 16777216 (NAMZU_AGENT_MAX_FRAME_BYTES)" {
			t.Errorf("%v", got)
		}
	})
	t.Run("the port is one of ::1", func(t *testing.T) {
		g := newGuest(t, guest.Config{DialContext: ports.dial})
		l := g.ask(wire.OpConnect, object{"host": "::1", "port": 18087})
		l.next()
		l.write(tunnelData([]byte("six")))
		if got := l.next(); got != `{"type":"data","data":"c2l4"}` {
			t.Errorf("%s", got)
		}
	})
	t.Run("the guest is closed", func(t *testing.T) {
		g := newGuest(t, guest.Config{})
		port := upstream(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) })
		l := g.tunnel(port, 100)
		begin := time.Now()
		if err := g.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("Close took %v", took)
		}
		l.rest()
	})
}

// TestHeartbeat has peers that are alive in all the ways that count.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	port := func() int { return upstream(t, echoServer) }
	t.Run("a silent peer", func(t *testing.T) {
		begin := time.Now()
		l := g.tunnel(port(), 100)
		all := l.rest()
		for _, payload := range all {
			if payload != `{"type":"heartbeat"}` {
				t.Errorf("%s", payload)
			}
		}
		if took := time.Since(begin); took < 300*time.Millisecond || len(all) == 0 {
			t.Errorf("%d heartbeats in %v, want some and the end after 300 ms", len(all), took)
		}
		await(t, l.closed, "the end")
	})
	t.Run("a peer that sends a byte of a frame now and then", func(t *testing.T) {
		l := g.tunnel(port(), 1000)
		for _, b := range tunnelData([]byte("x")) {
			pause(100)
			l.write([]byte{b})
		}
		for {
			if o := parse(t, l.next()); o["type"] == wire.TypeData {
				break
			}
		}
	})
	t.Run("a quiet program, and a peer that answers", func(t *testing.T) {
		l := g.open(object{"command": "cat", "heartbeatMs": 250})
		for range 5 { // longer than silence is borne
			if payload := l.next(); payload != `{"type":"heartbeat"}` {
				t.Fatalf("%s", payload)
			}
			l.write(frame(object{"type": "heartbeat"}))
		}
		l.write(typed("still there\n")).until("still there")
	})
	t.Run("a peer that asks for none", func(t *testing.T) {
		l := g.tunnel(port(), 0)
		pause(500)
		l.write(tunnelData([]byte("x")))
		if o := parse(t, l.next()); o["type"] != wire.TypeData {
			t.Errorf("%v", o)
		}
	})
}

// TestHeartbeatIsSuspended while nothing is read because the port takes nothing.
func TestHeartbeatIsSuspended(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	taking := make(chan struct{})
	heard := make(chan int64, 1)
	const piece = 4 << 20
	all := bytes.Repeat(tunnelData(make([]byte, piece)), 6)
	l := g.tunnel(upstream(t, func(c *net.TCPConn) {
		<-taking
		n, _ := io.Copy(io.Discard, c)
		heard <- n
	}), 200)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		l.conn.Write(all)
	}()
	for range 8 { // which is longer than silence is suffered
		if got := l.next(); got != `{"type":"heartbeat"}` {
			t.Fatalf("%s", got)
		}
	}
	close(taking)
	<-sent
	l.rest() // it is silent from now on
	if n := <-heard; n != 6*piece {
		t.Errorf("%d bytes arrived, want %d", n, 6*piece)
	}
}
