package transport_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// A question is an operation up to its request, and what is to be answered.
type question struct {
	name   string
	steps  []Step
	answer []string // payloads; the empty one is the terminator
	then   []Step   // what follows on the whole answer
	ask    func(ctx context.Context, p *pod) (got string, err error)
	want   string // what is got of the whole answer
	enough int    // payloads that make it whole; zero is all

	pieces bool // what came before an error is handed out
	last   bool // nobody looks at what comes after it
	strict bool // no event can be left out or come twice
	unsafe bool // what fails may have had an effect

	about string // what a failure names beside the operation
}

// whole is how many payloads it takes.
func (q question) whole() int { return cmp.Or(q.enough, len(q.answer)) }

func part1() []string {
	return []string{`{"ok":true,"guestBootId":"boot-1","bytesWritten":90,"sizeBytes":90}`}
}

// questions are all operations of the protocol.
func questions() []question {
	known := serve("healthz", features)
	request := func(op string, checks ...Check) Step { return Seq(Accept(), Expect(op, checks...)) }
	controlled := func(do func(ctx context.Context, p *pod) error) func(context.Context, *pod) (string, error) {
		return func(ctx context.Context, p *pod) (string, error) { return "", do(ctx, p) }
	}
	write := func(size int) func(context.Context, *pod) (string, error) {
		return controlled(func(ctx context.Context, p *pod) error {
			smallParts(p)
			n, err := p.WriteFile(ctx, "d/f", strings.NewReader(strings.Repeat("x", size)))
			if err == nil && n != int64(size) {
				err = fmt.Errorf("%d bytes", n)
			}
			return err
		})
	}
	combined := func(ctx context.Context, p *pod) (string, error) {
		out, err := p.Command(ctx, "x").CombinedOutput()
		return string(out), err
	}
	readAll := func(r io.ReadCloser, err error) (string, error) {
		if err != nil {
			return "", err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		return string(b), err
	}
	info := `{"ok":true,` + sessionInfo + `,"state":"running","attached":false`
	sessionStream := []string{
		`{"type":"ready","guestBootId":"boot-1","sessionId":"web","kind":"terminal","state":"running","fromOffset":0,"droppedBytes":0,"nextOffset":5}`,
		sessionData("one", 0), sessionData("é", 3),
	}
	end := sessionExit(0, 5)
	return []question{
		{name: "healthz", steps: []Step{request("healthz")}, answer: []string{features},
			ask: controlled(func(ctx context.Context, p *pod) error { _, err := p.Health(ctx); return err })},
		{name: "reserve-execution", steps: []Step{request("reserve-execution")}, answer: []string{reserved}, then: []Step{Accept(), Expect("execute"), finish(exit0)}, ask: combined},
		{name: "execute", steps: []Step{executing()}, answer: []string{`{"type":"stdout_delta","data":"one"}`, `{"type":"stderr_delta","data":"é"}`, exit0, ""},
			ask: combined, want: "oneé", pieces: true, unsafe: true},
		{name: "cancel-execution", steps: []Step{request("cancel-execution")}, answer: []string{cancelled}, unsafe: true,
			ask: controlled(func(ctx context.Context, p *pod) error { _, err := p.CancelExecution(ctx, id); return err })},
		{name: "attach-execution", last: true, steps: []Step{known, attach(0)}, enough: 4, pieces: true, strict: true, unsafe: true, want: "oneé",
			answer: []string{`{"type":"attached","executionId":"` + id + `","state":"running","fromOffset":0,"droppedBytes":0}`, kept("stdout", "one", 0), kept("stderr", "é", 3),
				`{"type":"attach_result","executionId":"` + id + `","outcome":"completed","started":true,` + result0 + `,"nextOffset":5}`, ""},
			ask: func(ctx context.Context, p *pod) (string, error) {
				a := p.Attach(ctx, id, 0)
				var out bytes.Buffer
				a.Stdout, a.Stderr = &out, &out
				err := a.Run()
				return out.String(), err
			}},
		{name: "write-file", about: "d/f", steps: []Step{request("write-file")}, answer: []string{`{"ok":true,"guestBootId":"boot-1","bytesWritten":9}`}, ask: write(9), unsafe: true},
		{name: "write-file of the first part", about: "d/f", steps: []Step{known, request("write-file", Field("part.final", false))}, answer: part1(),
			then: []Step{serve("write-file", `{"ok":true,"bytesWritten":1,"sizeBytes":91}`)}, ask: write(writing + 1), unsafe: true},
		{name: "write-file of the last part", about: "d/f", steps: []Step{known, serve("write-file", part1()[0]), request("write-file", Field("part.final", true))},
			answer: []string{`{"ok":true,"bytesWritten":1,"sizeBytes":91}`}, ask: write(writing + 1), unsafe: true},
		{name: "read-file", about: "f", steps: []Step{serve("healthz", plainFeatures), request("read-file")}, answer: []string{`{"ok":true,"content":"` + b64("oneé") + `","sizeBytes":5,"encoding":"base64"}`},
			ask: func(ctx context.Context, p *pod) (string, error) {
				b, err := p.ReadFile(ctx, "f")
				return string(b), err
			}, want: "oneé"},
		{name: "read-file of a range", about: "f", steps: []Step{known, request("read-file")}, answer: []string{`{"ok":true,"content":"` + b64("ne") + `","sizeBytes":5,"encoding":"base64","offset":1,"bytesRead":2}`},
			ask: func(ctx context.Context, p *pod) (string, error) {
				b, _, err := p.ReadRange(ctx, "f", 1, 2)
				return string(b), err
			}, want: "ne"},
		{name: "read-file-stream", about: "f", last: true, steps: []Step{known, request("read-file-stream")}, strict: true,
			answer: []string{`{"type":"meta","sizeBytes":5,"offset":0,"length":5}`, fileData("one"), fileData("é"), `{"type":"end","bytesSent":5}`},
			ask: func(ctx context.Context, p *pod) (string, error) {
				b, err := p.ReadFile(ctx, "f")
				return string(b), err
			}, want: "oneé"},
		{name: "terminal", last: true, steps: []Step{opening()}, answer: []string{ready, `{"type":"data","data":"one"}`, `{"type":"data","data":"é"}`, termExit0}, pieces: true, unsafe: true,
			ask: func(ctx context.Context, p *pod) (string, error) {
				return readAll(p.OpenTerminal(ctx, transport.TerminalConfig{}))
			}, want: "oneé"},
		{name: "terminal whose output comes before it is ready", last: true, steps: []Step{opening()}, answer: []string{`{"type":"data","data":"one"}`, ready, `{"type":"data","data":"é"}`, termExit0}, pieces: true, unsafe: true,
			ask: func(ctx context.Context, p *pod) (string, error) {
				return readAll(p.OpenTerminal(ctx, transport.TerminalConfig{}))
			}, want: "oneé"},
		{name: "terminal that persists", last: true, steps: []Step{persistent()}, answer: append(sessionStream[:3:3], end), pieces: true, strict: true, unsafe: true,
			ask: func(ctx context.Context, p *pod) (string, error) {
				return readAll(p.StartSession(ctx, "web", transport.TerminalConfig{}))
			}, want: "oneé"},
		{name: "attach-session", last: true, steps: []Step{attaching(0)}, answer: append(sessionStream[:3:3], end), pieces: true, strict: true, unsafe: true,
			ask: func(ctx context.Context, p *pod) (string, error) {
				return readAll(p.AttachSession(ctx, "web", 0, 132, 50))
			}, want: "oneé"},
		{name: "attach-session to look", about: "web", steps: []Step{known, looking(0)}, answer: append(sessionStream[:3:3], ""),
			ask: func(ctx context.Context, p *pod) (string, error) {
				out, err := p.ReadSession(ctx, "web", 0)
				text := ""
				for _, piece := range out.Pieces {
					text += piece.Text
				}
				return text, err
			}, want: "oneé"},
		{name: "start-detached", about: "web", steps: []Step{known, request("start-detached")}, answer: []string{info + `,"pid":77}`}, unsafe: true,
			ask: controlled(func(ctx context.Context, p *pod) error {
				_, _, err := p.StartDetached(ctx, "web", transport.Detached{Path: "sh"})
				return err
			})},
		{name: "list-sessions", steps: []Step{known, request("list-sessions")}, answer: []string{`{"ok":true,"sessions":[{` + sessionInfo + `,"state":"running","attached":false}]}`},
			ask: func(ctx context.Context, p *pod) (string, error) {
				list, err := p.Sessions(ctx)
				return strings.Repeat("web", len(list)), err
			}, want: "web"},
		{name: "kill-session", about: "web", steps: []Step{known, request("kill-session")}, answer: []string{info + `,"signalled":1}`}, unsafe: true,
			ask: controlled(func(ctx context.Context, p *pod) error { _, err := p.KillSession(ctx, "web", ""); return err })},
		{name: "tcp-connect", last: true, steps: []Step{connecting(80)}, answer: []string{ready, tunnel("one"), tunnel("é"), `{"type":"end"}`}, pieces: true, unsafe: true,
			ask: func(ctx context.Context, p *pod) (string, error) {
				c, err := p.DialGuest(ctx, 80)
				if err != nil {
					return "", err
				}
				return readAll(c, nil)
			}, want: "oneé"},
		{name: "quiesce", steps: []Step{known, request("quiesce")}, answer: []string{`{"ok":true,"scope":"pid-namespace","graceMs":1000,"rounds":1,"stopped":[{"pid":9,"command":"sleep","signal":"SIGKILL"}]}`}, unsafe: true,
			ask: controlled(func(ctx context.Context, p *pod) error { _, err := p.Quiesce(ctx, 0); return err })},
		{name: "flush", steps: []Step{known, request("flush")}, answer: []string{`{"ok":true,"durationMs":12,"workspace":"/w"}`}, unsafe: true,
			ask: controlled(func(ctx context.Context, p *pod) error { _, err := p.Flush(ctx, 0); return err })},
	}
}

// typed reports whether err is one of the package's, or the caller's own.
func typed(err error) bool {
	return err == errCause || errors.Is(err, transport.ErrClosed) || as[*transport.LostError](err) || as[*transport.ProtocolError](err) ||
		as[*transport.StartError](err) || as[*transport.CancelError](err) || as[*transport.TooLargeError](err) ||
		as[*transport.ExecutionDetachedError](err) || as[*transport.SessionDetachedError](err) || as[*transport.RefusedError](err) || as[*transport.NotAttachableError](err) ||
		as[*transport.FileError](err) || as[*transport.SessionError](err) || as[*transport.PortError](err)
}

func as[T error](err error) bool { _, ok := errors.AsType[T](err); return ok }

// never asks, of a guest that is gone after it has done what the step says, and
// fails unless the answer is refused as it should be: by an error of the
// package, with nothing handed out that is not a part of the whole, nothing
// taken for harmless that is not, and the place told from which to go on.
func (q question) never(t *testing.T, what string, step Step) {
	t.Helper()
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		gone := Do("be gone for others", func() error { p.net.Silence(podIP); return nil })
		p.play(t, podIP, Seq(q.steps...), gone, Patience(24*time.Hour), step)
		closing := time.AfterFunc(2*time.Hour, func() { p.Close() }) // what a context does not bound
		defer closing.Stop()
		got, err := q.ask(endAfter(t, time.Hour), p)
		if err == nil || !typed(err) {
			t.Errorf("%s, %s: %q, %T %v", q.name, what, got, err, err)
		}
		if !q.pieces && got != "" || !strings.HasPrefix(q.want, got) {
			t.Errorf("%s, %s: got %q, %v", q.name, what, got, err)
		}
		if q.unsafe && transport.SafeToRetry(err) {
			t.Errorf("%s, %s: %v is taken for harmless", q.name, what, err)
		}
		if text := err.Error(); (as[*transport.LostError](err) || as[*transport.ProtocolError](err)) && q.about != "" && strings.Count(text, " "+q.about+":") != 1 {
			t.Errorf("%s, %s: %s does not name %s", q.name, what, text, q.about)
		}
		if e, ok := errors.AsType[*transport.ExecutionDetachedError](err); ok && e.Offset != int64(len(got)) {
			t.Errorf("%s, %s: got %q and then %v", q.name, what, got, err)
		}
		if e, ok := errors.AsType[*transport.SessionDetachedError](err); ok && e.Offset != int64(len(got)) {
			t.Errorf("%s, %s: got %q and then %v", q.name, what, got, err)
		}
	})
}

// TestAnswersCutAtEveryByte has the guest end each answer after each of its
// bytes by a close, and in one of the other ways in which that can be.
func TestAnswersCutAtEveryByte(t *testing.T) {
	others := []struct {
		how string
		cut Step
	}{{"half-closed", Seq(CloseWrite(), ExpectClose())}, {"reset", Seq(Delay(time.Millisecond), Reset())}, {"silent", Hang()}}
	for _, q := range questions() {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			stream := frames(q.answer...)
			for n := range len(frames(q.answer[:q.whole()]...)) {
				other := others[n%len(others)]
				q.never(t, fmt.Sprintf("closed after %d bytes", n), Seq(SendBytes(stream[:n]), Close()))
				q.never(t, fmt.Sprintf("%s after %d bytes", other.how, n), Seq(SendBytes(stream[:n]), other.cut))
			}
		})
	}
}

// TestAnswersSplitAtEveryByte has each answer come in two pieces.
func TestAnswersSplitAtEveryByte(t *testing.T) {
	for _, q := range questions() {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			stream := frames(q.answer...)
			for n := range stream {
				steps := []Step{Seq(q.steps...), SendBytes(stream[:n]), Delay(time.Millisecond), SendBytes(stream[n:]), CloseWrite(), ExpectClose(), Seq(q.then...)}
				bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
					if got, err := q.ask(t.Context(), p); got != q.want || err != nil {
						t.Errorf("after %d bytes: %q, %v, want %q", n, got, err, q.want)
					}
				})
			}
		})
	}
}
