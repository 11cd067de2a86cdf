package transport_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// TestRecordedClosings plays what came of it when the recording's client closed
// its side early, which this host does not do: what it can meet with is that the
// answer is lost all the same.
func TestRecordedClosings(t *testing.T) {
	skip := map[string]string{
		"reset-while-execute-runs/c1":         notSent + "it resets nothing; TestStreamCutAtEveryByte has a reset from the other side",
		"close-in-the-middle-of-a-frame/c1":   notSent + "there was none; TestPeerThatDoesNotReadTheRequest has a request that does not get out whole",
		"tcp-keepalive-on-accepted-socket/c1": "nothing was said; TestDefaultDialer has this side's timer",
	}
	replayEvery(t, "closing", skip, func(c *talk) func(*testing.T, *talk) {
		switch lost := len(c.Received) == 0; c.op() {
		case "healthz", "reserve-execution", "list-sessions", "quiesce":
			return replayAnswered
		case "read-file", "write-file", "read-file-stream", "flush":
			return replayLostAnswer
		case "execute":
			return replayLostProgram
		case "terminal":
			if !lost && c.End.By == "peer" {
				return replayLostTerminal
			} else if lost && c.End.By == "peer" {
				return replayLostAnswer
			}
			return replayAbandonedTerminal
		}
		return nil
	})
}

// replayAnswered has the whole answer and the agent's close, after which it
// holds the connection until this host closes it too.
func replayAnswered(t *testing.T, c *talk) {
	steps := c.script(t, nil)
	if c.op() == "reserve-execution" {
		steps = append(steps, Accept(), Expect("execute"), finish(exit0))
	}
	replayTalk(t, c, steps, func(t *testing.T, p *pod) {
		if err := c.ask(t, p); err != nil {
			t.Error(err)
		}
	})
}

// ask does what the recording's client asked for.
func (c *talk) ask(t *testing.T, p *pod) (err error) {
	path, _ := c.body()["path"].(string)
	switch c.op() {
	case "healthz":
		_, err = p.Health(t.Context())
	case "reserve-execution":
		err = p.Command(t.Context(), "x").Run()
	case "list-sessions":
		_, err = p.Sessions(t.Context())
	case "quiesce":
		var q transport.Quiescence
		if q, err = p.Quiesce(t.Context(), 0); err == nil && len(q.Stopped) != 3 {
			t.Errorf("got %+v", q)
		}
	case "read-file":
		_, _, err = p.ReadRange(t.Context(), path, 0, 1)
	case "read-file-stream":
		_, err = p.ReadFile(t.Context(), path)
	case "write-file":
		_, err = p.WriteFile(t.Context(), path, strings.NewReader(c.body()["content"].(string)))
	case "flush":
		_, err = p.Flush(t.Context(), 0)
	case "terminal":
		_, err = p.OpenTerminal(t.Context(), c.config(t))
	}
	return err
}

func (c *talk) config(t *testing.T) transport.TerminalConfig {
	b := c.program(t)
	return transport.TerminalConfig{Cols: b.Cols, Rows: b.Rows, Path: b.Command, Args: b.Args}
}

// replayLostAnswer has an agent that did what it was asked for and closed
// without a word, so that nothing of it may be taken for not done.
func replayLostAnswer(t *testing.T, c *talk) {
	replayTalk(t, c, []Step{Accept(), Expect(c.op()), CloseWrite(), ExpectClose()}, func(t *testing.T, p *pod) {
		err := c.ask(t, p)
		if e := errorAs[*transport.LostError](t, err); !e.Sent || transport.SafeToRetry(err) {
			t.Errorf("got %v", err)
		}
	})
}

// replayLostProgram has a stream that ends early, of a program that ran to its
// end: when it is asked, the agent says so.
func replayLostProgram(t *testing.T, c *talk) {
	steps := []Step{c.taking()}
	for _, r := range c.Received {
		steps = append(steps, Send([]byte(r.Frame)))
	}
	replayTalk(t, c, append(steps, CloseWrite(), ExpectClose(), Accept(), Expect("cancel-execution"), answer(completed)), func(t *testing.T, p *pod) {
		out, err := p.command(t.Context(), t, c.body()).Output()
		if e := errorAs[*transport.LostError](t, err); !e.Confirmed || e.Result.ExitCode != 0 || string(out) != c.texts(t) || transport.SafeToRetry(err) {
			t.Errorf("got %q, %v", out, err)
		}
	})
}

// replayLostTerminal has a terminal whose connection the agent closes while its
// program runs.
func replayLostTerminal(t *testing.T, c *talk) {
	replayTalk(t, c, c.script(t, nil), func(t *testing.T, p *pod) {
		term, err := p.OpenTerminal(t.Context(), c.config(t))
		if err != nil {
			t.Fatal(err)
		}
		defer term.Close()
		out, err := io.ReadAll(term)
		if errorAs[*transport.LostError](t, err); len(out) > 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %q, %v", out, err)
		}
	})
}

// replayAbandonedTerminal has a caller that leaves when the recording's client
// did. That closed, and up to 20 of 20 programs lived on; this host waits until
// the agent has found the program, and ends it.
func replayAbandonedTerminal(t *testing.T, c *talk) {
	after := func(ms float64) time.Duration {
		return time.Duration((ms - c.Sent[0].Ms) * float64(time.Millisecond))
	}
	ready, at := `{"type":"ready","guestBootId":"<boot-id>"}`, 20*time.Millisecond
	if i := slices.IndexFunc(c.Received, func(s spoken) bool { return s.Frame != nil }); i >= 0 {
		ready, at = string(c.Received[i].Frame), after(c.Received[i].Ms)
	}
	steps := []Step{Accept(), Expect("terminal", Body(JSON(c.body()))), Delay(at), Send(ready), kill("SIGKILL"), Send(`{"type":"exit","exitCode":-1,"signal":9}`), ExpectClose()}
	replayTalk(t, c, steps, func(t *testing.T, p *pod) {
		leaves := after(c.Sent[len(c.Sent)-1].Ms)
		term, err := p.OpenTerminal(endAfter(t, leaves), c.config(t))
		if len(c.Received) == 0 {
			if err != errCause {
				t.Errorf("got %v, want the cause", err)
			}
			p.took(t, leaves)
			p.Close()
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		term.Close()
		errorAs[*transport.TerminalError](t, term.Wait())
	})
}
