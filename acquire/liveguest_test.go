package acquire_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

// shows reads a terminal until it shows what.
func shows(t *testing.T, terminal *transport.Terminal, what string) {
	t.Helper()
	var text []byte
	timer := time.AfterFunc(20*time.Second, func() { terminal.Close() })
	defer timer.Stop()
	for !bytes.Contains(text, []byte(what)) {
		piece := make([]byte, 4096)
		n, err := terminal.Read(piece)
		text = append(text, piece[:n]...)
		if err != nil {
			t.Fatalf("%v; %q was to appear, and %q did", err, what, text)
		}
	}
}

func types(t *testing.T, terminal *transport.Terminal, keys string) {
	t.Helper()
	if _, err := io.WriteString(terminal, keys); err != nil {
		t.Fatal(err)
	}
}

// A shell on a terminal of a real pod: its size follows, Ctrl-C reaches the
// program in front and leaves the shell, the exit code is the shell's.
func TestLiveTerminal(t *testing.T) {
	sb := liveSandbox(t)
	terminal, err := sb.OpenTerminal(t.Context(), transport.TerminalConfig{Cols: 90, Rows: 20, Dir: "here", Env: []string{"PS1=ready> "}})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	types(t, terminal, "echo at:$(basename $(pwd)):$(stty size):\n")
	shows(t, terminal, "at:here:20 90:")
	if err := terminal.Resize(132, 43); err != nil {
		t.Fatal(err)
	}
	types(t, terminal, "until [ \"$(stty size)\" = '43 132' ]; do sleep 0.01; done; echo res\"\"ized\n")
	shows(t, terminal, "resized")
	types(t, terminal, "sh -c 'echo wait\"\"ing; exec sleep 600'\n") // who says so has the terminal
	shows(t, terminal, "waiting")
	types(t, terminal, "\x03echo on:$((1+1)):\n")
	shows(t, terminal, "on:2:")
	types(t, terminal, "exit 9\n")
	if _, err := io.Copy(io.Discard, terminal); err != nil {
		t.Error(err)
	}
	err = terminal.Wait()
	if end, ok := errors.AsType[*transport.TerminalError](err); !ok || end.ExitCode != 9 || end.Killed {
		t.Errorf("the shell's end is %v, want exit code 9", err)
	}
}

// next reads what comes next, or the end of the program.
func next(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got[:n], err, want)
	}
}

// Output of a real pod's program can be followed from any offset, by anybody who
// knows its id, who can also end it.
func TestLiveAttach(t *testing.T) {
	sb := liveSandbox(t)
	cmd := sb.Command(t.Context(), "sh", "-c", "echo one; echo two; exec sleep 600")
	cmd.Retain()
	mine, toMe := io.Pipe()
	var all bytes.Buffer
	cmd.Stdout = io.MultiWriter(&all, toMe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		toMe.CloseWithError(err)
		ended <- err
	}()
	next(t, mine, "one\n")
	theirs, toThem := io.Pipe()
	follower := sb.Attach(t.Context(), cmd.ID, 2)
	follower.Stdout = toThem
	followed := make(chan error, 1)
	go func() {
		err := follower.Run()
		toThem.CloseWithError(err)
		followed <- err
	}()
	next(t, theirs, "e\ntwo\n")
	next(t, mine, "two\n")
	outcome, err := sb.CancelExecution(t.Context(), cmd.ID)
	if err != nil || !outcome.Cancelled || !outcome.Started {
		t.Errorf("cancelled: %+v, %v", outcome, err)
	}
	for who, err := range map[string]error{"its owner": <-ended, "its follower": <-followed} {
		if exit, ok := errors.AsType[*transport.ExitError](err); !ok || exit.Signal != "SIGTERM" {
			t.Errorf("%s hears of its end: %v", who, err)
		}
	}
	if all.String() != "one\ntwo\n" {
		t.Errorf("all output is %q", all.String())
	}
	late := sb.Attach(t.Context(), cmd.ID, 0)
	var again bytes.Buffer
	late.Stdout = &again
	if err := late.Run(); again.String() != all.String() || err == nil {
		t.Errorf("after the end it is %q, %v", again.String(), err)
	}
}

// A session of a real pod goes on with nobody attached, and changes hands.
func TestLiveSessions(t *testing.T) {
	sb := liveSandbox(t)
	first, err := sb.StartSession(t.Context(), "live", transport.TerminalConfig{Path: "sh", Env: []string{"PS1=> "}})
	if err != nil {
		t.Fatal(err)
	}
	types(t, first, "echo fi\"\"rst\n")
	shows(t, first, "first")
	second, err := sb.AttachSession(t.Context(), "live", 0, 100, 30)
	if err != nil {
		t.Fatal(err)
	}
	shows(t, second, "first") // what was before it came
	if _, err := io.Copy(io.Discard, first); !errors.Is(err, transport.ErrSuperseded) {
		t.Errorf("the one who was displaced hears %v", err)
	}
	first.Close()
	types(t, second, "echo size:$(stty size):\n")
	shows(t, second, "size:30 100:")
	second.Close()

	if _, pid, err := sb.StartDetached(t.Context(), "alone", transport.Detached{Path: "sh", Args: []string{"-c", "echo out; echo err >&2; exec sleep 600"}}); err != nil || pid < 2 {
		t.Errorf("detached: pid %d, %v", pid, err)
	}
	for _, id := range []string{"live", "alone"} {
		if one, err := sb.KillSession(t.Context(), id, ""); err != nil || one.Running || one.Signal != int(syscall.SIGKILL) {
			t.Errorf("killed: %+v, %v", one, err)
		}
	}
	sessions, err := sb.Sessions(t.Context())
	if err != nil || len(sessions) != 2 || sessions[0].ID != "live" || sessions[1].ID != "alone" {
		t.Errorf("sessions are %+v, %v", sessions, err)
	}
	out, err := sb.ReadSession(t.Context(), "live", 0)
	if err != nil || out.Running || len(out.Pieces) == 0 {
		t.Errorf("read: %+v, %v", out, err)
	}
}

// A port in a real pod, and one where nobody listens. The pods of the rig share
// the machine's loopback interface, where the guest dials 127.0.0.1.
func TestLivePort(t *testing.T) {
	sb := liveSandbox(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.Copy(conn, conn)
	}()
	conn, err := sb.DialGuest(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	sent := strings.Repeat("there and back\n", 100_000)
	wrote := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, sent)
		if half, ok := conn.(*transport.GuestConn); ok && err == nil {
			err = half.CloseWrite()
		}
		wrote <- err
	}()
	got, err := io.ReadAll(conn)
	if err := errors.Join(err, <-wrote); err != nil || string(got) != sent {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(sent), err)
	}
	conn.Close()
	l.Close()
	<-served
	if _, err := sb.DialGuest(t.Context(), port); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("where nobody listens any more: %v", err)
	}
}
