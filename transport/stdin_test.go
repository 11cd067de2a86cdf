package transport_test

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const safeFeatures = `{"ok":true,"protocolVersion":2,"features":["write-file-parts","safe-stdin"]}`

// staging takes the parts of a program's input and notes the name of the file
// that they go into.
func staging(name *string, parts ...string) Step {
	var steps []Step
	at := 0
	for _, p := range parts {
		checks := []Check{Field("part", map[string]any{"offset": at, "final": false}), Field("content", b64(p)), func(r Request) error {
			got, _ := r.Body["path"].(string)
			if !regexp.MustCompile(`\A\.namzu-write-stdin-[0-9a-f-]{36}\.part\z`).MatchString(got) || *name != "" && got != *name {
				return Differs("a name for the input", got)
			}
			*name = got
			return nil
		}}
		at += len(p)
		steps = append(steps, serve("write-file", fmt.Sprintf(`{"ok":true,"bytesWritten":%d,"sizeBytes":%d}`, len(p), at), checks...))
	}
	return Seq(steps...)
}

// discarding takes the request to discard the file.
func discarding(name *string) Step {
	return serve("write-file", `{"ok":true,"discarded":true}`, Field("part.discard", true), func(r Request) error {
		if r.Body["path"] != *name {
			return Differs(*name, r.Body["path"])
		}
		return nil
	})
}

// fed checks that the program is started with the file as its input.
func fed(name *string, dir any, levels int, args ...string) Check {
	return func(r Request) error {
		if err := Field("command", "/bin/sh")(r); err != nil {
			return err
		}
		if err := Field("cwd", dir)(r); err != nil {
			return err
		}
		if err := Field("stdin", nil)(r); err != nil {
			return err
		}
		list, _ := r.Body["args"].([]any)
		if len(list) < 4 || list[0] != "-c" || list[2] != "sh" || fmt.Sprint(list[3:]) != fmt.Sprint(args) {
			return Differs(args, list)
		}
		script, _ := list[1].(string)
		for i := range levels + 2 {
			if got, want := strings.Contains(script, " ./"+strings.Repeat("../", i)+*name+" "), i <= levels; got != want {
				return Differs(fmt.Sprintf("a look %d levels up: %v", i, want), script)
			}
		}
		return nil
	}
}

func TestStdinGoesIntoAFile(t *testing.T) {
	for _, tt := range []struct {
		name     string
		features string
		dir      string
		levels   int
		input    string
		parts    []string
	}{
		{"for a guest that dies of input that is not read", features, "", 0, "some input", []string{"some input"}},
		{"in several parts", features, "", 0, strings.Repeat("x", 2*writing+1), []string{strings.Repeat("x", writing), strings.Repeat("x", writing), "x"}},
		{"looked for above the directory", features, "a/../b//c/.", 2, "x", []string{"x"}},
		{"looked for above an absolute directory", features, "/workspace/b", 2, "x", []string{"x"}},
		{"since it is no text", safeFeatures, "", 0, "a\xff", []string{"a\xff"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var name string
			var dir any
			if tt.dir != "" {
				dir = tt.dir
			}
			steps := []Step{serve("healthz", tt.features), staging(&name, tt.parts...), executing(fed(&name, dir, tt.levels, "tool", "a b")), stdout("ok"), finish(exit0)}
			bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
				smallParts(p)
				c := p.Command(t.Context(), "tool", "a b")
				c.Dir, c.Stdin = tt.dir, strings.NewReader(tt.input)
				if out, err := c.Output(); err != nil || string(out) != "ok" {
					t.Errorf("got %q, %v", out, err)
				}
			})
		})
	}
	t.Run("for a guest that knows no parts", func(t *testing.T) {
		steps := []Step{serve("healthz", plainFeatures), serve("write-file", `{"ok":true,"bytesWritten":1}`, Field("part", nil), Field("content", "eA==")), executing(Field("command", "/bin/sh")), finish(exit0)}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "tool")
			c.Stdin = strings.NewReader("x")
			if err := c.Run(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("since it is large", func(t *testing.T) {
		var name string
		large := strings.Repeat("x", 1<<20+1)
		const part = 3 << 18
		steps := []Step{serve("healthz", safeFeatures), staging(&name, large[:part], large[part:]), executing(fed(&name, nil, 0, "tool")), finish(exit0)}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "tool")
			c.Stdin = strings.NewReader(large)
			if err := c.Run(); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestStdinGoesOnTheWire to a guest that promises to take it safely.
func TestStdinGoesOnTheWire(t *testing.T) {
	for _, input := range []string{"x", "début\x00\u2028<&>", strings.Repeat("x", 1<<20)} {
		steps := []Step{serve("healthz", safeFeatures), executing(Field("command", "tool"), Field("stdin", input)), finish(exit0)}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "tool")
			c.Stdin = io.MultiReader(strings.NewReader(input))
			if err := c.Run(); err != nil {
				t.Errorf("%.20q: %v", input, err)
			}
		})
	}
}

func TestEmptyStdinIsNone(t *testing.T) {
	bubble(t, transport.Config{}, []Step{executing(Field("command", "tool"), Field("stdin", nil)), finish(exit0)}, func(t *testing.T, p *pod) {
		c := p.Command(t.Context(), "tool")
		c.Stdin = strings.NewReader("")
		if err := c.Run(); err != nil {
			t.Error(err)
		}
	})
}

// TestStdinFileIsDiscarded when the program did not take it.
func TestStdinFileIsDiscarded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []Step
		is    func(error) bool
	}{
		{"the reservation is refused", []Step{serve("reserve-execution", `{"ok":false,"error":"execution_capacity"}`)},
			func(err error) bool { _, ok := errors.AsType[*transport.StartError](err); return ok }},
		{"there is no shell", []Step{executing(), Send(`{"type":"error","error":"spawn /bin/sh ENOENT"}`), cancel(failedStart)},
			func(err error) bool { _, ok := errors.AsType[*transport.StartError](err); return ok }},
		{"it is not known what ran", []Step{executing(), Close(), cancel(`{"ok":false,"error":"unknown_execution"}`)},
			func(err error) bool { _, ok := errors.AsType[*transport.CancelError](err); return ok }},
		{"the shell did not find it", []Step{executing(), finish(`{"type":"result","exitCode":125,"timedOut":false,"durationMs":1}`)},
			func(err error) bool { _, ok := errors.AsType[*transport.ExitError](err); return ok }},
		{"the shell may have been killed before", []Step{executing(), finish(sigterm)},
			func(err error) bool { _, ok := errors.AsType[*transport.ExitError](err); return ok }},
		{"the program was ended", []Step{executing(), cancel(cancelled), On("exec"), finish(sigterm)},
			func(err error) bool { _, ok := errors.AsType[*transport.StoppedError](err); return ok }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var name string
			steps := []Step{serve("healthz", features), staging(&name, "x"), Seq(tt.steps...), discarding(&name)}
			bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
				c := p.Command(endAfter(t, time.Minute), "tool")
				c.Stdin = strings.NewReader("x")
				if err := c.Run(); err == nil || !tt.is(err) {
					t.Errorf("got %T %v", err, err)
				}
			})
		})
	}
	t.Run("not after a program that ran, whatever its status", func(t *testing.T) {
		var name string
		steps := []Step{serve("healthz", features), staging(&name, "x"), executing(), finish(`{"type":"result","exitCode":127,"timedOut":false,"durationMs":1}`)}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "tool")
			c.Stdin = strings.NewReader("x")
			errorAs[*transport.ExitError](t, c.Run())
		})
	})
}

func TestStdinThatCannotBeStaged(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []Step
		limit int64
		input string
		is    func(error) bool
	}{
		{"the guest has no room", []Step{serve("healthz", features), serve("write-file", `{"ok":false,"error":"ENOSPC: no space left on device"}`), serve("write-file", `{"ok":true,"discarded":true}`)}, 0, "x",
			func(err error) bool {
				_, start := errors.AsType[*transport.StartError](err)
				file, ok := errors.AsType[*transport.FileError](err)
				return start && ok && file.Code == "ENOSPC" && strings.Contains(err.Error(), "the Stdin of tool")
			}},
		{"it is larger than is accepted", []Step{serve("healthz", features)}, 10, "0123456789a",
			func(err error) bool { _, ok := errors.AsType[*transport.TooLargeError](err); return ok }},
		{"the guest cannot be asked", []Step{Accept(), Expect("healthz"), Close()}, 0, "x",
			func(err error) bool { _, ok := errors.AsType[*transport.StartError](err); return ok }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{MaxFileBytes: tt.limit}, tt.steps, func(t *testing.T, p *pod) {
				c := p.Command(t.Context(), "tool")
				c.Stdin = strings.NewReader(tt.input)
				if err := c.Run(); err == nil || !tt.is(err) || !transport.SafeToRetry(err) {
					t.Errorf("got %T %v", err, err)
				}
			})
		})
	}
}
