package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

var errInterrupt = errors.New("interrupt signal received")

// A background is a smoke guest that runs beside the test.
type background struct {
	interrupt      context.CancelCauseFunc
	stdout, stderr *lockedBuffer
	ended          chan int
}

func inBackground(t *testing.T, stdin io.Reader, at guestAt, args ...string) background {
	ctx, interrupt := context.WithCancelCause(t.Context())
	b := background{interrupt, newLockedBuffer(), newLockedBuffer(), make(chan int, 1)}
	go func() {
		b.ended <- run(ctx, streams{stdin, b.stdout, b.stderr, nil}, at.command(args...))
	}()
	return b
}

// forwarding is the address that a forward listens at.
func (b background) forwarding(t *testing.T) string {
	t.Helper()
	_, line, _ := strings.Cut(b.stderr.await(t, " to port "), "forwarding ")
	local, _, _ := strings.Cut(line, " ")
	return local
}

// onGuest runs a command to its end.
func onGuest(t *testing.T, stdin io.Reader, at guestAt, args ...string) ran {
	t.Helper()
	if stdin == nil {
		stdin = neverEnding{t}
	}
	return smokeWith(t.Context(), stdin, nil, at.command(args...)...)
}

func TestGuestForward(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("through the guest\n", 100_000)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Close()
		<-served
	}()

	b := inBackground(t, neverEnding{t}, at, "forward", "0:"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	local := b.forwarding(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 {
		resp, err := client.Get("http://" + local)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != body {
			t.Errorf("%d bytes of %d came through: %v", len(got), len(body), err)
		}
	}
	held, err := net.Dial("tcp", local) // is passed on, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	b.interrupt(errInterrupt)
	if code := <-b.ended; code != exitOK {
		t.Errorf("exit code %d of a forward that was interrupted, want 0: %s", code, b.stderr)
	}
}

func TestGuestForwardToNobody(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	b := inBackground(t, neverEnding{t}, at, "forward", "0:"+strconv.Itoa(port))
	local := b.forwarding(t)
	conn, err := net.Dial("tcp", local)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, _ := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("%q came from nobody", got)
	}
	b.stderr.await(t, "ECONNREFUSED") // the guest's words
	b.interrupt(errInterrupt)
	<-b.ended
}

func TestGuestAttach(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	r := onGuest(t, nil, at, "exec", "-retain", "--", "sh", "-c", "echo one; echo two >&2; exit 3")
	r.expect(t, 3, "one\n", "two\n", "smoke: execution ")
	_, id, _ := strings.Cut(r.stderr, "smoke: execution ")
	id = strings.Fields(id)[0]
	for range 2 { // as often as one likes
		again := onGuest(t, nil, at, "attach", id)
		if again.code != 3 || again.stdout != "one\n" || again.stderr != "two\n" {
			t.Errorf("attached after the end: %v", again)
		}
	}
	rest := onGuest(t, nil, at, "attach", "-from", "4", id)
	if rest.code != 3 || len(rest.stdout)+len(rest.stderr) != 4 {
		t.Errorf("from the fifth byte of eight on: %v", rest)
	}
	onGuest(t, nil, at, "attach", "no-such-execution").expect(t, exitNoResult, "no-such-execution")
}

func TestGuestShell(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	for sentence, c := range map[string]struct {
		stdin  string
		args   []string
		code   int
		stdout string
	}{
		"a script is typed":           {"echo $((40+2))\nexit 7\n", nil, 7, "42"},
		"the input ends":              {"echo $((40+2))\n", nil, 0, "42"},
		"the input ends in a line":    {"no newline", []string{"--", "cat"}, 0, "no newline"},
		"a program with arguments":    {"", []string{"--", "sh", "-c", "test -t 0 && echo a terminal"}, 0, "a terminal"},
		"a signal ends it":            {"", []string{"--", "sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
		"a program that is not there": {"", []string{"--", "no-such-program"}, exitNoResult, ""},
	} {
		r := onGuest(t, strings.NewReader(c.stdin), at, append([]string{"shell"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stdout, c.stdout) {
			t.Errorf("%s: want exit code %d and %q\n%v", sentence, c.code, c.stdout, r)
		}
	}
}

func TestGuestSessions(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	onGuest(t, nil, at, "sessions").expect(t, 0, "STATE")

	r, w := io.Pipe()
	defer w.Close()
	b := inBackground(t, r, at, "shell", "-session", "work", "--", "sh", "-c", "echo it is up; sleep 600")
	b.stdout.await(t, "it is up")
	onGuest(t, nil, at, "sessions").expect(t, 0, "work", "attached", "sleep 600")
	b.interrupt(errInterrupt)
	if code := <-b.ended; code != exitNoResult {
		t.Errorf("exit code %d of a shell that was interrupted, want %d", code, exitNoResult)
	}
	awaitDetached(t, at).expect(t, 0, "running")
	onGuest(t, nil, at, "sessions", "read", "work").expect(t, 0, "it is up")
	onGuest(t, strings.NewReader(""), at, "shell", "-session", "work", "--", "true").expect(t, exitNoResult, "work runs")
	onGuest(t, nil, at, "sessions", "kill", "work").expect(t, 0, "has ended")
	onGuest(t, strings.NewReader(""), at, "shell", "-session", "work").expect(t, exitNoResult, "work has ended (signal-9)", "sessions read work")
	onGuest(t, nil, at, "sessions", "kill", "none").expect(t, exitFailed, "none")
}

// awaitDetached lists the sessions once nobody is attached: the guest learns of
// the end of a connection a moment later.
func awaitDetached(t *testing.T, at guestAt) ran {
	t.Helper()
	listed := onGuest(t, nil, at, "sessions")
	for range 200 {
		if !strings.Contains(listed.stdout, "attached") {
			break
		}
		<-time.After(10 * time.Millisecond)
		listed = onGuest(t, nil, at, "sessions")
	}
	return listed
}
