package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
)

func listen(t testing.TB, n *memnet.Network, address string) net.Listener {
	t.Helper()
	l, err := n.Listen("tcp", address)
	if err != nil {
		t.Fatalf("Listen(%q): %v", address, err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t testing.TB, n *memnet.Network, address string) *memnet.Conn {
	t.Helper()
	c, err := n.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("DialContext(%q): %v", address, err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*memnet.Conn)
}

// pair is a connection's two ends.
func pair(t testing.TB, n *memnet.Network) (client, server *memnet.Conn) {
	t.Helper()
	l := listen(t, n, "10.1.2.3:0")
	client = dial(t, n, l.Addr().String())
	s, err := l.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return client, s.(*memnet.Conn)
}

func TestDialFindsTheListener(t *testing.T) {
	for _, tt := range []struct {
		name, listen, dial string
		ok                 bool
	}{
		{"a literal address", "10.0.0.1:80", "10.0.0.1:80", true},
		{"another port", "10.0.0.1:80", "10.0.0.1:81", false},
		{"another address", "10.0.0.1:80", "10.0.0.2:80", false},
		{"IPv6", "[fd00::1]:80", "[fd00::1]:80", true},
		{"IPv4 in IPv6 is IPv4", "10.0.0.1:80", "[::ffff:10.0.0.1]:80", true},
		{"a name", "10.0.0.7:80", "guest.example:80", true},
		{"a name in another case, with the root's dot", "10.0.0.7:80", "GUEST.example.:80", true},
		{"a name whose second address listens", "10.0.0.9:80", "two.example:80", true},
		{"listening at a name", "guest.example:80", "10.0.0.7:80", true},
		{"localhost needs no entry", "127.0.0.1:80", "localhost:80", true},
		{"an unspecified address takes loopback", "0.0.0.0:80", "127.0.0.1:80", true},
		{"no host is the unspecified address", ":80", ":80", true},
		{"the unspecified IPv6 address takes loopback too", "[::]:80", "127.0.0.1:80", true},
		{"an unspecified address takes nothing else", "0.0.0.0:80", "10.0.0.1:80", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var n memnet.Network
			n.AddHost("guest.example", "10.0.0.7")
			n.AddHost("two.example", "10.0.0.8", "10.0.0.9")
			listen(t, &n, tt.listen)
			c, err := n.DialContext(t.Context(), "tcp", tt.dial)
			if tt.ok != (err == nil) {
				t.Fatalf("listening at %s, dialling %s: %v, want success %t", tt.listen, tt.dial, err, tt.ok)
			}
			if err == nil {
				c.Close()
			}
		})
	}
}

func TestDialFailures(t *testing.T) {
	var n memnet.Network
	n.AddHost("gone.example", "10.0.0.1")
	n.RemoveHost("gone.example")
	n.AddHost("six.example", "fd00::1")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	isDNS := func(err error) bool {
		e, ok := errors.AsType[*net.DNSError](err)
		return ok && e.IsNotFound
	}
	for _, tt := range []struct {
		name, network, address string
		ctx                    context.Context
		is                     func(error) bool
	}{
		{"nobody listens", "tcp", "10.0.0.1:80", t.Context(), func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		{"a name nobody added", "tcp", "nobody.example:80", t.Context(), isDNS},
		{"a name that was removed", "tcp", "gone.example:80", t.Context(), isDNS},
		{"a name without an address of the family", "tcp4", "six.example:80", t.Context(), isDNS},
		{"the context has ended", "tcp", "10.0.0.1:80", cancelled, func(err error) bool { return errors.Is(err, context.Canceled) }},
		{"no port", "tcp", "10.0.0.1", t.Context(), func(err error) bool { _, ok := errors.AsType[*net.AddrError](err); return ok }},
		{"a port that is no number", "tcp", "10.0.0.1:http", t.Context(), func(err error) bool { _, ok := errors.AsType[*net.AddrError](err); return ok }},
		{"a port too high", "tcp", "10.0.0.1:65536", t.Context(), func(err error) bool { _, ok := errors.AsType[*net.AddrError](err); return ok }},
		{"another network", "udp", "10.0.0.1:80", t.Context(), func(err error) bool { _, ok := errors.AsType[net.UnknownNetworkError](err); return ok }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := n.DialContext(tt.ctx, tt.network, tt.address)
			if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" || !tt.is(err) {
				t.Errorf("DialContext(%q, %q) = %v (%T)", tt.network, tt.address, err, err)
			}
		})
	}
}

func TestPortZeroPicksFreePorts(t *testing.T) {
	var n memnet.Network
	seen := make(map[string]bool)
	for range 100 {
		l := listen(t, &n, "10.0.0.1:0")
		if l.Addr().(*net.TCPAddr).Port == 0 || seen[l.Addr().String()] {
			t.Fatalf("port 0 became %v, seen %t", l.Addr(), seen[l.Addr().String()])
		}
		seen[l.Addr().String()] = true
	}
}

func TestListenTwiceIsRefusedUntilClose(t *testing.T) {
	var n memnet.Network
	l := listen(t, &n, "10.0.0.1:80")
	if _, err := n.Listen("tcp", "10.0.0.1:80"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second Listen = %v, want EADDRINUSE", err)
	}
	l.Close()
	listen(t, &n, "10.0.0.1:80").Close()
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close = %v, want net.ErrClosed", err)
	}
}

func TestListenerCloseEndsAcceptAndResetsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		l := listen(t, &n, "10.0.0.1:80")
		waiting := dial(t, &n, "10.0.0.1:80")
		first, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		first.Close()
		queued := dial(t, &n, "10.0.0.1:80")

		blocked := listen(t, &n, "10.0.0.1:81")
		accepted := make(chan error, 1)
		go func() { _, err := blocked.Accept(); accepted <- err }()
		synctest.Wait()
		blocked.Close()
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept during Close = %v, want net.ErrClosed", err)
		}

		l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close = %v, want net.ErrClosed", err)
		}
		if _, err := queued.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Read on a connection that was not accepted = %v, want ECONNRESET", err)
		}
		if _, err := waiting.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read on the accepted and closed connection = %v, want EOF", err)
		}
		if _, err := n.DialContext(t.Context(), "tcp", "10.0.0.1:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial after Close = %v, want ECONNREFUSED", err)
		}
	})
}

func TestFullBacklogRefuses(t *testing.T) {
	var n memnet.Network
	listen(t, &n, "10.0.0.1:80")
	for i := range 1025 {
		c, err := n.DialContext(t.Context(), "tcp", "10.0.0.1:80")
		if i < 1024 && err != nil {
			t.Fatalf("dial %d: %v", i, err)
		}
		if i == 1024 && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial beyond the backlog = %v, want ECONNREFUSED", err)
		}
		if c != nil {
			c.Close()
		}
	}
}

func TestSilentAddressHoldsTheDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		n.AddHost("pod.example", "10.0.0.1")
		listen(t, &n, "10.0.0.1:80")
		n.Silence("10.0.0.1")

		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := n.DialContext(ctx, "tcp", "pod.example:80")
		if took := time.Since(start); took != 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial = %v after %v, want DeadlineExceeded after 5s", err, took)
		}
		if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
			t.Errorf("dial = %v, want a timeout", err)
		}

		start = time.Now()
		_, err = n.DialContext(t.Context(), "tcp", "10.0.0.1:80")
		if took := time.Since(start); took != 127*time.Second || !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("dial without a deadline = %v after %v, want ETIMEDOUT after 127s", err, took)
		}

		n.Unsilence("10.0.0.1")
		dial(t, &n, "10.0.0.1:80")
	})
}

func TestAddresses(t *testing.T) {
	var n memnet.Network
	for _, tt := range []struct{ listen, from string }{
		{"10.0.0.1:80", "192.0.2.1"},
		{"127.0.0.1:80", "127.0.0.1"},
		{"[fd00::1]:80", "2001:db8::1"},
		{"[::1]:80", "::1"},
	} {
		l := listen(t, &n, tt.listen)
		client := dial(t, &n, tt.listen)
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		from := client.LocalAddr().(*net.TCPAddr)
		if from.IP.String() != tt.from || from.Port < 49152 || server.RemoteAddr().String() != from.String() {
			t.Errorf("dialled %s from %v, the server sees %v; want from %s", tt.listen, from, server.RemoteAddr(), tt.from)
		}
		if client.RemoteAddr().String() != tt.listen || server.LocalAddr().String() != tt.listen {
			t.Errorf("dialled %s: client sees %v, server sees %v", tt.listen, client.RemoteAddr(), server.LocalAddr())
		}
		server.Close()
	}
}
