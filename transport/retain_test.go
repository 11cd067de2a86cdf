package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const (
	named = `{"ok":true,"guestBootId":"boot-1","protocolVersion":2,"executionId":"` + id + `","leaseExpiresAt":1790000030000,"state":"reserved"}`
	ended = `{"ok":true,"guestBootId":"boot-1","protocolVersion":2,"executionId":"` + id + `","leaseExpiresAt":1790000030000,"state":"terminal","retainedOutput":true,"outputOffset":6}`

	result0 = `"result":{"exitCode":0,"timedOut":false,"durationMs":18,"stdoutTruncated":false,"stderrTruncated":false}`
	resultT = `"result":{"exitCode":-1,"timedOut":false,"durationMs":9,"signal":"SIGTERM","stdoutTruncated":false,"stderrTruncated":false}`
)

// keeping takes a program whose output is kept, and leaves its stream open.
func keeping(checks ...Check) Step {
	return Seq(serve("healthz", features), serve("reserve-execution", named, Body(`{"executionId":"`+id+`"}`)),
		AcceptAs("exec"), Expect("execute", append(checks, Token(token), Field("executionId", id), Field("retainOutput", true))...))
}

// attach takes a connection that follows the execution.
func attach(from int) Step {
	return Seq(Accept(), Expect("attach-execution", Token(token), Body(`{"executionId":"`+id+`","fromOffset":`+JSON(from)+`}`)))
}

func attached(from, dropped int) Step {
	return Send(`{"type":"attached","executionId":"` + id + `","state":"running","fromOffset":` + JSON(from) + `,"droppedBytes":` + JSON(dropped) + `}`)
}

// kept is output in place, of as many bytes as its text.
func kept(kind, text string, at int) string {
	return `{"type":"` + kind + `_delta","data":` + JSON(text) + `,"offset":` + JSON(at) + `,"nextOffset":` + JSON(at+len(text)) + `}`
}

func keptOut(text string, at int) Step { return Send(kept("stdout", text, at)) }

// attachEnd ends an attachment.
func attachEnd(outcome, rest string, at int) Step {
	return Seq(Send(`{"type":"attach_result","executionId":"`+id+`","outcome":"`+outcome+`","started":true,`+rest+`,"nextOffset":`+JSON(at)+`}`), Terminator(), CloseWrite(), ExpectClose())
}

// retained is a Cmd whose output is kept under the id.
func (p *pod) retained(ctx context.Context) (*transport.Cmd, *bytes.Buffer, *[]transport.Gap) {
	c := p.Command(ctx, "x")
	c.ID = id
	c.Retain()
	var out bytes.Buffer
	var gaps []transport.Gap
	c.Stdout, c.Stderr = &out, &out
	c.OnGap = func(g transport.Gap) { gaps = append(gaps, g) }
	return c, &out, &gaps
}

func TestRetained(t *testing.T) {
	cut := Close()
	refuse := func(text string) Step { return answer(`{"type":"error",` + text + `}`) }
	for _, tt := range []struct {
		name  string
		steps []Step
		out   string
		gaps  []transport.Gap
		err   string // in the text; empty: none
		took  time.Duration
	}{
		{"it ends over its first connection", []Step{keeping(), keptOut("one", 0), Send(kept("stderr", "two", 3)), finish(exit0)}, "onetwo", nil, "", 0},
		{"it fails over its first connection", []Step{keeping(), finish(sigterm)}, "", nil, "killed by SIGTERM", 0},
		{"its first connection is lost before anything came", []Step{keeping(), cut, attach(0), attached(0, 0), keptOut("one", 0), attachEnd("completed", result0, 3)},
			"one", nil, "", 250 * time.Millisecond},
		{"its first connection is lost within", []Step{keeping(), keptOut("one", 0), cut, attach(3), attached(3, 0), keptOut("two", 3), attachEnd("completed", result0, 6)},
			"onetwo", nil, "", 250 * time.Millisecond},
		{"its first connection is lost after the result", []Step{keeping(), keptOut("one", 0), Send(exit0), cut, attach(3), attached(3, 0), attachEnd("completed", result0, 3)},
			"one", nil, "", 250 * time.Millisecond},
		{"it is not closed after the result", []Step{keeping(), keptOut("one", 0), Send(exit0), Terminator(), Delay(time.Second), ExpectClose()},
			"one", nil, "was not closed within 1s", time.Second},
		{"connections are lost again and again", []Step{keeping(), keptOut("a", 0), cut, attach(1), cut, attach(1), attached(1, 0), cut, attach(1), attached(1, 0), keptOut("b", 1), cut,
			attach(2), attached(2, 0), keptOut("c", 2), attachEnd("completed", result0, 3)}, "abc", nil, "", time.Second},
		{"output is gone when it attaches again", []Step{keeping(), keptOut("one", 0), cut, attach(3), attached(5, 2), keptOut("six", 5), attachEnd("completed", result0, 8)},
			"onesix", []transport.Gap{{From: 3, Dropped: 2}}, "", 250 * time.Millisecond},
		{"text is longer than the bytes it stands for", []Step{keeping(), Send(`{"type":"stdout_delta","data":"A\ufffd","offset":0,"nextOffset":2}`), cut, attach(2), attached(2, 0), attachEnd("completed", result0, 2)},
			"A\ufffd", nil, "", 250 * time.Millisecond},
		{"the guest is busy ending everything for a moment", []Step{keeping(), cut, attach(0), refuse(`"error":"quiesce_in_progress"`), attach(0), attached(0, 0), attachEnd("cancelled", resultT, 0)},
			"", nil, "killed by SIGTERM", 500 * time.Millisecond},
		{"somebody cancelled it", []Step{keeping(), cut, attach(0), attached(0, 0), attachEnd("cancelled", resultT, 0)}, "", nil, "killed by SIGTERM", 250 * time.Millisecond},
		{"it was started before", []Step{serve("healthz", features), serve("reserve-execution", ended), attach(0), attached(0, 0), keptOut("before", 0), attachEnd("completed", result0, 6)}, "before", nil, "", 0},
		{"another host was faster", []Step{keeping(), refuse(`"error":"execution_not_reserved: running"`), attach(0), attached(0, 0), keptOut("fast", 0), attachEnd("completed", result0, 4)}, "fast", nil, "", 250 * time.Millisecond},
		{"it could not be started", []Step{keeping(), refuse(`"error":"spawn x ENOENT"`), attach(0), attached(0, 0), attachEnd("failed", `"error":"spawn x ENOENT"`, 0)},
			"", nil, "x was not started: spawn x ENOENT", 250 * time.Millisecond},
		{"the guest has no room for its output", []Step{keeping(), refuse(`"error":"retained_output_capacity: limit 32 (NAMZU_AGENT_MAX_RETAINED_OUTPUT_LOGS)"`)}, "", nil, "x was not started: retained_output_capacity: limit 32", 0},
		{"the guest never got to it", []Step{keeping(), cut, attach(0), refuse(`"error":"output_not_retained","state":"reserved"`)}, "", nil, "x was not started", 250 * time.Millisecond},
		{"the guest forgot it", []Step{keeping(), keptOut("one", 0), cut, attach(3), refuse(`"error":"unknown_execution"`)},
			"one", nil, "not followed any more, it may still run (attach again from offset 3)", 250 * time.Millisecond},
		{"the guest has fenced itself", []Step{keeping(), cut, attach(0), refuse(`"error":"agent_retiring"`)}, "", nil, "fenced itself", 250 * time.Millisecond},
		{"the token is refused at once", []Step{keeping(), answer(`{"ok":false,"error":"unauthorized"}`)}, "", nil, "transport: execute: the guest at tcp:10.0.0.7:1024 refused the token", 0},
		{"the token is refused later", []Step{keeping(), cut, attach(0), answer(`{"ok":false,"error":"unauthorized"}`)}, "", nil, "not followed any more", 250 * time.Millisecond},
		{"output without its place", []Step{keeping(), stdout("x"), ExpectClose()}, "", nil, "no offset", 0},
		{"output from a place further on", []Step{keeping(), keptOut("x", 1), ExpectClose()}, "", nil, "output from 1 came where that from 0 was due", 0},
		{"output twice", []Step{keeping(), keptOut("x", 0), keptOut("x", 0), ExpectClose()}, "x", nil, "output from 0 came where that from 1 was due", 0},
		{"more text than its bytes can be", []Step{keeping(), Send(`{"type":"stdout_delta","data":"abcd","offset":0,"nextOffset":1}`), ExpectClose()}, "", nil, "4 bytes of text are said to be 1", 0},
		{"an attachment that goes back", []Step{keeping(), keptOut("one", 0), cut, attach(3), attached(0, 0), ExpectClose()}, "one", nil, "goes on at 0", 250 * time.Millisecond},
		{"an attachment whose loss does not add up", []Step{keeping(), cut, attach(0), attached(5, 4), ExpectClose()}, "", nil, "goes on at 5 with 4 bytes dropped", 250 * time.Millisecond},
		{"an end that is elsewhere", []Step{keeping(), cut, attach(0), attached(0, 0), Send(`{"type":"attach_result","executionId":"` + id + `","outcome":"completed","started":true,` + result0 + `,"nextOffset":7}`), ExpectClose()},
			"", nil, "the output ends at 7 and came up to 0", 250 * time.Millisecond},
		{"an event behind the end", []Step{keeping(), cut, attach(0), attached(0, 0), Send(`{"type":"attach_result","executionId":"` + id + `","outcome":"completed","started":true,` + result0 + `,"nextOffset":0}`), keptOut("x", 0), ExpectClose()},
			"", nil, "came after the end", 250 * time.Millisecond},
		{"an event of another stream", []Step{keeping(), Send(`{"type":"attached","executionId":"` + id + `","state":"running","fromOffset":0,"droppedBytes":0}`), ExpectClose()}, "", nil, "does not belong to an execution", 0},
		{"an attachment that does not say so", []Step{keeping(), cut, attach(0), keptOut("x", 0), ExpectClose()}, "", nil, "did not come first", 250 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				c, out, gaps := p.retained(t.Context())
				err := c.Run()
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("got %v, want %q in it", err, tt.err)
				}
				if out.String() != tt.out || len(*gaps) != len(tt.gaps) || len(tt.gaps) > 0 && (*gaps)[0] != tt.gaps[0] {
					t.Errorf("output %q with gaps %v, want %q with %v", out, *gaps, tt.out, tt.gaps)
				}
				if r := c.Result(); r != nil && r.StdoutTruncated != (len(tt.gaps) > 0) {
					t.Errorf("Result = %+v with gaps %v", r, *gaps)
				}
				if detached, ok := errors.AsType[*transport.ExecutionDetachedError](err); ok && (detached.ID != id || detached.Offset > int64(len(tt.out)) || transport.SafeToRetry(err)) {
					t.Errorf("got %+v", detached)
				}
				if tt.took > 0 {
					p.took(t, tt.took)
				}
			})
		})
	}
}

// TestRetainedCutAtEveryByte cuts the first stream and an attachment after each
// of their bytes: the output is whole each time.
func TestRetainedCutAtEveryByte(t *testing.T) {
	exec := frames(kept("stdout", "one", 0), kept("stderr", "é", 3), exit0, "")
	whole := []string{kept("stdout", "one", 0), kept("stderr", "é", 3)}
	at := func(n int) int { // where the output of the first n bytes ends
		switch {
		case n < len(frames(whole[0])):
			return 0
		case n < len(frames(whole...)):
			return 3
		}
		return 5
	}
	rest := func(from int) Step {
		var sends []Step
		for i, start := range []int{0, 3} {
			if start >= from {
				sends = append(sends, Send(whole[i]))
			}
		}
		return Seq(attach(from), attached(from, 0), Seq(sends...), attachEnd("completed", result0, 5))
	}
	for n := range len(exec) {
		for name, cut := range map[string]Step{"closed": Close(), "reset": Seq(Delay(time.Millisecond), Reset())} {
			bubble(t, transport.Config{}, []Step{keeping(), SendBytes(exec[:n]), cut, rest(at(n))}, func(t *testing.T, p *pod) {
				c, out, gaps := p.retained(t.Context())
				if err := c.Run(); err != nil || out.String() != "oneé" || len(*gaps) > 0 {
					t.Errorf("%s after %d bytes: %q, %v", name, n, out, err)
				}
			})
		}
	}
	begin := `{"type":"attached","executionId":"` + id + `","state":"running","fromOffset":0,"droppedBytes":0}`
	second := frames(begin, whole[0], whole[1], `{"type":"attach_result","executionId":"`+id+`","outcome":"completed","started":true,`+result0+`,"nextOffset":5}`)
	for n := range len(second) {
		from := at(max(0, n-len(frames(begin))))
		bubble(t, transport.Config{}, []Step{keeping(), Close(), attach(0), SendBytes(second[:n]), Close(), rest(from)}, func(t *testing.T, p *pod) {
			c, out, gaps := p.retained(t.Context())
			if err := c.Run(); err != nil || out.String() != "oneé" || len(*gaps) > 0 {
				t.Errorf("after %d bytes of an attachment: %q, %v", n, out, err)
			}
		})
	}
}

// TestReattachWindow has a guest that is not to be reached any more.
func TestReattachWindow(t *testing.T) {
	bubble(t, transport.Config{}, []Step{keeping(), keptOut("one", 0), Delay(time.Minute), Close(), Do("nobody listens", func() error { return nil })}, func(t *testing.T, p *pod) {
		c, out, _ := p.retained(t.Context())
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		p.net.Silence(podIP)
		e := errorAs[*transport.ExecutionDetachedError](t, c.Wait())
		if took := time.Since(p.start); out.String() != "one" || e.Offset != 3 || took < time.Minute+29*time.Second || took > time.Minute+31*time.Second {
			t.Errorf("got %v after %v", e, took)
		}
	})
	t.Run("a guest that takes every attachment and cuts it", func(t *testing.T) {
		var steps []Step
		for range 119 {
			steps = append(steps, attach(0), attached(0, 0), Close())
		}
		bubble(t, transport.Config{}, append([]Step{keeping(), Close()}, steps...), func(t *testing.T, p *pod) {
			c, _, _ := p.retained(t.Context())
			errorAs[*transport.ExecutionDetachedError](t, c.Run())
			p.took(t, 119*250*time.Millisecond)
		})
	})
	t.Run("a guest that never says how it ended", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{keeping(), Hang()}, func(t *testing.T, p *pod) {
			c, _, _ := p.retained(t.Context())
			c.Timeout = time.Minute
			errorAs[*transport.ExecutionDetachedError](t, c.Run())
			p.took(t, 70*time.Second)
		})
	})
}

func TestRetainedIsEnded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []Step
		check func(t *testing.T, err error)
	}{
		{"the result comes over the stream", []Step{keeping(), keptOut("x", 0), Accept(), Expect("cancel-execution"), On("exec"), finish(sigterm)}, func(t *testing.T, err error) {
			if e := errorAs[*transport.StoppedError](t, err); e.Result.Signal != "SIGTERM" {
				t.Errorf("got %+v", e.Result)
			}
		}},
		{"the acknowledgement comes and the end does not", []Step{keeping(), keptOut("x", 0), cancel(cancelled), On("exec"), ExpectClose()}, func(t *testing.T, err error) {
			if e := errorAs[*transport.LostError](t, err); !e.Confirmed || e.Result == nil {
				t.Errorf("got %+v", e)
			}
		}},
		{"it had not started", []Step{keeping(), keptOut("x", 0), cancel(neverStarted), On("exec"), ExpectClose()}, func(t *testing.T, err error) {
			errorAs[*transport.StoppedError](t, err)
		}},
		{"nothing is confirmed", []Step{keeping(), keptOut("x", 0), cancel(`{"ok":false,"error":"unknown_execution","guestBootId":"boot-2"}`), On("exec"), ExpectClose()}, func(t *testing.T, err error) {
			if e := errorAs[*transport.CancelError](t, err); !e.Restarted {
				t.Errorf("got %+v", e)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				c, out, _ := p.retained(cancelAfter(t, time.Second))
				err := c.Run()
				if !errors.Is(err, errCause) || out.String() != "x" {
					t.Errorf("got %v with %q", err, out)
				}
				tt.check(t, err)
			})
		})
	}
	t.Run("a writer that fails", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{keeping(), keptOut("x", 0), cancel(cancelled), On("exec"), finish(sigterm)}, func(t *testing.T, p *pod) {
			c, _, _ := p.retained(t.Context())
			c.Stdout = failing{}
			if err := c.Run(); !errors.Is(err, errFailing) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("a deadline is the caller's and not the program's", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{keeping(), keptOut("x", 0), ExpectClose(), attach(1), attached(1, 0), attachEnd("completed", result0, 1)}, func(t *testing.T, p *pod) {
			c, _, _ := p.retained(endAfter(t, time.Second))
			err := c.Run()
			if e := errorAs[*transport.ExecutionDetachedError](t, err); e.ID != c.ID || e.Offset != 1 || !errors.Is(err, errCause) {
				t.Errorf("got %v", err)
			}
			p.took(t, time.Second)
			if err := p.Attach(t.Context(), c.ID, 1).Run(); err != nil {
				t.Errorf("attached again: %v", err)
			}
		})
	})
	t.Run("detached", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{keeping(), keptOut("x", 0), ExpectClose()}, func(t *testing.T, p *pod) {
			c, _, _ := p.retained(t.Context())
			if c.Detach() {
				t.Error("Detach of a Cmd that was not started")
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if first, again := c.Detach(), c.Detach(); !first || !again {
				t.Error("it cannot be detached")
			}
			err := c.Wait()
			if e := errorAs[*transport.ExecutionDetachedError](t, err); e.Offset != 1 || !errors.Is(err, transport.ErrDetached) {
				t.Errorf("got %v", err)
			}
			p.took(t, time.Second)
		})
	})
}

func TestRetainedRefusals(t *testing.T) {
	bubble(t, transport.Config{}, []Step{serve("healthz", `{"ok":true,"protocolVersion":2,"features":[]}`)}, func(t *testing.T, p *pod) {
		c, _, _ := p.retained(t.Context())
		if e := errorAs[*transport.UnsupportedError](t, c.Run()); e.Feature != "execution-attach" {
			t.Errorf("got %v", e)
		}
	})
	bubble(t, transport.Config{}, []Step{serve("healthz", features), serve("reserve-execution", strings.Replace(named, "7e4f", "8e4f", 1))}, func(t *testing.T, p *pod) {
		c, _, _ := p.retained(t.Context())
		errorAs[*transport.StartError](t, c.Run())
	})
	bubble(t, transport.Config{}, []Step{keeping(), answer(`{"type":"error","error":"spawn x EACCES"}`), attach(0), attached(0, 0), attachEnd("failed", `"error":"spawn x EACCES"`, 0)}, func(t *testing.T, p *pod) {
		c, _, _ := p.retained(t.Context())
		if err := c.Run(); !errors.Is(err, fs.ErrPermission) || !transport.SafeToRetry(err) {
			t.Errorf("got %v", err)
		}
	})
}
