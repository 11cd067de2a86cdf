package transport_test

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const termExit0 = `{"type":"exit","exitCode":0}`

// opening takes the request for a terminal.
func opening() Step {
	return Seq(AcceptAs("term"), Expect("terminal", Token(token), Body(`{"cols":80,"rows":24}`)))
}

func opened() Step { return Seq(opening(), Send(ready)) }

func termData(text string) Step { return Send(`{"type":"data","data":` + JSON(text) + `}`) }

func input(text string) Step { return ExpectFrame(`{"type":"input","data":` + JSON(text) + `}`) }

func kill(signal string) Step { return ExpectFrame(`{"type":"kill","signal":"` + signal + `"}`) }

func openTerminal(t *testing.T, p *pod) *transport.Terminal {
	t.Helper()
	term, err := p.OpenTerminal(t.Context(), transport.TerminalConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func TestTerminal(t *testing.T) {
	script := []Step{opening(), termData("$ "), Send(ready), input("stty size\n"), ExpectFrame(`{"type":"resize","cols":120,"rows":40}`), Send(heartbeat), termData("24 80\r\n"), input("é"), input("ne"),
		kill("SIGINT"), termData("^C"), Send(`{"type":"exit","exitCode":4}`), CloseWrite(), ExpectClose()}
	bubble(t, transport.Config{}, script, func(t *testing.T, p *pod) {
		term := openTerminal(t, p)
		for _, in := range []string{"stty size\n", "", "\xc3", "", "\xa9", "ne"} {
			if in == "\xc3" {
				if err := term.Resize(120, 40); err != nil {
					t.Error(err)
				}
			}
			if n, err := io.WriteString(term, in); n != len(in) || err != nil {
				t.Fatalf("Write(%q) = %d, %v", in, n, err)
			}
		}
		for _, in := range []string{"\xff", "a\xffb", "\xe2x"} {
			if n, err := io.WriteString(term, in); n != 0 || err == nil {
				t.Errorf("Write(%q) = %d, %v", in, n, err)
			}
		}
		for _, size := range [][2]int{{0, 24}, {80, 0}, {1001, 24}, {80, -1}} {
			if err := term.Resize(size[0], size[1]); err == nil {
				t.Errorf("a size of %v is accepted", size)
			}
		}
		if err := term.Kill("SIGSTOP"); err == nil {
			t.Error("SIGSTOP is accepted")
		}
		if err := term.Kill("SIGINT"); err != nil {
			t.Error(err)
		}
		if out, err := io.ReadAll(term); string(out) != "$ 24 80\r\n^C" || err != nil {
			t.Errorf("got %q, %v", out, err)
		}
		if e := errorAs[*transport.TerminalError](t, term.Wait()); e.ExitCode != 4 || !e.Killed || p.BootID() != "boot-1" {
			t.Errorf("got %+v", e)
		}
		for _, err := range []error{term.Kill(""), term.Resize(1, 1), func() error { _, err := term.Write([]byte("x")); return err }()} {
			if !errors.Is(err, transport.ErrTerminalEnded) {
				t.Errorf("after the end: %v", err)
			}
		}
		term.Close()
		term.Close()
		p.took(t, 0)
	})
}

// TestTerminalThatIsOverAtOnce has the end come before the beginning.
func TestTerminalThatIsOverAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		steps Step
		out   string
		code  int
	}{
		"nothing but the end":      {answer(termExit0), "", 0},
		"output and the end":       {Seq(termData("/w"), termData("\r\n"), answer(`{"type":"exit","exitCode":1}`)), "/w\r\n", 1},
		"ready and then the end":   {Seq(Send(ready), answer(termExit0)), "", 0},
		"the end of a killed one":  {answer(`{"type":"exit","exitCode":-1,"signal":9}`), "", -1},
		"ready late, then the end": {Seq(Delay(59*time.Second), Send(ready), answer(termExit0)), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{opening(), tt.steps}, func(t *testing.T, p *pod) {
				term := openTerminal(t, p)
				if out, err := io.ReadAll(term); string(out) != tt.out || err != nil {
					t.Errorf("got %q, %v", out, err)
				}
				err := term.Wait()
				if e, ok := errors.AsType[*transport.TerminalError](err); (tt.code != 0) != ok || ok && (e.ExitCode != tt.code || e.Killed) || !ok && err != nil {
					t.Errorf("Wait = %v", err)
				}
				term.Close()
			})
		})
	}
}

func TestTerminalFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps Step
		check func(t *testing.T, err error)
	}{
		{"a refusal", answer(`{"type":"error","error":"path escapes the workspace"}`), func(t *testing.T, err error) {
			if e := errorAs[*transport.StartError](t, err); !strings.Contains(e.Error(), "path escapes the workspace") {
				t.Errorf("got %v", err)
			}
		}},
		{"the guest is ending everything", Seq(Send(`{"type":"error","error":"quiesce_in_progress"}`), ExpectClose()), func(t *testing.T, err error) { errorAs[*transport.StartError](t, err) }},
		{"the wrong token", answer(`{"ok":false,"error":"unauthorized"}`), func(t *testing.T, err error) { errorAs[*transport.UnauthorizedError](t, err) }},
		{"a guest that has fenced itself", answer(`{"ok":false,"error":"agent_retiring"}`), func(t *testing.T, err error) { errorAs[*transport.RetiringError](t, err) }},
		{"a close", Close(), func(t *testing.T, err error) { errorAs[*transport.LostError](t, err) }},
		{"silence", Hang(), func(t *testing.T, err error) { errorAs[*transport.LostError](t, err) }},
		{"a session", Seq(Send(`{"type":"ready","sessionId":"s","kind":"terminal","state":"running","fromOffset":0,"droppedBytes":0,"nextOffset":0}`), ExpectClose()), func(t *testing.T, err error) {
			errorAs[*transport.ProtocolError](t, err)
		}},
		{"an end of an attachment", Seq(Send(`{"type":"detached","reason":"superseded"}`), ExpectClose()), func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
		{"a flood before it is ready", Flood(frames(`{"type":"data","data":"`+strings.Repeat("x", 10_000)+`"}`), 8<<20), func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{opening(), tt.steps}, func(t *testing.T, p *pod) {
				term, err := p.OpenTerminal(t.Context(), transport.TerminalConfig{})
				if term != nil {
					t.Errorf("a terminal with %v", err)
				}
				tt.check(t, err)
			})
		})
	}
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		for _, c := range []transport.TerminalConfig{{Cols: 80}, {Cols: -1, Rows: 1}, {Cols: 1, Rows: 1001}, {Args: []string{"x"}}, {Path: "\xff"}, {Env: []string{"x"}}} {
			if _, err := p.OpenTerminal(t.Context(), c); err == nil {
				t.Errorf("%+v is accepted", c)
			}
		}
	})
	bubble(t, transport.Config{}, []Step{Accept(), Expect("terminal", Body(`{"cols":1,"rows":1000,"command":"no","args":["a"],"cwd":"d","env":{"A":"1"}}`)), answer(`{"type":"error","error":"spawn no ENOENT"}`)}, func(t *testing.T, p *pod) {
		_, err := p.OpenTerminal(t.Context(), transport.TerminalConfig{Cols: 1, Rows: 1000, Path: "no", Args: []string{"a"}, Dir: "d", Env: []string{"A=1"}})
		if !errors.Is(err, fs.ErrNotExist) || !transport.SafeToRetry(err) {
			t.Errorf("got %v", err)
		}
	})
}

// TestTerminalCutAtEveryByte takes nothing but the guest's word for an end.
func TestTerminalCutAtEveryByte(t *testing.T) {
	stream := frames(`{"type":"data","data":"one"}`, `{"type":"data","data":"é"}`, termExit0)
	for n := range stream {
		for name, cut := range map[string]Step{"closed": Close(), "reset": Seq(Delay(time.Millisecond), Reset())} {
			bubble(t, transport.Config{}, []Step{opened(), SendBytes(stream[:n]), cut}, func(t *testing.T, p *pod) {
				term := openTerminal(t, p)
				out, err := io.ReadAll(term)
				if _, ok := errors.AsType[*transport.LostError](err); !ok || !strings.HasPrefix("oneé", string(out)) {
					t.Errorf("%s after %d bytes: %q, %v", name, n, out, err)
				}
				errorAs[*transport.LostError](t, term.Wait())
				term.Close()
			})
		}
	}
}

// TestTerminalIsEnded sees that a program is ended in the order that a guest
// needs: signal, end, close.
func TestTerminalIsEnded(t *testing.T) {
	t.Run("by Close, whatever was not read", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{opened(), termData("unread"), kill("SIGKILL"), termData("killed"), Delay(time.Second), Send(termExit0), ExpectClose()}, func(t *testing.T, p *pod) {
			term := openTerminal(t, p)
			synctest.Wait()
			term.Close()
			p.took(t, time.Second)
			if e := errorAs[*transport.TerminalError](t, term.Wait()); !e.Killed || e.ExitCode != 0 {
				t.Errorf("an end with status 0 after a kill is %v", e)
			}
		})
	})
	t.Run("by Close, and does not end", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{opened(), kill("SIGKILL"), ExpectClose()}, func(t *testing.T, p *pod) {
			term := openTerminal(t, p)
			term.Close()
			p.took(t, 5*time.Second)
			errorAs[*transport.LostError](t, term.Wait())
		})
	})
	t.Run("by a signal that it does not take for an order", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{opened(), kill("SIGTERM"), Delay(time.Hour), Send(termExit0), ExpectClose()}, func(t *testing.T, p *pod) {
			term := openTerminal(t, p)
			term.Kill("SIGTERM")
			if out, err := io.ReadAll(term); len(out) > 0 || err != nil {
				t.Errorf("got %q, %v", out, err)
			}
			p.took(t, time.Hour)
			term.Close()
		})
	})
	for name, tt := range map[string]struct {
		steps Step
		took  time.Duration // until Close of the Agent returns, after a second
	}{
		"because nobody waits, before it is ready":       {Seq(Delay(1500*time.Millisecond), termData("$ "), Send(ready), kill("SIGKILL"), termData("x"), Send(termExit0), ExpectClose()), 500 * time.Millisecond},
		"because nobody waits, and it is over":           {Seq(Delay(1500*time.Millisecond), Send(termExit0), ExpectClose()), 500 * time.Millisecond},
		"because nobody waits, and nothing is heard":     {ExpectClose(), 2 * time.Second},
		"because nobody waits, and its end is not heard": {Seq(Delay(1500*time.Millisecond), Send(ready), kill("SIGKILL"), ExpectClose()), 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{opening(), tt.steps}, func(t *testing.T, p *pod) {
				if _, err := p.OpenTerminal(endAfter(t, time.Second), transport.TerminalConfig{}); err != errCause {
					t.Errorf("got %v, want the cause", err)
				}
				p.took(t, time.Second)
				p.Close()
				p.took(t, time.Second+tt.took)
			})
		})
	}
	t.Run("because nobody waits, in ten seconds at most", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{opening(), ExpectClose()}, func(t *testing.T, p *pod) {
			if _, err := p.OpenTerminal(endAfter(t, time.Second), transport.TerminalConfig{}); err != errCause {
				t.Errorf("got %v, want the cause", err)
			}
			time.Sleep(10*time.Second + time.Millisecond)
			p.Close()
			p.took(t, 11*time.Second+time.Millisecond)
		})
	})
	t.Run("by the Agent's Close", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{opened(), ExpectClose()}, func(t *testing.T, p *pod) {
			term := openTerminal(t, p)
			p.Close()
			if _, err := term.Read(make([]byte, 1)); !errors.Is(err, transport.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	})
}

// TestTerminalBackPressure sees that a consumer that does not read holds the
// guest up, and that input that is not taken waits.
func TestTerminalBackPressure(t *testing.T) {
	bubble(t, transport.Config{}, []Step{opened(), Patience(time.Minute), Flood(frames(`{"type":"data","data":"`+strings.Repeat("x", 60_000)+`"}`), 64<<20)}, func(t *testing.T, p *pod) {
		term := openTerminal(t, p)
		time.Sleep(30 * time.Second)
		if n, err := term.Read(make([]byte, 1<<20)); n != 60_000 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		p.Close() // Close of the Terminal reads on for an end
		term.Close()
	})
	bubble(t, transport.Config{}, []Step{opened(), Delay(time.Second), Close()}, func(t *testing.T, p *pod) {
		term := openTerminal(t, p)
		if n, err := term.Write([]byte(strings.Repeat("é", 4<<20))); n != 0 || err == nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		p.took(t, time.Second)
		term.Close()
	})
	bubble(t, transport.Config{Heartbeat: time.Second}, []Step{Accept(), Expect("terminal", Field("heartbeatMs", 1000)), Send(`{"type":"ready","heartbeatMs":1000}`), ExpectFrame(heartbeat), Hang()}, func(t *testing.T, p *pod) {
		term := openTerminal(t, p)
		if _, err := term.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "3 heartbeats") {
			t.Errorf("got %v", err)
		}
		p.took(t, 3*time.Second)
		term.Close()
	})
}
