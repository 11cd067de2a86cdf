package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const (
	ready     = `{"type":"ready","guestBootId":"boot-1"}`
	heartbeat = `{"type":"heartbeat"}`
)

// connecting takes a connection to the port.
func connecting(port int) Step {
	return Seq(AcceptAs("port"), Expect("tcp-connect", Token(token), Body(fmt.Sprintf(`{"host":"127.0.0.1","port":%d}`, port))))
}

func connected() Step { return Seq(connecting(80), Send(ready)) }

func tunnel(text string) string { return `{"type":"data","data":"` + b64(text) + `"}` }

func dialGuest(t *testing.T, p *pod) *transport.GuestConn {
	t.Helper()
	c, err := p.DialGuest(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*transport.GuestConn)
}

func TestDialGuest(t *testing.T) {
	script := []Step{connected(), ExpectFrame(tunnel("ping")), Send(tunnel("po")), Send(tunnel("")), Send(tunnel("ng")), ExpectFrame(`{"type":"end"}`), Send(tunnel("bye")), Send(`{"type":"end"}`), CloseWrite(), ExpectClose()}
	bubble(t, transport.Config{}, script, func(t *testing.T, p *pod) {
		c := dialGuest(t, p)
		if got := c.RemoteAddr().String(); got != "127.0.0.1:80" {
			t.Errorf("RemoteAddr = %v", got)
		}
		if n, err := c.Write([]byte("ping")); n != 4 || err != nil {
			t.Fatal(n, err)
		}
		buf := make([]byte, 3)
		if n, err := io.ReadFull(c, buf); string(buf[:n]) != "pon" || err != nil {
			t.Errorf("got %q, %v", buf[:n], err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		if n, err := c.Write([]byte("x")); n != 0 || err == nil {
			t.Errorf("writing after CloseWrite: %d, %v", n, err)
		}
		if rest, err := io.ReadAll(c); string(rest) != "gbye" || err != nil {
			t.Errorf("got %q, %v", rest, err)
		}
		if n, err := c.Read(buf); n != 0 || err != io.EOF {
			t.Errorf("reading after the end: %d, %v", n, err)
		}
		if p.BootID() != "boot-1" {
			t.Errorf("BootID = %q", p.BootID())
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		p.took(t, 0)
	})
}

func TestDialGuestFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps Step
		check func(t *testing.T, err error)
	}{
		{"nobody listens", answer(`{"type":"error","error":"connect ECONNREFUSED 127.0.0.1:80"}`), func(t *testing.T, err error) {
			if e := errorAs[*transport.PortError](t, err); e.Port != 80 || !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || !transport.SafeToRetry(err) {
				t.Errorf("got %v", err)
			}
		}},
		{"the wrong token", answer(`{"ok":false,"error":"unauthorized"}`), func(t *testing.T, err error) { errorAs[*transport.UnauthorizedError](t, err) }},
		{"a guest that has fenced itself", answer(`{"ok":false,"error":"agent_retiring"}`), func(t *testing.T, err error) { errorAs[*transport.RetiringError](t, err) }},
		{"an older guest", answer(`{"ok":false,"error":"unknown_op: tcp-connect"}`), func(t *testing.T, err error) {
			if e := errorAs[*transport.RefusedError](t, err); e.Code != "unknown_op" {
				t.Errorf("got %v", err)
			}
		}},
		{"a close", Close(), func(t *testing.T, err error) { errorAs[*transport.LostError](t, err) }},
		{"silence", Hang(), func(t *testing.T, err error) { errorAs[*transport.LostError](t, err) }},
		{"data first", Seq(Send(tunnel("x")), ExpectClose()), func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
		{"no protocol", Seq(SendBytes([]byte("HTTP/1.1 200 OK\r\n")), ExpectClose()), func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{connecting(80), tt.steps}, func(t *testing.T, p *pod) {
				c, err := p.DialGuest(t.Context(), 80)
				if c != nil {
					t.Errorf("a connection with %v", err)
				}
				tt.check(t, err)
			})
		})
	}
	bubble(t, transport.Config{}, []Step{connecting(80), Hang()}, func(t *testing.T, p *pod) {
		if _, err := p.DialGuest(endAfter(t, time.Second), 80); err != errCause {
			t.Errorf("got %v, want the cause", err)
		}
		p.took(t, time.Second)
		for _, port := range []int{-1, 0, 65536} {
			_, err := p.DialGuest(t.Context(), port)
			errorAs[*transport.PortError](t, err)
		}
	})
}

// TestGuestConnEnds has connections end in each way: only the guest's word is
// an io.EOF, and data that came before is read before.
func TestGuestConnEnds(t *testing.T) {
	stream := frames(tunnel("one"), tunnel("two"), `{"type":"end"}`)
	for n := range len(stream) + 1 {
		for name, cut := range map[string]Step{"closed": Close(), "half-closed": CloseWrite(), "reset": Seq(Delay(time.Millisecond), Reset())} {
			bubble(t, transport.Config{}, []Step{connected(), SendBytes(stream[:n]), cut}, func(t *testing.T, p *pod) {
				c := dialGuest(t, p)
				got, err := io.ReadAll(c)
				want := ""
				switch {
				case n >= len(frames(tunnel("one"), tunnel("two"))):
					want = "onetwo"
				case n >= len(frames(tunnel("one"))):
					want = "one"
				}
				if whole := n == len(stream); string(got) != want || whole != (err == nil) {
					t.Errorf("%s after %d bytes: %q, %v", name, n, got, err)
				} else if !whole {
					errorAs[*transport.LostError](t, err)
				}
				if _, err := c.Write([]byte("x")); err == nil {
					t.Errorf("%s after %d bytes: writing succeeds", name, n)
				}
				c.Close()
			})
		}
	}
	for _, tt := range []struct {
		name  string
		steps Step
		check func(t *testing.T, err error)
	}{
		{"the port resets", answer(`{"type":"error","error":"read ECONNRESET"}`), func(t *testing.T, err error) {
			if !errors.Is(err, syscall.ECONNRESET) || transport.SafeToRetry(errorAs[*transport.PortError](t, err)) {
				t.Errorf("got %v", err)
			}
		}},
		{"data that is no base64", Seq(Send(`{"type":"data","data":"!"}`), ExpectClose()), func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
		{"a frame beyond the limit", Seq(SendBytes([]byte("00800001\n")), ExpectClose()), func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
		{"ready twice", Seq(Send(ready), ExpectClose()), func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
		{"the terminator", Seq(Terminator(), ExpectClose()), func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
		{"a refusal", answer(`{"ok":false,"error":"frame_too_large: announced 9"}`), func(t *testing.T, err error) { errorAs[*transport.RefusedError](t, err) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{connected(), Send(tunnel("x")), tt.steps}, func(t *testing.T, p *pod) {
				c := dialGuest(t, p)
				defer c.Close()
				got, err := io.ReadAll(c)
				if _, ok := errors.AsType[*net.OpError](err); !ok || string(got) != "x" {
					t.Errorf("got %q, %T %v", got, err, err)
				}
				tt.check(t, err)
			})
		})
	}
	t.Run("the agent is closed while something is unread", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{connected(), Send(tunnel("unread")), ExpectClose()}, func(t *testing.T, p *pod) {
			c := dialGuest(t, p)
			p.Close()
			if _, err := c.Write([]byte("x")); !errors.Is(err, transport.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("the agent is closed", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{connected(), ExpectClose()}, func(t *testing.T, p *pod) {
			c := dialGuest(t, p)
			time.AfterFunc(time.Second, func() { p.Close() })
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, transport.ErrClosed) {
				t.Errorf("got %v", err)
			}
			p.Close()
		})
	})
}

func TestGuestConnDeadlines(t *testing.T) {
	bubble(t, transport.Config{}, []Step{connected(), Patience(time.Hour), Do("do not read", func() error { return nil }), Delay(10 * time.Second), Send(tunnel("late")), Hang()}, func(t *testing.T, p *pod) {
		c := dialGuest(t, p)
		buf := make([]byte, 10)
		c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
		if e := errorAs[net.Error](t, func() error { _, err := c.Read(buf); return err }()); !e.Timeout() {
			t.Errorf("Read again: %v", e)
		}
		p.took(t, time.Second)
		time.AfterFunc(time.Second, func() { c.SetDeadline(time.Unix(1, 0)) })
		c.SetReadDeadline(time.Time{})
		if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Read under way: %v", err)
		}
		p.took(t, 2*time.Second)
		if _, err := c.Write(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: %v", err)
		}
		c.SetDeadline(time.Time{})
		if n, err := c.Read(buf); string(buf[:n]) != "late" || err != nil {
			t.Errorf("Read afterwards: %q, %v", buf[:n], err)
		}
		p.took(t, 10*time.Second)
		if n, err := c.Write(buf); n != 10 || err != nil {
			t.Errorf("Write afterwards: %d, %v", n, err)
		}
		c.Close()
	})
	t.Run("a peer that does not read", func(t *testing.T) {
		script := []Step{connected(), Delay(8 * time.Second), ExpectFrame(tunnel(strings.Repeat("x", 48<<10)))}
		bubble(t, transport.Config{}, script, func(t *testing.T, p *pod) {
			c := dialGuest(t, p)
			c.SetWriteDeadline(time.Now().Add(5 * time.Second))
			n, err := c.Write(bytes.Repeat([]byte("x"), 64<<20))
			if n == 0 || n >= 64<<20 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("wrote %d, %v", n, err)
			}
			p.took(t, 5*time.Second)
			c.SetWriteDeadline(time.Time{})
			if _, err := c.Write([]byte("x")); err == nil {
				t.Error("writing goes on after half a frame")
			}
			time.Sleep(4 * time.Second)
			c.Close()
		})
	})
}

// TestGuestConnBackPressure sees that a consumer that does not read holds the
// peer up, and costs no memory.
func TestGuestConnBackPressure(t *testing.T) {
	piece := tunnel(strings.Repeat("x", 60_000))
	flood := frames(piece, piece)
	bubble(t, transport.Config{}, []Step{connected(), Patience(time.Minute), Flood(flood, 64<<20)}, func(t *testing.T, p *pod) {
		c := dialGuest(t, p)
		time.Sleep(30 * time.Second)
		if n, err := c.Read(make([]byte, 1<<20)); n != 60_000 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		c.Close()
	})
}

func TestGuestConnHeartbeat(t *testing.T) {
	asks := func(ms int) Step {
		return Seq(Accept(), Expect("tcp-connect", Body(fmt.Sprintf(`{"host":"127.0.0.1","port":80,"heartbeatMs":%d}`, ms))))
	}
	echo := func(ms string) Step { return Send(`{"type":"ready","heartbeatMs":` + ms + `}`) }
	beats := func(n int) Step {
		var all []Step
		for range n {
			all = append(all, ExpectFrame(heartbeat))
		}
		return Seq(all...)
	}
	for _, tt := range []struct {
		name  string
		beat  time.Duration
		steps []Step
		took  time.Duration // until the peer is given up
	}{
		{"a silent peer", 15 * time.Second, []Step{asks(15000), echo("15000"), beats(2), Hang()}, 45 * time.Second},
		{"a peer that beats", 15 * time.Second, []Step{asks(15000), echo("15000"), Delay(44 * time.Second), Send(heartbeat), Hang()}, 89 * time.Second},
		{"every byte is a sign of life", time.Second, []Step{asks(1000), echo("1000"), Trickle([]byte("00000010"), 2*time.Second), Hang()}, 19 * time.Second},
		{"a peer that wants a day", time.Second, []Step{asks(1000), echo("86400000"), Hang()}, 12 * time.Second},
		{"a peer that wants next to nothing", time.Second, []Step{asks(1000), echo("0.0001"), Hang()}, 300 * time.Millisecond},
		{"part of a millisecond", time.Nanosecond, []Step{asks(1), echo("100"), Hang()}, 300 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{Heartbeat: tt.beat}, tt.steps, func(t *testing.T, p *pod) {
				c := dialGuest(t, p)
				_, err := c.Read(make([]byte, 1))
				if errorAs[*transport.LostError](t, err); !strings.Contains(err.Error(), "3 heartbeats") {
					t.Errorf("got %v", err)
				}
				p.took(t, tt.took)
				c.Close()
			})
		})
	}
	t.Run("a peer that does not take it up", func(t *testing.T) {
		bubble(t, transport.Config{Heartbeat: time.Second}, []Step{asks(1000), Send(ready), Delay(time.Hour), Send(tunnel("x")), ExpectClose()}, func(t *testing.T, p *pod) {
			c := dialGuest(t, p)
			if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Errorf("got %d, %v", n, err)
			}
			c.Close()
		})
	})
	t.Run("nothing is overdue while nobody reads, nor is a beat held up by a deadline of the user's", func(t *testing.T) {
		script := []Step{asks(1000), echo("1000"), Send(tunnel("a")), Send(tunnel("b")), beats(60), Send(tunnel("c")), Hang()}
		bubble(t, transport.Config{Heartbeat: time.Second}, script, func(t *testing.T, p *pod) {
			c := dialGuest(t, p)
			c.SetWriteDeadline(time.Unix(1, 0))
			time.Sleep(time.Minute + time.Millisecond)
			buf := make([]byte, 3)
			if n, err := io.ReadFull(c, buf); string(buf[:n]) != "abc" || err != nil {
				t.Errorf("got %q, %v", buf[:n], err)
			}
			c.Close()
		})
	})
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		if _, err := transport.New(transport.Config{Host: "h", Port: 1, Heartbeat: -1}); err == nil {
			t.Error("a negative heartbeat is accepted")
		}
	})
}
