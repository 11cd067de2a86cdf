//go:build linux

package transport_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport"
)

// readUntil reads until the text has come.
func readUntil(t *testing.T, r io.Reader, text string) string {
	t.Helper()
	var all []byte
	buf := make([]byte, 4096)
	for !strings.Contains(string(all), text) {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			t.Errorf("%q came and then %v, want %q", all, err, text)
			break
		}
	}
	return string(all)
}

func TestGuestSessions(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	ctx := limited(t)
	first, err := g.StartSession(ctx, "shell", transport.TerminalConfig{Path: "/bin/sh", Env: []string{"PS1=", "TERM=dumb"}})
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(first, "echo hello; X=kept\n")
	readUntil(t, first, "hello\r\n")
	second, err := g.AttachSession(ctx, "shell", 0, 90, 20)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(first)
	if e := errorAs[*transport.SessionDetachedError](t, err); !errors.Is(err, transport.ErrSuperseded) || e.Offset == 0 {
		t.Errorf("the first attachment: %v", err)
	}
	first.Close()
	readUntil(t, second, "hello\r\n")
	io.WriteString(second, "echo $X at $(stty size)\n")
	readUntil(t, second, "kept at 20 90\r\n")
	second.Close()
	third, err := g.AttachSession(ctx, "shell", second.Offset(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(third, "exit 7\n")
	if _, err := io.ReadAll(third); err != nil {
		t.Error(err)
	}
	if e := errorAs[*transport.TerminalError](t, third.Wait()); e.ExitCode != 7 {
		t.Errorf("got %+v", e)
	}
	third.Close()
	out, err := g.ReadSession(ctx, "shell", 0)
	if err != nil || out.Running || out.ExitCode != 7 || out.NextOffset != third.Offset() {
		t.Errorf("ReadSession: %+v, %v", out, err)
	}
	_, err = g.StartSession(ctx, "shell", transport.TerminalConfig{})
	if e := errorAs[*transport.SessionError](t, err); e.Reason != "session_exists" {
		t.Errorf("got %+v", e)
	}

	job, pid, err := g.StartDetached(ctx, "job", transport.Detached{Path: "sh", Args: []string{"-c", `echo out $A; echo err >&2; sleep 100`}, Dir: "jobs", Env: []string{"A=1"}})
	if err != nil || !job.Running || job.Terminal || pid <= 1 {
		t.Fatalf("StartDetached: %+v, %d, %v", job, pid, err)
	}
	watch, err := g.AttachSession(ctx, "job", 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	readUntil(t, watch, "err\n")
	if out, err := g.ReadSession(ctx, "job", 0); err != nil || !out.Running || len(out.Pieces) != 2 || out.Pieces[0].Text+out.Pieces[1].Text != "out 1\nerr\n" && out.Pieces[1].Text+out.Pieces[0].Text != "out 1\nerr\n" {
		t.Errorf("ReadSession: %+v, %v", out, err)
	}
	list, err := g.Sessions(ctx)
	if err != nil || len(list) != 2 || list[0].ID != "shell" || list[1].ID != "job" || !list[1].Attached || list[0].Running || !list[1].Running {
		t.Errorf("Sessions: %+v, %v", list, err)
	}
	if s, err := g.KillSession(ctx, "job", "SIGTERM"); err != nil || s.Running || s.Signal != 15 {
		t.Errorf("KillSession: %+v, %v", s, err)
	}
	if _, err := io.ReadAll(watch); err != nil {
		t.Error(err)
	}
	if e := errorAs[*transport.TerminalError](t, watch.Wait()); e.Signal != 15 || e.Killed {
		t.Errorf("got %+v", e)
	}
	watch.Close()
	_, _, err = g.StartDetached(ctx, "no", transport.Detached{Path: "no-such-program"})
	if e := errorAs[*transport.SessionError](t, err); e.Reason != "spawn_failed" {
		t.Errorf("got %+v", e)
	}
	_, err = g.AttachSession(ctx, "none", 0, 0, 0)
	if e := errorAs[*transport.SessionError](t, err); e.Reason != "unknown_session" {
		t.Errorf("got %+v", e)
	}
	for i := range 5 {
		id := fmt.Sprintf("short-%d", i)
		term, err := g.StartSession(ctx, id, transport.TerminalConfig{Path: "echo", Args: []string{"over"}})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(term); string(out) != "over\r\n" || err != nil || term.Wait() != nil {
			t.Errorf("%s: %q, %v, %v", id, out, err, term.Wait())
		}
		term.Close()
	}
}

// descriptors is how many files this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestGuestManyAtOnce has programs, terminals and ports side by side, of which
// no byte is lost and no descriptor left open.
func TestGuestManyAtOnce(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	port := listenInGuest(t, func(c net.Conn) { io.Copy(c, c) })
	if err := g.Command(limited(t), "true").Run(); err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	var all sync.WaitGroup
	ctx := limited(t)
	for i := range 40 {
		all.Go(func() {
			want := bytes.Repeat(fmt.Appendf(nil, "line of program %d\n", i), 2000)
			out, err := g.Command(ctx, "sh", "-c", fmt.Sprintf("yes 'line of program %d' | head -n 2000", i)).Output()
			if err != nil || sha256.Sum256(out) != sha256.Sum256(want) {
				t.Errorf("program %d: %d bytes, want %d, %v", i, len(out), len(want), err)
			}
		})
	}
	for i := range 15 {
		all.Go(func() {
			term, err := g.OpenTerminal(ctx, transport.TerminalConfig{Path: "cat"})
			if err != nil {
				t.Errorf("terminal %d: %v", i, err)
				return
			}
			defer term.Close()
			for n := range 20 {
				line := fmt.Sprintf("terminal %d line %d", i, n)
				io.WriteString(term, line+"\n")
				readUntil(t, term, line+"\r\n"+line+"\r\n")
			}
		})
		all.Go(func() {
			conn, err := g.DialGuest(ctx, port)
			if err != nil {
				t.Errorf("port %d: %v", i, err)
				return
			}
			defer conn.Close()
			random := make([]byte, 300_000)
			rand.NewChaCha8([32]byte{byte(i)}).Read(random)
			go func() {
				conn.Write(random)
				conn.(*transport.GuestConn).CloseWrite()
			}()
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, random) {
				t.Errorf("port %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	all.Wait()
	for range 100 {
		if descriptors(t) <= before {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Errorf("%d descriptors are open, before it were %d", descriptors(t), before)
}
