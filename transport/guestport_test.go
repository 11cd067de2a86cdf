//go:build linux

package transport_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport"
)

// listenInGuest listens on a port of the loopback interface, which is the
// guest's as well.
func listenInGuest(t *testing.T, serve func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

func TestGuestPorts(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	t.Run("bytes of all sorts both ways", func(t *testing.T) {
		port := listenInGuest(t, func(c net.Conn) { io.Copy(c, c) })
		for range 3 {
			conn, err := g.DialGuest(limited(t), port)
			if err != nil {
				t.Fatal(err)
			}
			sent, received := sha256.New(), sha256.New()
			var reading sync.WaitGroup
			reading.Go(func() {
				if _, err := io.Copy(received, conn); err != nil {
					t.Error(err)
				}
			})
			random := rand.NewChaCha8([32]byte{byte(port)})
			if _, err := io.CopyN(io.MultiWriter(conn, sent), random, 5_000_001); err != nil {
				t.Error(err)
			}
			conn.(*transport.GuestConn).CloseWrite()
			reading.Wait()
			if !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
				t.Error("what came back is not what was sent")
			}
			conn.Close()
		}
	})
	t.Run("an HTTP server", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%s %d", r.URL.Path, n)
		})}
		done := make(chan struct{})
		go func() { defer close(done); server.Serve(l) }()
		defer func() { server.Close(); <-done }()
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return g.DialGuest(ctx, l.Addr().(*net.TCPAddr).Port)
		}}}
		defer client.CloseIdleConnections()
		for i := range 20 {
			r, err := client.Post(fmt.Sprintf("http://guest/%d", i), "", strings.NewReader(strings.Repeat("x", i*10_000)))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r.Body)
			r.Body.Close()
			if want := fmt.Sprintf("/%d %d", i, i*10_000); string(b) != want || err != nil {
				t.Errorf("got %q, %v, want %q", b, err, want)
			}
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		port := listenInGuest(t, func(net.Conn) {})
		closed, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
		if _, err := g.DialGuest(limited(t), closed.Addr().(*net.TCPAddr).Port); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v", err)
		}
		conn, err := g.DialGuest(limited(t), port)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("of one that closes at once: %d, %v", n, err)
		}
		conn.Close()
	})
}

func TestGuestTerminal(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	t.Run("a shell", func(t *testing.T) {
		term, err := g.OpenTerminal(limited(t), transport.TerminalConfig{Cols: 100, Rows: 30, Path: "/bin/sh", Env: []string{"PS1=", "TERM=dumb"}})
		if err != nil {
			t.Fatal(err)
		}
		defer term.Close()
		if err := term.Resize(101, 31); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(term, "stty size; test -t 0 && echo a ☕ on $TERM; exit 3\n"); err != nil {
			t.Error(err)
		}
		out, err := io.ReadAll(term)
		if text := string(out); err != nil || !strings.Contains(text, "31 101") || !strings.Contains(text, "a ☕ on dumb") {
			t.Errorf("got %q, %v", out, err)
		}
		if e := errorAs[*transport.TerminalError](t, term.Wait()); e.ExitCode != 3 || e.Killed {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("programs that are over at once", func(t *testing.T) {
		for range 20 {
			term, err := g.OpenTerminal(limited(t), transport.TerminalConfig{Path: "echo", Args: []string{"hi"}})
			if err != nil {
				t.Fatal(err)
			}
			if out, err := io.ReadAll(term); string(out) != "hi\r\n" || err != nil || term.Wait() != nil {
				t.Errorf("got %q, %v, %v", out, err, term.Wait())
			}
			term.Close()
		}
	})
	t.Run("one that is closed", func(t *testing.T) {
		term, err := g.OpenTerminal(limited(t), transport.TerminalConfig{Path: "sh", Args: []string{"-c", "echo $$; trap '' HUP TERM INT; sleep 100 & wait; wait"}})
		if err != nil {
			t.Fatal(err)
		}
		pid := make([]byte, 20)
		n, err := term.Read(pid)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		term.Close()
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("closing took %v", took)
		}
		if out, err := g.Command(limited(t), "sh", "-c", "kill -0 "+strings.TrimSpace(string(pid[:n]))).CombinedOutput(); err == nil {
			t.Errorf("the program is still there: %s", out)
		}
	})
	t.Run("much output, slowly read", func(t *testing.T) {
		term, err := g.OpenTerminal(limited(t), transport.TerminalConfig{Path: "sh", Args: []string{"-c", "head -c 3000000 /dev/zero | tr '\\0' x"}})
		if err != nil {
			t.Fatal(err)
		}
		defer term.Close()
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{term}, make([]byte, 1000)); n != 3_000_000 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// hooked is a writer with a function that is called after each write.
type hooked struct {
	io.Writer
	f func()
}

func (h *hooked) Write(p []byte) (int, error) {
	n, err := h.Writer.Write(p)
	h.f()
	return n, err
}

// A cutter dials and cuts off what it has dialled.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

func TestGuestKeepsOutput(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	cutter := &cutter{}
	agent, err := transport.New(transport.Config{Host: "127.0.0.1", Port: g.port, Token: token, DialContext: cutter.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	const script = `i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.05; done; exit 5`
	c := agent.Command(limited(t), "sh", "-c", script)
	c.Retain()
	var out bytes.Buffer
	lines := 0
	c.Stdout = &hooked{&out, func() {
		if lines++; lines%10 == 5 {
			cutter.cut()
		}
	}}
	if e := errorAs[*transport.ExitError](t, c.Run()); e.ExitCode != 5 || e.StdoutTruncated {
		t.Errorf("got %+v", e)
	}
	var want strings.Builder
	for i := range 40 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if out.String() != want.String() {
		t.Errorf("got %q", &out)
	}
	a := g.Attach(limited(t), c.ID, int64(len("line 0\n")))
	var rest bytes.Buffer
	a.Stdout = &rest
	if e := errorAs[*transport.ExitError](t, a.Run()); e.ExitCode != 5 || rest.String() != strings.TrimPrefix(want.String(), "line 0\n") {
		t.Errorf("attached: %v, %q", e, &rest)
	}

	c = agent.Command(limited(t), "sh", "-c", "echo up; exec sleep 100")
	c.Retain()
	up := make(chan struct{}) // before that, it may be cancelled without having run
	c.Stdout = &onOutput{f: func() { close(up) }}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-up
	c.Detach()
	errorAs[*transport.ExecutionDetachedError](t, c.Wait())
	if o, err := g.CancelExecution(limited(t), c.ID); err != nil || !o.Cancelled || o.Result.Signal != "SIGTERM" {
		t.Errorf("cancel: %+v, %v", o, err)
	}
	if err := g.Attach(limited(t), c.ID, 0).Run(); err == nil || !strings.Contains(err.Error(), "killed by SIGTERM") {
		t.Errorf("attached to what was ended: %v", err)
	}
	_, err = g.CancelExecution(limited(t), "exec_"+transport.NewUUID())
	errorAs[*transport.NotAttachableError](t, err)
}
