package transport_test

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const sessionInfo = `"sessionId":"web","kind":"detached","command":"sh","args":["-c","x"],"startedAt":1795984577038,"lastOutputAt":1795984577040,"nextOffset":12,"droppedBytes":2`

func sessionReady(from, dropped int, rest string) Step {
	return Send(fmt.Sprintf(`{"type":"ready","guestBootId":"boot-1","sessionId":"web","kind":"terminal","state":%s,"fromOffset":%d,"droppedBytes":%d,"nextOffset":99}`, rest, from, dropped))
}

func sessionData(text string, at int) string {
	return fmt.Sprintf(`{"type":"data","stream":"stdout","data":%s,"offset":%d,"nextOffset":%d}`, JSON(text), at, at+len(text))
}

func sessionExit(code, at int) string {
	return fmt.Sprintf(`{"type":"exit","exitCode":%d,"nextOffset":%d}`, code, at)
}

// persistent takes the request for a session.
func persistent() Step {
	return Seq(serve("healthz", features), Accept(), Expect("terminal", Token(token), Body(`{"cols":80,"rows":24,"sessionId":"web","persistent":true}`)))
}

// attaching takes the request to attach to the session.
func attaching(from int) Step {
	return Seq(serve("healthz", features), Accept(), Expect("attach-session", Token(token), Body(fmt.Sprintf(`{"sessionId":"web","fromOffset":%d,"cols":132,"rows":50}`, from))))
}

// looking takes the request for what is kept of the session.
func looking(from int) Step {
	return Seq(Accept(), Expect("attach-session", Token(token), Body(fmt.Sprintf(`{"sessionId":"web","fromOffset":%d,"follow":false}`, from))))
}

const running, exited3 = `"running"`, `"exited","exitCode":3`

func startSession(t *testing.T, p *pod) *transport.Terminal {
	t.Helper()
	term, err := p.StartSession(t.Context(), "web", transport.TerminalConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func attachSession(t *testing.T, p *pod, from int64) *transport.Terminal {
	t.Helper()
	term, err := p.AttachSession(t.Context(), "web", from, 132, 50)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func TestStartSession(t *testing.T) {
	bubble(t, transport.Config{}, []Step{persistent(), sessionReady(0, 0, running), Send(sessionData("$ ", 0)), input("exit 3\n"), Send(sessionData("bye", 2)), Send(sessionExit(3, 5)), ExpectClose()}, func(t *testing.T, p *pod) {
		term := startSession(t, p)
		io.WriteString(term, "exit 3\n")
		if out, err := io.ReadAll(term); string(out) != "$ bye" || err != nil || term.Offset() != 5 || term.Gap() != (transport.Gap{}) {
			t.Errorf("got %q, %v, offset %d", out, err, term.Offset())
		}
		if e := errorAs[*transport.TerminalError](t, term.Wait()); e.ExitCode != 3 {
			t.Errorf("got %+v", e)
		}
		term.Close()
	})
	t.Run("closing detaches", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{persistent(), sessionReady(0, 0, running), Send(sessionData("$ ", 0)), ExpectClose()}, func(t *testing.T, p *pod) {
			term := startSession(t, p)
			term.Read(make([]byte, 9))
			term.Close()
			err := term.Wait()
			if e := errorAs[*transport.SessionDetachedError](t, err); e.ID != "web" || e.Offset != 2 || !errors.Is(err, transport.ErrDetached) || transport.SafeToRetry(err) {
				t.Errorf("got %v", err)
			}
			p.took(t, 0)
		})
	})
	t.Run("a program that is over at once is looked up", func(t *testing.T) {
		script := []Step{serve("healthz", features), AcceptAs("silent"), Expect("terminal"), looking(0), sessionReady(0, 0, running), Terminator(), CloseWrite(), ExpectClose(),
			looking(0), sessionReady(0, 0, exited3), Send(sessionData("bye", 0)), Terminator(), CloseWrite(), ExpectClose(), On("silent"), ExpectClose(),
			Accept(), Expect("attach-session", Body(`{"sessionId":"web","fromOffset":0}`)), sessionReady(0, 0, exited3), Send(sessionData("bye", 0)), Send(sessionExit(3, 3)), ExpectClose()}
		bubble(t, transport.Config{}, script, func(t *testing.T, p *pod) {
			term := startSession(t, p)
			if out, err := io.ReadAll(term); string(out) != "bye" || err != nil {
				t.Errorf("got %q, %v", out, err)
			}
			errorAs[*transport.TerminalError](t, term.Wait())
			p.took(t, 6*time.Second)
		})
	})
	t.Run("nobody waits for it any more", func(t *testing.T) {
		script := []Step{persistent(), Delay(2 * time.Second), sessionReady(0, 0, running), kill("SIGKILL"), Send(sessionExit(-1, 0)), ExpectClose()}
		bubble(t, transport.Config{}, script, func(t *testing.T, p *pod) {
			if _, err := p.StartSession(endAfter(t, time.Second), "web", transport.TerminalConfig{}); err != errCause {
				t.Errorf("got %v", err)
			}
			p.Close()
			p.took(t, 2*time.Second)
		})
	})
	for text, check := range map[string]func(t *testing.T, err error){
		`{"type":"error","error":"session_exists"}`: func(t *testing.T, err error) {
			if e := errorAs[*transport.SessionError](t, err); e.Reason != "session_exists" || e.ID != "web" || !transport.SafeToRetry(err) {
				t.Errorf("got %+v", e)
			}
		},
		`{"ok":false,"error":"agent_retiring"}`: func(t *testing.T, err error) { errorAs[*transport.RetiringError](t, err) },
		ready:                                   func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) },
		`{"type":"ready","sessionId":"other","kind":"terminal","state":"running","fromOffset":0,"droppedBytes":0,"nextOffset":0}`: func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) },
	} {
		bubble(t, transport.Config{}, []Step{persistent(), answer(text)}, func(t *testing.T, p *pod) {
			_, err := p.StartSession(t.Context(), "web", transport.TerminalConfig{})
			check(t, err)
		})
	}
}

func TestAttachSession(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []Step
		out   string
		gap   transport.Gap
		check func(t *testing.T, err error) // of Wait
	}{
		{"to one that ends", []Step{attaching(2), sessionReady(2, 0, running), Send(sessionData("one", 2)), Send(sessionExit(0, 5)), ExpectClose()}, "one", transport.Gap{}, nil},
		{"to one that has ended", []Step{attaching(2), sessionReady(4, 2, exited3), Send(sessionData("one", 4)), Send(sessionExit(3, 7)), ExpectClose()}, "one", transport.Gap{From: 2, Dropped: 2},
			func(t *testing.T, err error) { errorAs[*transport.TerminalError](t, err) }},
		{"and somebody takes over", []Step{attaching(2), sessionReady(2, 0, running), Send(sessionData("one", 2)), Send(`{"type":"detached","reason":"superseded"}`), ExpectClose()}, "one", transport.Gap{},
			func(t *testing.T, err error) {
				if e := errorAs[*transport.SessionDetachedError](t, err); e.Offset != 5 || !errors.Is(err, transport.ErrSuperseded) {
					t.Errorf("got %v", err)
				}
			}},
		{"and is too slow", []Step{attaching(2), sessionReady(2, 0, running), Send(`{"type":"detached","reason":"slow_reader"}`), ExpectClose()}, "", transport.Gap{},
			func(t *testing.T, err error) {
				if e := errorAs[*transport.SessionDetachedError](t, err); e.Offset != 2 || errors.Is(err, transport.ErrSuperseded) {
					t.Errorf("got %v", err)
				}
			}},
		{"and is cut off within a frame", []Step{attaching(2), sessionReady(2, 0, running), Send(sessionData("one", 2)), SendBytes([]byte("00000080\n{")), Close()}, "one", transport.Gap{},
			func(t *testing.T, err error) {
				if e := errorAs[*transport.SessionDetachedError](t, err); e.Offset != 5 || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("got %v", err)
				}
			}},
		{"and output is left out", []Step{attaching(2), sessionReady(2, 0, running), Send(sessionData("one", 3)), ExpectClose()}, "", transport.Gap{},
			func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
		{"and the end is elsewhere", []Step{attaching(2), sessionReady(2, 0, running), Send(sessionExit(0, 5)), ExpectClose()}, "", transport.Gap{},
			func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
		{"and output has no place", []Step{attaching(2), sessionReady(2, 0, running), termData("x"), ExpectClose()}, "", transport.Gap{},
			func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				term := attachSession(t, p, 2)
				out, err := io.ReadAll(term)
				if string(out) != tt.out || term.Gap() != tt.gap {
					t.Errorf("got %q with %+v, want %q with %+v", out, term.Gap(), tt.out, tt.gap)
				}
				if wait := term.Wait(); tt.check != nil {
					tt.check(t, wait)
				} else if err != nil || wait != nil {
					t.Errorf("got %v and %v", err, wait)
				}
				term.Close()
				p.took(t, 0)
			})
		})
	}
	bubble(t, transport.Config{}, []Step{attaching(2), answer(`{"type":"error","error":"invalid_offset","nextOffset":1}`)}, func(t *testing.T, p *pod) {
		_, err := p.AttachSession(t.Context(), "web", 2, 132, 50)
		if e := errorAs[*transport.SessionError](t, err); e.Reason != "invalid_offset" {
			t.Errorf("got %+v", e)
		}
	})
	bubble(t, transport.Config{}, []Step{attaching(2), sessionReady(1, 0, running), ExpectClose()}, func(t *testing.T, p *pod) {
		_, err := p.AttachSession(t.Context(), "web", 2, 132, 50)
		errorAs[*transport.ProtocolError](t, err)
	})
	bubble(t, transport.Config{}, []Step{attaching(2), ExpectClose()}, func(t *testing.T, p *pod) {
		if _, err := p.AttachSession(endAfter(t, time.Second), "web", 2, 132, 50); err != errCause {
			t.Errorf("got %v", err)
		}
	})
}

func TestReadSession(t *testing.T) {
	known := serve("healthz", features)
	end := Seq(Terminator(), CloseWrite(), ExpectClose())
	for _, tt := range []struct {
		name  string
		steps []Step
		want  transport.SessionOutput
		err   string
	}{
		{"one that runs", []Step{known, looking(3), sessionReady(5, 2, running), Send(sessionData("one", 5)), Send(`{"type":"data","stream":"stderr","data":"two","offset":8,"nextOffset":11}`), end},
			transport.SessionOutput{Pieces: []transport.SessionPiece{{Text: "one", From: 5}, {Stderr: true, Text: "two", From: 8}}, Gap: transport.Gap{From: 3, Dropped: 2}, NextOffset: 11, Running: true}, ""},
		{"one that was killed", []Step{known, looking(3), sessionReady(3, 0, `"exited","exitCode":-1,"signal":9`), end}, transport.SessionOutput{NextOffset: 3, ExitCode: -1, Signal: 9}, ""},
		{"one that nobody knows", []Step{known, looking(3), answer(`{"type":"error","error":"unknown_session"}`)}, transport.SessionOutput{}, "session web: unknown_session"},
		{"a guest that has fenced itself", []Step{known, looking(3), answer(`{"type":"error","error":"agent_retiring"}`)}, transport.SessionOutput{}, "fenced itself"},
		{"a cut", []Step{known, looking(3), sessionReady(3, 0, running), Close()}, transport.SessionOutput{}, "the answer was lost"},
		{"nothing at all", []Step{known, looking(3), end}, transport.SessionOutput{}, "was not told of"},
		{"no end", []Step{known, looking(3), sessionReady(3, 0, running), Hang()}, transport.SessionOutput{}, "did not come within 30s"},
		{"a trickle", []Step{known, looking(3), Trickle([]byte("0000"), 7*time.Second), ExpectClose()}, transport.SessionOutput{}, "did not come within 30s"},
		{"a following", []Step{known, looking(3), sessionReady(3, 0, running), Send(sessionExit(0, 3)), ExpectClose()}, transport.SessionOutput{}, "does not belong to a look"},
		{"too much", []Step{known, looking(3), sessionReady(3, 0, running), floodSession(3), ExpectClose()}, transport.SessionOutput{}, "larger than the limit of 16777216 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				got, err := p.ReadSession(t.Context(), "web", 3)
				if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %+v, %v, want %+v, %q", got, err, tt.want, tt.err)
				}
			})
		})
	}
}

// floodSession sends 17 MiB of output.
func floodSession(at int) Step {
	var all []Step
	for i := range 17 {
		all = append(all, Send(sessionData(strings.Repeat("x", 1<<20), at+i<<20)))
	}
	return Seq(all...)
}

func TestSessionControl(t *testing.T) {
	known := serve("healthz", features)
	info := transport.Session{ID: "web", Path: "sh", Args: []string{"-c", "x"}, Started: time.UnixMilli(1795984577038), LastOutput: time.UnixMilli(1795984577040), NextOffset: 12, Dropped: 2, Running: true}
	killed := info
	killed.Running, killed.ExitCode, killed.Signal = false, -1, 15
	run, dead := `,"state":"running","attached":false`, `,"state":"exited","attached":false,"exitCode":-1,"signal":15`
	script := []Step{known,
		serve("start-detached", `{"ok":true,`+sessionInfo+run+`,"pid":77}`, Body(`{"sessionId":"web","command":"sh","args":["-c","x"],"cwd":"d","env":{"A":"1"}}`)),
		serve("list-sessions", `{"ok":true,"sessions":[{`+sessionInfo+run+`}]}`, Body("")),
		serve("kill-session", `{"ok":true,`+sessionInfo+dead+`,"signalled":2}`, Body(`{"sessionId":"web","signal":"SIGTERM"}`)),
		serve("kill-session", `{"ok":true,`+sessionInfo+dead+`}`, Body(`{"sessionId":"web"}`)),
		serve("kill-session", `{"ok":false,"error":"unknown_session"}`),
		serve("start-detached", `{"ok":false,"error":"spawn_failed","message":"spawn no ENOENT"}`),
		serve("list-sessions", `{"ok":false,"error":"agent_retiring"}`),
		serve("list-sessions", `{"ok":false,"error":"EIO: x"}`),
	}
	bubble(t, transport.Config{}, script, func(t *testing.T, p *pod) {
		ctx := t.Context()
		if got, pid, err := p.StartDetached(ctx, "web", transport.Detached{Path: "sh", Args: []string{"-c", "x"}, Dir: "d", Env: []string{"A=1"}}); err != nil || pid != 77 || !reflect.DeepEqual(got, info) {
			t.Errorf("StartDetached = %+v, %d, %v", got, pid, err)
		}
		if got, err := p.Sessions(ctx); err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], info) {
			t.Errorf("Sessions = %+v, %v", got, err)
		}
		for _, signal := range []string{"SIGTERM", ""} {
			if got, err := p.KillSession(ctx, "web", signal); err != nil || !reflect.DeepEqual(got, killed) {
				t.Errorf("KillSession(%q) = %+v, %v", signal, got, err)
			}
		}
		_, err := p.KillSession(ctx, "web", "")
		if e := errorAs[*transport.SessionError](t, err); e.Reason != "unknown_session" {
			t.Errorf("got %+v", e)
		}
		_, _, err = p.StartDetached(ctx, "web", transport.Detached{Path: "no"})
		if e := errorAs[*transport.SessionError](t, err); e.Reason != "spawn_failed" || !strings.Contains(err.Error(), "spawn no ENOENT") {
			t.Errorf("got %+v", e)
		}
		_, err = p.Sessions(ctx)
		errorAs[*transport.RetiringError](t, err)
		if _, err = p.Sessions(ctx); errorAs[*transport.SessionError](t, err).Error() != "transport: list-sessions: EIO: x" {
			t.Errorf("got %v", err)
		}
	})
	older := serve("healthz", `{"ok":true,"protocolVersion":2,"features":[]}`)
	bubble(t, transport.Config{}, []Step{older}, func(t *testing.T, p *pod) {
		ctx := t.Context()
		for _, f := range []func(id string) error{
			func(id string) error { _, err := p.StartSession(ctx, id, transport.TerminalConfig{}); return err },
			func(id string) error { _, err := p.AttachSession(ctx, id, 0, 0, 0); return err },
			func(id string) error { _, err := p.ReadSession(ctx, id, 0); return err },
			func(id string) error { _, err := p.KillSession(ctx, id, ""); return err },
			func(id string) error {
				_, _, err := p.StartDetached(ctx, id, transport.Detached{Path: "x"})
				return err
			},
		} {
			errorAs[*transport.UnsupportedError](t, f("web"))
			if e := errorAs[*transport.SessionError](t, f("../web")); e.Reason != "invalid_session_id" {
				t.Errorf("got %+v", e)
			}
		}
		_, err := p.ReadSession(ctx, "web", -1)
		errorAs[*transport.SessionError](t, err)
		_, err = p.KillSession(ctx, "web", "SIGSTOP")
		errorAs[*transport.SessionError](t, err)
		_, _, err = p.StartDetached(ctx, "web", transport.Detached{})
		errorAs[*transport.SessionError](t, err)
		if n := p.dials.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}
