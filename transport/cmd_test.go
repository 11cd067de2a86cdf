package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cmd    func(*transport.Cmd)
		body   string // but for the id
		result string
		want   transport.Result
		err    string // of an *ExitError
	}{
		{"a program that exits 0", func(*transport.Cmd) {}, `"command":"tool","args":["-x","a b"]`, exit0,
			transport.Result{Duration: 18 * time.Millisecond}, ""},
		{"every field of the Cmd", func(c *transport.Cmd) {
			c.Dir, c.Env, c.Timeout, c.MaxOutput = "proj", []string{"LANG=C", "E=", "X=a=b", "LANG=C.UTF-8"}, 45*time.Second, 1000
		}, `"command":"tool","args":["-x","a b"],"cwd":"proj","env":{"LANG":"C.UTF-8","E":"","X":"a=b"},"timeoutMs":45000,"maxOutputBytes":1000`, exit0,
			transport.Result{Duration: 18 * time.Millisecond}, ""},
		{"no arguments, and a part of a millisecond", func(c *transport.Cmd) { c.Args, c.Timeout = nil, time.Nanosecond },
			`"command":"tool","args":[],"timeoutMs":1`, exit0, transport.Result{Duration: 18 * time.Millisecond}, ""},
		{"a program that fails", func(*transport.Cmd) {}, `"command":"tool","args":["-x","a b"]`,
			`{"type":"result","exitCode":3,"timedOut":false,"durationMs":18,"stdoutTruncated":true,"stderrTruncated":false}`,
			transport.Result{ExitCode: 3, Duration: 18 * time.Millisecond, StdoutTruncated: true}, "transport: tool: exit status 3"},
		{"a program that was killed by somebody", func(*transport.Cmd) {}, `"command":"tool","args":["-x","a b"]`, sigterm,
			transport.Result{ExitCode: -1, Signal: "SIGTERM", Duration: 2204 * time.Millisecond}, "transport: tool: killed by SIGTERM"},
		{"a program that the guest ended for its timeout", func(c *transport.Cmd) { c.Timeout = 1500 * time.Millisecond },
			`"command":"tool","args":["-x","a b"],"timeoutMs":1500`,
			`{"type":"result","exitCode":-1,"timedOut":true,"durationMs":1512,"signal":"SIGKILL"}`,
			transport.Result{ExitCode: -1, Signal: "SIGKILL", TimedOut: true, Duration: 1512 * time.Millisecond}, "transport: tool: timed out after 1.5s (killed by SIGKILL)"},
		{"a program that took its timeout for a reason to exit 0", func(*transport.Cmd) {}, `"command":"tool","args":["-x","a b"]`,
			`{"type":"result","exitCode":0,"timedOut":true,"durationMs":1}`,
			transport.Result{TimedOut: true, Duration: time.Millisecond}, "transport: tool: timed out after 5m0s (exit status 0)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := []Step{
				executing(Body(`{"executionId":"` + id + `",` + tt.body + `}`)),
				stdout("début\n"), stderr("warn\n"), stdout(""), stdout("☕"), finish(tt.result),
			}
			bubble(t, transport.Config{}, script, func(t *testing.T, p *pod) {
				c := p.Command(t.Context(), "tool", "-x", "a b")
				tt.cmd(c)
				var out, errs bytes.Buffer
				c.Stdout, c.Stderr = &out, &errs
				err := c.Run()
				if tt.err == "" && err != nil {
					t.Fatal(err)
				}
				if tt.err != "" {
					if exit := errorAs[*transport.ExitError](t, err); exit.Error() != tt.err || exit.Result != tt.want {
						t.Errorf("got %q with %+v, want %q", exit, exit.Result, tt.err)
					}
				}
				if r := c.Result(); r == nil || *r != tt.want {
					t.Errorf("Result = %+v, want %+v", r, tt.want)
				}
				if out.String() != "début\n☕" || errs.String() != "warn\n" {
					t.Errorf("output %q and %q", &out, &errs)
				}
				if got := p.BootID(); got != "boot-1" {
					t.Errorf("BootID = %q", got)
				}
				if got := p.dials.Load(); got != 2 {
					t.Errorf("%d connections, want one for each of two requests", got)
				}
				p.took(t, 0)
			})
		})
	}
}

// TestRunSplitAtEveryByte delivers the guest's answer in pieces of every size.
func TestRunSplitAtEveryByte(t *testing.T) {
	events := []string{`{"type":"stdout_delta","data":"début ☕\n"}`, `{"type":"stderr_delta","data":"x"}`, exit0}
	for n := 1; n < 2*len(exit0); n++ {
		var sends []Step
		for _, e := range events {
			sends = append(sends, SendSplit(e, n))
		}
		bubble(t, transport.Config{}, []Step{executing(), Seq(sends...), SendSplit("", n), CloseWrite(), ExpectClose()}, func(t *testing.T, p *pod) {
			if out, err := p.Command(t.Context(), "x").CombinedOutput(); err != nil || string(out) != "début ☕\nx" {
				t.Errorf("in pieces of %d: %q, %v", n, out, err)
			}
		})
	}
}

func TestOutput(t *testing.T) {
	failing := `{"type":"result","exitCode":1,"timedOut":false,"durationMs":1}`
	t.Run("a failure carries standard error and still gives the output", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{executing(), stdout("half"), stderr("why"), finish(failing)}, func(t *testing.T, p *pod) {
			out, err := p.Command(t.Context(), "x").Output()
			if exit := errorAs[*transport.ExitError](t, err); string(exit.Stderr) != "why" || string(out) != "half" {
				t.Errorf("got %q and %q", out, exit.Stderr)
			}
		})
	})
	t.Run("of a long standard error the middle is left out", func(t *testing.T) {
		a, b, c := strings.Repeat("a", 32<<10), strings.Repeat("b", 50_000), strings.Repeat("c", 32<<10)
		bubble(t, transport.Config{}, []Step{executing(), stderr(a + b[:10]), stderr(b[10:]), stderr(c), finish(failing)}, func(t *testing.T, p *pod) {
			_, err := p.Command(t.Context(), "x").Output()
			exit := errorAs[*transport.ExitError](t, err)
			if want := a + "\n... omitting 50000 bytes ...\n" + c; string(exit.Stderr) != want {
				t.Errorf("got %d bytes: %.40q", len(exit.Stderr), exit.Stderr[32<<10-10:])
			}
		})
	})
	t.Run("standard error that goes elsewhere is not carried", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{executing(), stderr("why"), finish(failing)}, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "x")
			var errs bytes.Buffer
			c.Stderr = &errs
			_, err := c.Output()
			if exit := errorAs[*transport.ExitError](t, err); exit.Stderr != nil || errs.String() != "why" {
				t.Errorf("got %q and %q", exit.Stderr, &errs)
			}
		})
	})
}

func TestMisuse(t *testing.T) {
	bubble(t, transport.Config{}, []Step{executing(), finish(exit0)}, func(t *testing.T, p *pod) {
		c := p.Command(t.Context(), "x")
		if err := c.Wait(); err == nil || c.Result() != nil {
			t.Errorf("Wait before Start = %v, Result = %v", err, c.Result())
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err == nil {
			t.Error("a second Start succeeded")
		}
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil {
			t.Error("a second Wait succeeded")
		}
		for name, run := range map[string]func() error{
			"Start of a Cmd that Command did not make": func() error { return (&transport.Cmd{Path: "x"}).Start() },
			"Output with Stdout": func() error {
				_, err := (&transport.Cmd{Stdout: io.Discard}).Output()
				return err
			},
			"CombinedOutput with Stderr": func() error {
				_, err := (&transport.Cmd{Stderr: io.Discard}).CombinedOutput()
				return err
			},
		} {
			if err := run(); err == nil {
				t.Errorf("%s succeeded", name)
			}
		}
		defer func() {
			if recover() == nil {
				t.Error("Command with a nil context did not panic")
			}
		}()
		p.Command(nil, "x") //lint:ignore SA1012 that is what is tested
	})
}

// TestRefusedBeforeTheWire has Cmds that cannot be sent as they are.
func TestRefusedBeforeTheWire(t *testing.T) {
	for name, change := range map[string]func(*transport.Cmd){
		"no program":                     func(c *transport.Cmd) { c.Path = "" },
		"a negative timeout":             func(c *transport.Cmd) { c.Timeout = -1 },
		"a negative limit":               func(c *transport.Cmd) { c.MaxOutput = -1 },
		"a program that is no text":      func(c *transport.Cmd) { c.Path = "a\xff" },
		"an argument that is no text":    func(c *transport.Cmd) { c.Args = []string{"x", "\xff"} },
		"a directory that is no text":    func(c *transport.Cmd) { c.Dir = "\xc3" },
		"a variable that is no text":     func(c *transport.Cmd) { c.Env = []string{"A=\xff"} },
		"a variable without a value":     func(c *transport.Cmd) { c.Env = []string{"A"} },
		"a variable without a name":      func(c *transport.Cmd) { c.Env = []string{"=A"} },
		"an input that cannot be read":   func(c *transport.Cmd) { c.Stdin = io.MultiReader(strings.NewReader("x"), failing{}) },
		"an input that fails at once":    func(c *transport.Cmd) { c.Stdin = failing{} },
		"arguments beyond one request":   func(c *transport.Cmd) { c.Args = []string{"x", strings.Repeat("a", 8<<20)} },
		"quoting takes it beyond a byte": func(c *transport.Cmd) { c.Args = []string{"x", strings.Repeat("\x00", 8<<20/6)} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
				c := p.Command(t.Context(), "x")
				change(c)
				err := c.Run()
				_, start := errors.AsType[*transport.StartError](err)
				_, large := errors.AsType[*transport.TooLargeError](err)
				if !start && !large || p.dials.Load() != 0 {
					t.Errorf("got %v after %d connections", err, p.dials.Load())
				}
				if strings.Contains(name, "input") && !errors.Is(err, errFailing) {
					t.Errorf("%v does not wrap the reader's error", err)
				}
			})
		})
	}
}

var errFailing = errors.New("failing")

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errFailing }
func (failing) Write([]byte) (int, error) { return 0, errFailing }

// TestNotStarted has guests that refuse the program or cannot start it.
func TestNotStarted(t *testing.T) {
	refusedReserve := func(reply string) []Step { return []Step{serve("reserve-execution", reply)} }
	streamError := func(text string) Step {
		return Seq(SendBytes(frames(`{"type":"error","error":`+JSON(text)+`}`, "")), CloseWrite())
	}
	started := func(err error) bool { _, ok := errors.AsType[*transport.StartError](err); return ok }
	for _, tt := range []struct {
		name  string
		steps []Step
		is    func(error) bool
		text  string
	}{
		{"the token is refused at once", refusedReserve(`{"ok":false,"error":"unauthorized"}`),
			func(err error) bool { _, ok := errors.AsType[*transport.UnauthorizedError](err); return ok }, "refused the token"},
		{"the guest has fenced itself", refusedReserve(`{"ok":false,"error":"agent_retiring"}`),
			func(err error) bool { _, ok := errors.AsType[*transport.RetiringError](err); return ok }, "replace the sandbox"},
		{"the guest has no room", refusedReserve(`{"ok":false,"error":"execution_capacity"}`), started, "x was not started: execution_capacity"},
		{"the guest speaks another version", refusedReserve(strings.Replace(reserved, `:2`, `:3`, 1)), started, "protocol version 3"},
		{"the token is refused for the program", []Step{executing(), answer(`{"ok":false,"error":"unauthorized"}`)},
			func(err error) bool { _, ok := errors.AsType[*transport.UnauthorizedError](err); return ok }, "refused the token"},
		{"the guest fenced itself in between", []Step{executing(), answer(`{"ok":false,"error":"agent_retiring"}`)},
			func(err error) bool { _, ok := errors.AsType[*transport.RetiringError](err); return ok }, "fenced itself"},
		{"the request is too large for the guest", []Step{executing(), answer(`{"ok":false,"error":"frame_too_large: announced 1 bytes, limit 0 (X)"}`)}, started, "frame_too_large: announced"},
		{"the directory leads out", []Step{executing(), streamError("invalid_cwd: path escapes the workspace"), ExpectClose()}, started, "path escapes the workspace"},
		{"the lease ran out", []Step{executing(), streamError("unknown_execution"), ExpectClose()}, started, "unknown_execution"},
		{"there is no such program", []Step{executing(), streamError("spawn nope ENOENT"), cancel(failedStart), On("exec"), ExpectClose()},
			func(err error) bool { return started(err) && errors.Is(err, fs.ErrNotExist) }, "spawn nope ENOENT"},
		{"the guest says no more than that it did not start", []Step{executing(), streamError("something went wrong"), cancel(neverStarted)}, started, "something went wrong"},
		{"the connection broke and nothing was started", []Step{executing(), Close(), cancel(neverStarted)},
			func(err error) bool { return started(err) && errors.Is(err, io.ErrUnexpectedEOF) }, "the connection was closed before the result"},
		{"the connection broke and it did not start", []Step{executing(), Close(), cancel(failedStart)}, started, "spawn nope ENOENT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				c := p.Command(t.Context(), "x")
				err := c.Run()
				if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %T %v, want %q in it", err, err, tt.text)
				}
				if !transport.SafeToRetry(err) {
					t.Errorf("SafeToRetry(%v) = false", err)
				}
				if c.Result() != nil {
					t.Errorf("Result = %+v", c.Result())
				}
			})
		})
	}
}

func TestContextThatHasEnded(t *testing.T) {
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		cause := errors.New("the cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		ops := map[string]func() error{
			"Run":       func() error { return p.Command(ctx, "x").Run() },
			"Health":    func() error { _, err := p.Health(ctx); return err },
			"Features":  func() error { _, err := p.Features(ctx); return err },
			"ReadFile":  func() error { _, err := p.ReadFile(ctx, "a"); return err },
			"ReadRange": func() error { _, _, err := p.ReadRange(ctx, "a", 0, 1); return err },
			"WriteFile": func() error { _, err := p.WriteFile(ctx, "a", failing{}); return err },
		}
		for name, op := range ops {
			if err := op(); err != cause {
				t.Errorf("%s = %v, want the cause itself", name, err)
			}
		}
		p.Close()
		for name, op := range ops {
			if err := op(); err != cause {
				t.Errorf("%s after Close = %v, want the caller's cause", name, err)
			}
		}
		if err := p.Command(t.Context(), "x").Run(); err != transport.ErrClosed {
			t.Errorf("Run after Close = %v", err)
		}
		if n := p.dials.Load(); n != 0 {
			t.Errorf("%d connections were made", n)
		}
	})
}

func TestCommandFillsTheFields(t *testing.T) {
	a, err := transport.New(transport.Config{Host: "h", Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	if c := a.Command(t.Context(), "x", "y"); c.Path != "x" || !reflect.DeepEqual(c.Args, []string{"x", "y"}) {
		t.Errorf("got %+v", c)
	}
}
