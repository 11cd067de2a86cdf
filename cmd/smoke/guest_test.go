package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport"
)

const guestSecret = "hunter2-of-the-guest"

// A guestAt is where a guest agent is, and what it wants to hear.
type guestAt struct{ address, token string }

// command is a smoke guest that goes there.
func (p guestAt) command(args ...string) []string {
	return append([]string{"guest", "-addr", p.address, "-token", p.token}, args...)
}

// startGuest runs a guest agent and returns its place and workspace.
func startGuest(t *testing.T) (at guestAt, workspace string) {
	at, workspace, _ = startMortalGuest(t)
	return at, workspace
}

// startMortalGuest also returns what ends the guest before the test does.
func startMortalGuest(t *testing.T) (at guestAt, workspace string, stop func()) {
	t.Helper()
	workspace = t.TempDir()
	s, err := guest.New(guest.Config{Token: guestSecret, Workspace: workspace})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	stop = sync.OnceFunc(func() {
		s.Close()
		<-ended
	})
	t.Cleanup(stop)
	return guestAt{l.Addr().String(), guestSecret}, workspace, stop
}

func TestGuest(t *testing.T) {
	t.Parallel()
	at, workspace := startGuest(t)
	local := filepath.Join(t.TempDir(), "local")
	large := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	if err := os.WriteFile(local, large, 0o600); err != nil {
		t.Fatal(err)
	}
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(guestSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fetched := filepath.Join(t.TempDir(), "fetched")
	for _, c := range []struct {
		sentence       string
		args           []string
		stdin          io.Reader // nil: never ends and must not be read
		code           int
		stdout, stderr string // "" of stderr: not looked at
	}{
		{"a guest that is well", []string{"health"}, nil, 0, "", ""},
		{"both streams are passed on", []string{"exec", "--", "sh", "-c", "echo out; echo err >&2"}, nil, 0, "out\n", "err\n"},
		{"the two dashes may be left out", []string{"exec", "echo", "-n", "a", "--", "b"}, nil, 0, "a -- b", ""},
		{"so is the exit code", []string{"exec", "--", "sh", "-c", "exit 42"}, nil, 42, "", ""},
		{"a signal is 128 and its number", []string{"exec", "--", "sh", "-c", "kill -TERM $$"}, nil, 128 + 15, "", "SIGTERM"},
		{"a program that runs out of time", []string{"exec", "-timeout", "100ms", "--", "sleep", "60"}, nil, exitTimedOut, "", "timed out"},
		{"a program that is not there", []string{"exec", "--", "no-such-program"}, nil, exitNoResult, "", "no-such-program"},
		{"standard input is passed on when asked for", []string{"exec", "-i", "--", "tr", "a-z", "A-Z"}, strings.NewReader("shout"), 0, "SHOUT", ""},
		{"a directory of its own", []string{"exec", "-dir", "deep/er", "--", "pwd"}, nil, 0, filepath.Join(workspace, "deep/er") + "\n", ""},
		{"a file is written", []string{"put", local, "in/large"}, nil, 0, "", "65536 bytes"},
		{"and read", []string{"get", "in/large", "-"}, nil, 0, string(large), ""},
		{"into a file", []string{"get", "in/large", fetched}, nil, 0, "", ""},
		{"from standard input", []string{"put", "-", "in/small"}, strings.NewReader("small"), 0, "", "5 bytes"},
		{"a file that is not there", []string{"get", "none", filepath.Join(filepath.Dir(fetched), "none")}, nil, 1, "", "ENOENT"},
		{"a local file that is not there", []string{"put", local + "-none", "x"}, nil, 1, "", "no such file"},
		{"a folder cannot be fetched into", []string{"get", "in/small", workspace}, nil, 1, "", "not a regular file"},
		{"a path that leaves the workspace", []string{"get", "/etc/passwd", "-"}, nil, 1, "", "/etc/passwd"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			stdin := c.stdin
			if stdin == nil {
				stdin = neverEnding{t}
			}
			r := smokeWith(t.Context(), stdin, nil, at.command(c.args...)...)
			r.expect(t, c.code)
			if c.args[0] != "health" && r.stdout != c.stdout {
				t.Errorf("standard output is %q, want %q", r.stdout, c.stdout)
			}
			if !strings.Contains(r.stderr, c.stderr) || strings.Contains(r.stdout+r.stderr, guestSecret) {
				t.Errorf("standard error is %q; want %q in it and no token", r.stderr, c.stderr)
			}
		})
	}
	if got, err := os.ReadFile(fetched); err != nil || sha256.Sum256(got) != sha256.Sum256(large) {
		t.Errorf("the fetched file has %d bytes, %v", len(got), err)
	}
	if names := list(t, filepath.Dir(fetched)); len(names) != 1 {
		t.Errorf("beside the fetched file there is %q; a get that failed is to leave nothing", names)
	}
	for name, how := range map[string]struct {
		environ []string
		flags   []string
	}{
		"from a file":            {nil, []string{"-token-file", tokenFile}},
		"from the environment":   {[]string{tokenVariable + "=" + guestSecret}, nil},
		"after the command name": {nil, nil},
	} {
		args := append([]string{"guest", "-addr", at.address}, how.flags...)
		args = append(args, "exec")
		if how.flags == nil && how.environ == nil {
			args = append(args, "-token", guestSecret)
		}
		r := smokeWith(t.Context(), neverEnding{t}, how.environ, append(args, "--", "echo", "hello")...)
		if r.code != 0 || r.stdout != "hello\n" {
			t.Errorf("the token %s: %v", name, r)
		}
	}
	r := smoke(t, "guest", "-addr", at.address, "-token", "another", "exec", "--", "true")
	r.expect(t, exitNoResult, "refused the token")
	r = smoke(t, "guest", "-addr", at.address, "health")
	r.expect(t, 0, "ok: true", "retiring: false", "features: ")
}

// An exec returns when its program has ended, even if its own standard input
// stays open for ever.
func TestGuestExecDoesNotWaitForItsStandardInput(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	r, w := io.Pipe()
	defer w.Close()
	got := smokeWith(t.Context(), r, nil, at.command("exec", "--", "echo", "done")...)
	got.expect(t, 0, "done\n")
}

// Whoever waits for a standard input that says nothing can still be interrupted.
func TestGuestWaitsForStandardInputWithPatience(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	for code, args := range map[int][]string{exitNoResult: {"exec", "-i", "--", "cat"}, exitFailed: {"put", "-", "file"}} {
		r, w := io.Pipe()
		ctx, interrupt := context.WithCancelCause(t.Context())
		asked := &askedReader{r: r, asked: make(chan struct{})}
		go func() {
			<-asked.asked
			interrupt(errors.New("interrupt signal received"))
		}()
		got := smokeWith(ctx, asked, nil, at.command(args...)...)
		got.expect(t, code, "interrupt signal received")
		w.Close() // ends the Read that was given up
	}
}

// An askedReader tells when it is first read.
type askedReader struct {
	r     io.Reader
	once  sync.Once
	asked chan struct{}
}

func (a *askedReader) Read(p []byte) (int, error) {
	a.once.Do(func() { close(a.asked) })
	return a.r.Read(p)
}

// An interrupted exec ends its program, not only itself.
func TestGuestExecInterrupted(t *testing.T) {
	t.Parallel()
	at, workspace := startGuest(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	stdout, stderr := newLockedBuffer(), newLockedBuffer()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, streams{neverEnding{t}, stdout, stderr, nil}, at.command(
			"exec", "--", "sh", "-c", `trap "echo told > told; exit" TERM; echo ready; while :; do sleep 0.01; done`))
	}()
	stdout.await(t, "ready")
	interrupt(errors.New("interrupt signal received"))
	if code := <-ended; code != exitNoResult || !strings.Contains(stderr.String(), "interrupt signal received") {
		t.Errorf("exit code %d, standard error %q; want %d and the signal", code, stderr.String(), exitNoResult)
	}
	if _, err := os.Stat(filepath.Join(workspace, "told")); err != nil {
		t.Errorf("the program was not told to end before the command returned: %v", err)
	}
}

func TestGuestRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sentence string
		args     string
		code     int
		words    string // separated by |
	}{
		{"no command", "-addr a:1", exitUsage, "health, exec, attach, put, get"},
		{"an unknown command", "-addr a:1 reboot", exitUsage, `"reboot"`},
		{"no address", "health", exitUsage, "-addr HOST:PORT is missing|1024"},
		{"an address without a port", "-addr a health", exitUsage, `-addr "a"`},
		{"two tokens", "-addr a:1 -token hunter2 -token-file f health", exitUsage, "-token and -token-file"},
		{"a token file that is not there", "-addr a:1 -token-file /nowhere/t health", exitFailed, "/nowhere/t"},
		{"exec without a program", "-addr a:1 exec --", exitUsage, "a program"},
		{"put without a place", "-addr a:1 put x", exitUsage, "LOCAL and REMOTE"},
		{"health with an argument", "-addr a:1 health x", exitUsage, "takes no arguments"},
		{"a forward that names no port", "-addr a:1 forward 8080", exitUsage, "LOCAL:PORT"},
		{"a forward to a port that is none", "-addr a:1 forward 8080:70000", exitUsage, "LOCAL:PORT"},
		{"an offset that is none", "-addr a:1 attach -from -1 x", exitUsage, "-from"},
		{"half of what a session is killed by", "-addr a:1 sessions kill", exitUsage, "kill ID"},
		{"a flag of exec elsewhere", "-addr a:1 get -i a b", exitUsage, "-i does not go with get"},
		{"a time that is none", "-addr a:1 exec -timeout -1s -- true", exitUsage, "-timeout"},
		{"a time without a unit", "-addr a:1 exec -timeout 5 -- true", exitUsage, "-timeout|such as 30s"},
		{"an unknown flag", "-addr a:1 -tty exec -- sh", exitUsage, "-tty"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			r := smoke(t, append([]string{"guest"}, strings.Fields(c.args)...)...)
			r.expect(t, c.code, strings.Split(c.words, "|")...)
			if strings.Contains(r.stdout+r.stderr, "hunter2") || c.code == exitUsage && strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("more than one line, or a secret\n%v", r)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		result transport.Result
		want   int
	}{
		{transport.Result{ExitCode: 3}, 3},
		{transport.Result{ExitCode: -1, Signal: "SIGKILL"}, 137},
		{transport.Result{ExitCode: -1, Signal: "SIGSYS"}, 128 + 31},
		{transport.Result{ExitCode: -1, Signal: "SIGKILL", TimedOut: true, Duration: time.Second}, 124},
		{transport.Result{ExitCode: -1, Signal: "SIGRTMIN+3"}, 125},
		{transport.Result{ExitCode: -1}, 125},
		{transport.Result{ExitCode: 1000}, 125},
	} {
		if got := exitCode(c.result); got != c.want {
			t.Errorf("exitCode(%+v) = %d, want %d", c.result, got, c.want)
		}
	}
}
