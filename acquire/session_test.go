package acquire_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/transport"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// A container that is restarted takes its programs with it and nothing else.
func TestGuestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		w := newWorld(t, setup{backend: func(c *acquire.Config) {
			c.OnGuestRestart = func(sandbox, before, after string) { told = append(told, sandbox, before, after) }
		}})
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		before := sb.BootID()
		cmd := sb.Command(t.Context(), "sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := w.sim.RestartGuest(sb.Name()); err != nil {
			t.Fatal(err)
		}
		if e, ok := errors.AsType[*transport.CancelError](cmd.Wait()); !ok || !e.Restarted {
			t.Errorf("the program that ran: %v, want a CancelError that knows of the restart", cmd.Wait())
		}
		out, err := sb.Command(t.Context(), "echo", "on").Output()
		if err != nil || string(out) != "on\n" {
			t.Errorf("afterwards: %q, %v", out, err)
		}
		if after := sb.BootID(); after == before || strings.Join(told, " ") != sb.Name()+" "+before+" "+after {
			t.Errorf("boot ids %q and %q, told %q", before, after, told)
		}
		if f, err := sb.Features(t.Context()); err != nil || !f.Has(wire.FeatureSessions) {
			t.Errorf("features %q, %v", f, err)
		}
		if err := sb.Release(t.Context()); err != nil {
			t.Error(err)
		}
		w.nothingLeft()
	})
}

// What a guest can do is to be had through the handle, at its directory.
func TestSurface(t *testing.T) {
	echo := newEcho(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{})
		sb, err := w.backend.Create(t.Context(), acquire.Options{Dir: "home"})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()

		terminal, err := sb.OpenTerminal(ctx, transport.TerminalConfig{Path: "sh", Args: []string{"-c", "pwd; read x; echo got $x; exit 3"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(terminal, "it\n"); err != nil {
			t.Error(err)
		}
		output, err := io.ReadAll(terminal)
		if text := string(output); err != nil || !strings.Contains(text, "/home\r\n") || !strings.Contains(text, "got it\r\n") {
			t.Errorf("a terminal gave %q, %v", text, err)
		}
		if end, ok := errors.AsType[*transport.TerminalError](terminal.Wait()); !ok || end.ExitCode != 3 {
			t.Errorf("a terminal ended with %v, want exit code 3", terminal.Wait())
		}

		session, err := sb.StartSession(ctx, "work", transport.TerminalConfig{Path: "cat"})
		if err != nil {
			t.Fatal(err)
		}
		session.Close()
		session, err = sb.AttachSession(ctx, "work", 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(session, "typed\n"); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(session, make([]byte, len("typed\r\ntyped\r\n"))); err != nil {
			t.Errorf("the second attachment read: %v", err)
		}
		session.Close()
		if _, pid, err := sb.StartDetached(ctx, "apart", transport.Detached{Path: "sh", Args: []string{"-c", "pwd"}}); err != nil || pid < 1 {
			t.Errorf("detached: pid %d, %v", pid, err)
		}
		if all, err := sb.Sessions(ctx); err != nil || len(all) != 2 {
			t.Errorf("sessions: %+v, %v", all, err)
		}
		if out, err := sb.ReadSession(ctx, "work", 0); err != nil || len(out.Pieces) == 0 || !strings.Contains(out.Pieces[0].Text, "typed") {
			t.Errorf("what is kept of a session: %+v, %v", out, err)
		}
		if end, err := sb.KillSession(ctx, "work", ""); err != nil || end.Running {
			t.Errorf("killed session: %+v, %v", end, err)
		}

		conn, err := sb.DialGuest(ctx, echo)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "round"); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, len("round"))); err != nil {
			t.Error(err)
		}
		conn.Close()

		kept := sb.Command(ctx, "echo", "kept")
		kept.Retain()
		if err := kept.Run(); err != nil {
			t.Error(err)
		}
		var again strings.Builder
		attached := sb.Attach(ctx, kept.ID, 0)
		attached.Stdout = &again
		if err := attached.Run(); err != nil || again.String() != "kept\n" {
			t.Errorf("attached: %q, %v", again.String(), err)
		}
		if end, err := sb.CancelExecution(ctx, kept.ID); err != nil {
			t.Errorf("cancelled after its end: %+v, %v", end, err)
		}
		if _, _, err := sb.StartDetached(ctx, "long", transport.Detached{Path: "sleep", Args: []string{"600"}}); err != nil {
			t.Fatal(err)
		}
		if q, err := sb.Quiesce(ctx, time.Second); err != nil || len(q.Stopped) != 1 || q.Stopped[0].Name != "sleep" {
			t.Errorf("quiesce: %+v, %v", q, err)
		}
		if err := sb.Release(ctx); err != nil {
			t.Error(err)
		}
		w.nothingLeft()
	})
}

func TestSurfaceFiles(t *testing.T) {
	back := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, setup{})
		sb, err := w.backend.Create(t.Context(), acquire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		tree := fstest.MapFS{"a": {Data: []byte("first"), Mode: 0o644}, "deep/er/b": {Data: []byte("second"), Mode: 0o755}}
		if r, err := sb.PutTree(ctx, "in", tree, transport.TreeOptions{}); err != nil || r.Files != 2 {
			t.Fatalf("put: %+v, %v", r, err)
		}
		if took, err := sb.Flush(ctx, 0); err != nil || took < 0 {
			t.Errorf("flush: %v, %v", took, err)
		}
		names := map[string]fs.FileMode{}
		for entry, err := range sb.Walk(ctx, "in", transport.WalkOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			names[entry.Path] = entry.Mode
		}
		if len(names) != 4 || !names["deep"].IsDir() || names["deep/er/b"]&0o111 == 0 {
			t.Errorf("walked %v, want 4 entries, one of them a program", names)
		}
		listed := 0
		for _, err := range sb.List(ctx, "in") {
			if err != nil {
				t.Fatal(err)
			}
			listed++
		}
		if listed != 2 {
			t.Errorf("listed %d entries, want 2", listed)
		}
		root, err := os.OpenRoot(back)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if r, err := sb.GetTree(ctx, root, "in", transport.TreeOptions{}); err != nil || r.Files != 2 {
			t.Fatalf("get: %+v, %v", r, err)
		}
		if got, err := os.ReadFile(filepath.Join(back, "deep/er/b")); string(got) != "second" {
			t.Errorf("%q came back, %v", got, err)
		}
		file, err := sb.Open(ctx, "in/a")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(file); err != nil || string(got) != "first" {
			t.Errorf("read %q, %v", got, err)
		}
		file.Close()
		part, err := sb.OpenRange(ctx, "in/a", 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(part); err != nil || string(got) != "irs" {
			t.Errorf("read %q, %v", got, err)
		}
		part.Close()
		var whole strings.Builder
		if n, err := sb.ReadFileTo(ctx, "in/a", &whole); err != nil || n != 5 || whole.String() != "first" {
			t.Errorf("read %q, %v", whole.String(), err)
		}

		// Of a sandbox that is lost nothing is asked any more, and what was
		// open did not end well.
		open, err := sb.OpenTerminal(ctx, transport.TerminalConfig{Path: "cat"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.sim.Delete("pods", sb.Report().Pod); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		sb.Renew(ctx)
		<-sb.Done()
		io.Copy(io.Discard, open)
		if open.Wait() == nil {
			t.Error("the program on a terminal of a lost sandbox ended as if it had come to its end")
		}
		dials := w.guest
		for name, do := range afterTheEnd {
			if err := do(ctx, sb); !isLost(err) {
				t.Errorf("%s on a lost sandbox: %v", name, err)
			}
		}
		if w.guest != dials {
			t.Error("a guest was dialled for a sandbox that is lost")
		}
		sb.Release(ctx)
	})
}

// afterTheEnd are operations that a lost sandbox refuses.
var afterTheEnd = map[string]func(context.Context, *acquire.Sandbox) error{
	"OpenTerminal": func(ctx context.Context, sb *acquire.Sandbox) error {
		_, err := sb.OpenTerminal(ctx, transport.TerminalConfig{})
		return err
	},
	"AttachSession": func(ctx context.Context, sb *acquire.Sandbox) error {
		_, err := sb.AttachSession(ctx, "work", 0, 0, 0)
		return err
	},
	"StartDetached": func(ctx context.Context, sb *acquire.Sandbox) error {
		_, _, err := sb.StartDetached(ctx, "x", transport.Detached{Path: "true"})
		return err
	},
	"Sessions": func(ctx context.Context, sb *acquire.Sandbox) error {
		_, err := sb.Sessions(ctx)
		return err
	},
	"DialGuest": func(ctx context.Context, sb *acquire.Sandbox) error {
		_, err := sb.DialGuest(ctx, 80)
		return err
	},
	"Attach": func(ctx context.Context, sb *acquire.Sandbox) error {
		return sb.Attach(ctx, "exec_"+uuid.New(), 0).Run()
	},
	"List": func(ctx context.Context, sb *acquire.Sandbox) error {
		for _, err := range sb.List(ctx, ".") {
			return err
		}
		return nil
	},
	"PutTree": func(ctx context.Context, sb *acquire.Sandbox) error {
		_, err := sb.PutTree(ctx, "in", fstest.MapFS{"a": {}}, transport.TreeOptions{})
		return err
	},
}

// newEcho serves a port of this machine that sends back what it gets.
func newEcho(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.Copy(conn, conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-served
	})
	return l.Addr().(*net.TCPAddr).Port
}
