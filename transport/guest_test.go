//go:build linux

package transport_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
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

// A realGuest is a guest over loopback, running real programs, and an Agent
// that speaks to it.
type realGuest struct {
	*transport.Agent
	workspace string
	port      int
	server    *guest.Server
}

// bareEnviron is all that guests and their programs have of an environment.
var bareEnviron = []string{"PATH=/usr/bin:/bin"}

func newRealGuest(t testing.TB, config guest.Config) *realGuest {
	t.Helper()
	config.Workspace, config.Token, config.Environ = t.TempDir(), token, bareEnviron
	server, err := guest.New(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	port := l.Addr().(*net.TCPAddr).Port
	agent, err := transport.New(transport.Config{Host: "127.0.0.1", Port: port, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		agent.Close()
		if err := server.Close(); err != nil {
			t.Errorf("guest: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("guest: %v", err)
		}
	})
	return &realGuest{Agent: agent, workspace: config.Workspace, port: port, server: server}
}

// limited is a context for a call that must not take long.
func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func sh(g *realGuest, ctx context.Context, script string) *transport.Cmd {
	return g.Command(ctx, "sh", "-c", script)
}

func TestGuestRunsPrograms(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	if err := os.Symlink(t.TempDir(), filepath.Join(g.workspace, "out")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		cmd      func(c *transport.Cmd)
		script   string
		out, err string
		exit     string // text of the *ExitError
	}{
		{"both streams and a status", nil, "echo out; echo err >&2; exit 3", "out\n", "err\n", "transport: sh: exit status 3"},
		{"nothing at all", nil, "", "", "", ""},
		{"the largest status", nil, "exit 255", "", "", "transport: sh: exit status 255"},
		{"a signal", nil, "kill -KILL $$", "", "", "transport: sh: killed by SIGKILL"},
		{"a script with a here-document", nil, "cat <<'EOF' > f\n$hi\nEOF\ncat f", "$hi\n", "", ""},
		{"no input unless there is some", nil, "cat; test -t 0 || echo no terminal", "no terminal\n", "", ""},
		{"a directory that is created", func(c *transport.Cmd) { c.Dir = "new/dir" }, `basename "$PWD"`, "dir\n", "", ""},
		{"variables", func(c *transport.Cmd) { c.Env = []string{"A=1", "B=x y"} }, `echo "$A$B$NAMZU_AGENT_BIND_TOKEN"`, "1x y\n", "", ""},
		{"output that is cut", func(c *transport.Cmd) { c.MaxOutput = 5 }, "echo 0123456789; echo abc >&2", "01234", "abc\n", ""},
		{"text of all sorts", nil, `printf 'a\000b\377c ☕\n'`, "a\x00b\ufffdc ☕\n", "", ""},
		{"a time that is over", func(c *transport.Cmd) { c.Timeout = 200 * time.Millisecond }, "printf partial; exec sleep 30", "partial", "", "transport: sh: timed out after 200ms (killed by SIGTERM)"},
		{"a time that is over for children too", func(c *transport.Cmd) { c.Timeout = 200 * time.Millisecond }, "echo x; sleep 30; echo hello", "x\n", "", "transport: sh: timed out after 200ms (killed by SIGTERM)"},
		{"a time that is over for one that does not want to go", func(c *transport.Cmd) { c.Timeout = 200 * time.Millisecond }, "trap '' TERM; echo x; while :; do sleep 0.05; done", "x\n", "", "transport: sh: timed out after 200ms (killed by SIGKILL)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := sh(g, limited(t), tt.script)
			if tt.cmd != nil {
				tt.cmd(c)
			}
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			err := c.Run()
			if exit, ok := errors.AsType[*transport.ExitError](err); ok && exit.Error() != tt.exit || !ok && (err != nil || tt.exit != "") {
				t.Errorf("got %T %v, want %q", err, err, tt.exit)
			}
			if out.String() != tt.out || errs.String() != tt.err {
				t.Errorf("output %q and %q, want %q and %q", &out, &errs, tt.out, tt.err)
			}
			if r := c.Result(); r == nil || r.StdoutTruncated != (c.MaxOutput > 0) || r.StderrTruncated {
				t.Errorf("Result = %+v", r)
			}
		})
	}
}

func TestGuestStartsNothing(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	if err := os.WriteFile(filepath.Join(g.workspace, "plain"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		cmd  func(c *transport.Cmd)
		is   error
		text string
	}{
		{"there is no such program", func(c *transport.Cmd) { c.Path = "no-such-program" }, fs.ErrNotExist, "ENOENT"},
		{"it cannot be executed", func(c *transport.Cmd) { c.Path = "./plain" }, fs.ErrPermission, "EACCES"},
		{"the directory leads out", func(c *transport.Cmd) { c.Dir = "../.." }, nil, "path escapes the workspace"},
		{"the directory is a file", func(c *transport.Cmd) { c.Dir = "plain" }, nil, "mkdir_failed"},
		{"the timeout is beyond the guest's", func(c *transport.Cmd) { c.Timeout = 31 * time.Minute }, nil, "invalid_timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := g.Command(limited(t), "true")
			tt.cmd(c)
			err := c.Run()
			errorAs[*transport.StartError](t, err)
			if tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// onOutput calls f at the first output.
type onOutput struct {
	once sync.Once
	f    func()
}

func (o *onOutput) Write(b []byte) (int, error) {
	o.once.Do(o.f)
	return len(b), nil
}

func TestGuestEndsPrograms(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	for name, tt := range map[string]struct{ script, signal string }{
		"one that obeys":                  {"echo ready; exec sleep 60", "SIGTERM"},
		"one that ignores SIGTERM":        {"trap '' TERM; echo ready; while :; do sleep 0.05; done", "SIGKILL"},
		"one with children":               {"sleep 61 & sleep 62 & echo ready; wait", "SIGTERM"},
		"one that takes it for a success": {"trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(limited(t))
			c := sh(g, ctx, tt.script)
			c.Stdout = &onOutput{f: func() { cancel(errCause) }}
			err := c.Run()
			if e := errorAs[*transport.StoppedError](t, err); !errors.Is(err, errCause) || e.Result.Signal != tt.signal {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("and leaves the others alone", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(limited(t))
		var wg sync.WaitGroup
		for i := range 7 {
			wg.Go(func() {
				out, err := sh(g, limited(t), fmt.Sprintf("echo %d; sleep 0.3; echo done", i)).Output()
				if want := fmt.Sprintf("%d\ndone\n", i); err != nil || string(out) != want {
					t.Errorf("got %q, %v", out, err)
				}
			})
		}
		c := sh(g, ctx, "echo ready; exec sleep 60")
		c.Stdout = &onOutput{f: func() { cancel(errCause) }}
		errorAs[*transport.StoppedError](t, c.Run())
		wg.Wait()
	})
	t.Run("when the agent is closed", func(t *testing.T) {
		t.Parallel()
		agent, err := transport.New(transport.Config{Host: "127.0.0.1", Port: g.port, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		ready := make(chan struct{})
		c := agent.Command(context.Background(), "sh", "-c", "echo ready; exec sleep 60")
		c.Stdout = &onOutput{f: func() { close(ready) }}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		<-ready
		agent.Close()
		err = c.Wait()
		if errorAs[*transport.StoppedError](t, err); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// TestGuestThatFencesItself leaves a job behind in the program's group, with
// its output elsewhere: the guest cannot prove that it ends.
func TestGuestThatFencesItself(t *testing.T) {
	t.Parallel()
	g := newRealGuest(t, guest.Config{})
	c := sh(g, limited(t), "sleep 20 >/dev/null 2>&1 & echo started")
	out, err := c.Output()
	if e := errorAs[*transport.CancelError](t, err); !e.Retiring || string(out) != "started\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if h, err := g.Health(limited(t)); err != nil || h.OK || !h.Retiring {
		t.Errorf("Health = %+v, %v", h, err)
	}
	errorAs[*transport.RetiringError](t, sh(g, limited(t), "").Run())
	_, err = g.ReadFile(limited(t), "x")
	errorAs[*transport.RetiringError](t, err)
	_, err = g.WriteFile(limited(t), "x", strings.NewReader("x"))
	errorAs[*transport.RetiringError](t, err)
}

// numbers is what `seq n` prints.
func numbers(n int) []byte {
	var b bytes.Buffer
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.Bytes()
}

func TestGuestSendsMuch(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	t.Run("by one program", func(t *testing.T) {
		out, err := g.Command(limited(t), "seq", "400000").Output()
		if want := numbers(400000); err != nil || sha256.Sum256(out) != sha256.Sum256(want) {
			t.Errorf("got %d bytes, %v, want %d", len(out), err, len(want))
		}
	})
	t.Run("by fifty at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				n := 5000 + i
				out, err := g.Command(limited(t), "seq", fmt.Sprint(n)).Output()
				if err != nil || sha256.Sum256(out) != sha256.Sum256(numbers(n)) {
					t.Errorf("%d: %d bytes, %v", n, len(out), err)
				}
			})
		}
		wg.Wait()
	})
}

func TestGuestTakesInput(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(g.workspace, "link")); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("0123456789\xff", 200_000)
	for _, tt := range []struct {
		name, input, dir string
		program          []string
		out              string
		exit             int
	}{
		{"on the wire", "hello\n", "", []string{"cat"}, "hello\n", 0},
		{"on the wire, to one that does not read it", strings.Repeat("x", 1<<20), "", []string{"true"}, "", 0},
		{"on the wire, to one that reads a little", strings.Repeat("x", 1<<20), "", []string{"head", "-c", "3"}, "xxx", 0},
		{"in a file", "a\xffb", "", []string{"wc", "-c"}, "3", 0},
		{"much in a file", large, "", []string{"sha256sum"}, fmt.Sprintf("%x  -", sha256.Sum256([]byte(large))), 0},
		{"in a file, to one that does not read it", "\xff", "", []string{"echo", "a b", "'$HOME'"}, "a b '$HOME'", 0},
		{"in a file, in a directory that is created", "\xff", "d/e/../f", []string{"sh", "-c", `wc -c; pwd | grep -o 'd/f$'`}, "1\nd/f", 0},
		{"in a file, in an absolute directory", "\xff", g.workspace + "/d", []string{"wc", "-c"}, "1", 0},
		{"in a file, and the program is not there", "\xff", "", []string{"no-such-program"}, "", 127},
		{"in a file, from a directory that a link leads to", "\xff", "link", []string{"cat"}, "", 125},
		{"in a file, and the program sees no more than its input", "\xff", "", []string{"sh", "-c", "ls -A; ls -l /proc/self/fd/0 | grep -c deleted"}, "d\nlink\n1", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := g.Command(limited(t), tt.program[0], tt.program[1:]...)
			c.Dir, c.Stdin = tt.dir, strings.NewReader(tt.input)
			out, err := c.Output()
			exit, failed := errors.AsType[*transport.ExitError](err)
			if failed && exit.ExitCode != tt.exit || !failed && (err != nil || tt.exit != 0) || strings.TrimSpace(string(out)) != strings.TrimSpace(tt.out) {
				t.Errorf("got %q, %v, want %q and %d", out, err, tt.out, tt.exit)
			}
			if left, _ := filepath.Glob(filepath.Join(g.workspace, ".namzu*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	t.Run("of which nothing is left when the program does not start", func(t *testing.T) {
		c := g.Command(limited(t), "true")
		c.Dir, c.Stdin = "../..", strings.NewReader("\xff")
		errorAs[*transport.StartError](t, c.Run())
		left, _ := filepath.Glob(filepath.Join(g.workspace, ".namzu*"))
		if len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	if h, err := g.Health(limited(t)); err != nil || !h.OK {
		t.Errorf("afterwards the guest is %+v, %v", h, err)
	}
}
