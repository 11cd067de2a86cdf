package transport_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// replayEvery plays a file of which each connection is played, by the function
// that how names for it, or has a reason why not.
func replayEvery(t *testing.T, file string, skip map[string]string, how func(c *talk) func(*testing.T, *talk)) {
	all := talks(t, file)
	for _, c := range all {
		switch f := how(c); {
		case skip[c.Name] != "":
			delete(skip, c.Name)
		case f == nil:
			t.Errorf("%s is neither played nor named", c.Name)
		default:
			t.Run(c.Name, func(t *testing.T) { f(t, c) })
		}
	}
	for name := range skip {
		t.Errorf("%s is named and is not there", name)
	}
}

// TestRecordedRaces plays each outcome of what has several.
func TestRecordedRaces(t *testing.T) {
	skip := map[string]string{}
	for _, c := range talks(t, "races") {
		if c.op() == "cancel-execution" {
			skip[c.Name] = "played with its execution"
		}
	}
	replayEvery(t, "races", skip, func(c *talk) func(*testing.T, *talk) {
		race := strings.HasPrefix(c.Name, "cancel-sent-right-after-execute/")
		switch {
		case c.op() == "terminal" && len(c.Received) == 0:
			return replaySilentSession
		case c.op() == "terminal":
			return replayTerminal
		case c.op() == "execute" && race:
			return replayCancelRace
		case c.op() == "execute" && len(c.Received) == 0:
			return replayAgentThatDies
		case c.op() == "execute":
			return replayExecute
		}
		return nil
	})
}

// reserving answers the request for an execution id, which is then that of the
// recording if it has one.
func (c *talk) reserving() (Step, string) {
	name, ok := c.body()["executionId"].(string)
	if !ok {
		name = id
	}
	return Seq(Accept(), Expect("reserve-execution", Body("")), answer(strings.Replace(reserved, id, name, 1))), name
}

// taking takes the recording's execute as AcceptAs("exec") does. Input is put
// into a file by this host, because of what some of the recordings show.
func (c *talk) taking() Step {
	reserve, name := c.reserving()
	return Seq(reserve, AcceptAs("exec"), Expect("execute", Field("executionId", name), Field("command", c.body()["command"]), Field("args", cmp.Or[any](c.body()["args"], []any{}))))
}

// texts is all output of the recording, in its order.
func (c *talk) texts(t *testing.T) (all string) {
	for _, e := range c.events(t) {
		all += e.Data
	}
	return all
}

func replayExecute(t *testing.T, c *talk) {
	steps := []Step{c.taking()}
	for _, r := range c.Received {
		if r.Terminator {
			steps = append(steps, Terminator())
		} else {
			steps = append(steps, Send([]byte(r.Frame)))
		}
	}
	replayTalk(t, c, append(steps, CloseWrite(), ExpectClose()), func(t *testing.T, p *pod) {
		out, err := p.command(t.Context(), t, c.body()).CombinedOutput()
		if want := c.texts(t); err != nil || string(out) != want {
			t.Errorf("got %q, %v, want %q", out, err, want)
		}
	})
}

// replayCancelRace has the context end at the moment at which the program is
// started.
func replayCancelRace(t *testing.T, c *talk) {
	i := slices.IndexFunc(c.exchange, func(o *talk) bool {
		return o.op() == "cancel-execution" && o.body()["executionId"] == c.body()["executionId"]
	})
	if i < 0 {
		t.Fatal("nobody cancels it")
	}
	type answered struct {
		ms   float64
		step Step
	}
	var answers []answered
	for conn, o := range map[string]*talk{"exec": c, "cancel": c.exchange[i]} {
		for _, r := range o.Received {
			send := Terminator()
			if !r.Terminator {
				send = Send([]byte(r.Frame))
			}
			if conn == "exec" { // the cancel may have said enough
				send = IfOpen(send)
			}
			answers = append(answers, answered{r.Ms, Seq(On(conn), send)})
		}
		answers = append(answers, answered{o.End.Ms, Seq(On(conn), IfOpen(CloseWrite()))})
	}
	slices.SortStableFunc(answers, func(a, b answered) int { return cmp.Compare(a.ms, b.ms) })
	steps := []Step{c.taking(), AcceptAs("cancel"), Expect("cancel-execution", Body(JSON(c.exchange[i].body())))}
	for _, a := range answers {
		steps = append(steps, a.step)
	}
	replayTalk(t, c, append(steps, On("exec"), ExpectClose(), On("cancel"), ExpectClose()), func(t *testing.T, p *pod) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cmd := p.command(ctx, t, c.body())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cancel(errCause)
		stopped := errorAs[*transport.StoppedError](t, cmd.Wait())
		if ran := c.events(t)[0].Type == "result"; stopped.Cause != errCause || ran != (stopped.Result != nil) || ran && stopped.Result.Signal != "SIGTERM" {
			t.Errorf("got %v with %+v", stopped, stopped.Result)
		}
	})
}

// replayAgentThatDies has the agent end with no word: nothing is known of the
// program then.
func replayAgentThatDies(t *testing.T, c *talk) {
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		l, err := p.net.Listen("tcp", podIP+":1024")
		if err != nil {
			t.Fatal(err)
		}
		Start(t, l, c.taking(), Do("the agent is gone", l.Close), CloseWrite(), ExpectClose())
		err = p.command(t.Context(), t, c.body()).Run()
		if errorAs[*transport.CancelError](t, err); !errors.Is(err, io.ErrUnexpectedEOF) || transport.SafeToRetry(err) {
			t.Errorf("got %v", err)
		}
	})
}

// replaySilentSession has nothing be said of a session whose program is over,
// and what is said when it is looked up: what was found in the recordings of
// sessions.
func replaySilentSession(t *testing.T, c *talk) {
	b := c.program(t)
	steps := []Step{AcceptAs("silent"), Expect("terminal", Field("sessionId", b.SessionID), Field("persistent", true))}
	ready := Send(fmt.Sprintf(`{"type":"ready","guestBootId":"<boot-id>","sessionId":%q,"kind":"terminal","state":"exited","exitCode":0,"fromOffset":0,"droppedBytes":0,"nextOffset":0}`, b.SessionID))
	steps = append(steps, Accept(), Expect("attach-session", Body(fmt.Sprintf(`{"sessionId":%q,"fromOffset":0,"follow":false}`, b.SessionID))), ready, Terminator(), CloseWrite(), ExpectClose(), On("silent"), ExpectClose(),
		Accept(), Expect("attach-session", Body(fmt.Sprintf(`{"sessionId":%q,"fromOffset":0}`, b.SessionID))), ready, Send(sessionExit(0, 0)), ExpectClose())
	replayTalk(t, c, steps, func(t *testing.T, p *pod) {
		term, err := p.StartSession(t.Context(), b.SessionID, transport.TerminalConfig{Cols: b.Cols, Rows: b.Rows, Path: b.Command})
		if err != nil {
			t.Fatal(err)
		}
		defer term.Close()
		if out, err := io.ReadAll(term); len(out) > 0 || err != nil || term.Wait() != nil {
			t.Errorf("got %q, %v, %v", out, err, term.Wait())
		}
		p.took(t, 3*time.Second)
	})
}
