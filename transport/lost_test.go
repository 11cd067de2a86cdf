package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	"github.com/sandlot-go/sandlot/transport/wire"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

func frames(payloads ...string) (stream []byte) {
	for _, p := range payloads {
		stream = wire.AppendFrame(stream, []byte(p))
	}
	return stream
}

// TestStreamCutAtEveryByte ends the stream of a program after each of its
// bytes, in an orderly way and by a reset: never is that a success, never is
// output lost that came, and always is the program's end seen to.
func TestStreamCutAtEveryByte(t *testing.T) {
	stream := frames(`{"type":"stdout_delta","data":"one"}`, `{"type":"stderr_delta","data":"é"}`, exit0, "")
	output := func(n int) string { // what is complete in the first n bytes
		switch {
		case n < len(frames(`{"type":"stdout_delta","data":"one"}`)):
			return ""
		case n < len(frames(`{"type":"stdout_delta","data":"one"}`, `{"type":"stderr_delta","data":"é"}`)):
			return "one"
		}
		return "oneé"
	}
	for n := range len(stream) {
		for name, cut := range map[string]Step{"closed": Close(), "half-closed": CloseWrite(), "reset": Seq(Delay(time.Millisecond), Reset())} {
			bubble(t, transport.Config{}, []Step{executing(), SendBytes(stream[:n]), cut, cancel(completed)}, func(t *testing.T, p *pod) {
				c := p.Command(t.Context(), "x")
				out, err := c.CombinedOutput()
				lost, ok := errors.AsType[*transport.LostError](err)
				if !ok || !lost.Confirmed || !lost.Sent || lost.Cause != nil || *lost.Result != *c.Result() || transport.SafeToRetry(err) {
					t.Errorf("%s after %d bytes: got %v", name, n, err)
				}
				if name == "reset" && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%s after %d bytes: %v is not a reset", name, n, err)
				}
				if string(out) != output(n) {
					t.Errorf("%s after %d bytes: output %q, want %q", name, n, out, output(n))
				}
			})
		}
	}
	for name, end := range map[string]Step{"closed": Close(), "half-closed": Seq(CloseWrite(), ExpectClose()), "reset": Seq(Delay(time.Millisecond), Reset())} {
		bubble(t, transport.Config{}, []Step{executing(), SendBytes(stream), end}, func(t *testing.T, p *pod) {
			if out, err := p.Command(t.Context(), "x").CombinedOutput(); err != nil || string(out) != "oneé" {
				t.Errorf("%s after everything: %q, %v", name, out, err)
			}
		})
	}
}

// TestStreamThatBreaksTheProtocol has peers that say what they must not. The
// program is ended and its output never taken for complete.
func TestStreamThatBreaksTheProtocol(t *testing.T) {
	raw := func(s string) Step { return SendBytes([]byte(s)) }
	ends := Seq(CloseWrite(), ExpectClose())
	for _, tt := range []struct {
		name  string
		steps Step
		text  string
	}{
		{"a header that is none", raw("HTTP/1.1 200 OK\r\n"), "malformed frame header"},
		{"a header without a line feed", raw("0000000010"), "malformed frame header"},
		{"a frame beyond the limit", raw("00800001\n"), "8388609 bytes announced"},
		{"the largest header there is", raw("ffffffff\n"), "4294967295 bytes announced"},
		{"no JSON", Send("nope"), "not a JSON object"},
		{"no object", Send(`["result"]`), "not a JSON object"},
		{"null", Send(`null`), "null instead of an object"},
		{"blanks", Send(" \n"), "not a JSON object"},
		{"an unknown event", Send(`{"type":"heartbeat"}`), `type "heartbeat"`},
		{"an event of another stream", Send(`{"type":"attached","state":"running"}`), `type "attached"`},
		{"output that is no text", Send(`{"type":"stdout_delta","data":["x"]}`), "data is of the wrong type"},
		{"a result without an exit code", Send(`{"type":"result","timedOut":false,"durationMs":1}`), "no exitCode"},
		{"a success that is no event", Send(`{"ok":true}`), "a control reply"},
		{"the end before a result", Terminator(), "ended without a result"},
		{"output after the result", Seq(Send(exit0), stdout("x")), "after the result"},
		{"a second result", Seq(Send(exit0), Send(exit0)), "after the result"},
		{"an error after the result", Seq(Send(exit0), Send(`{"type":"error","error":"x"}`)), "after the result"},
		{"a refusal after the result", Seq(Send(exit0), Send(`{"ok":false,"error":"unauthorized"}`)), "unauthorized"},
		{"a refusal after output", Seq(stdout("x"), Send(`{"ok":false,"error":"unauthorized"}`)), "unauthorized"},
		{"an error after output", Seq(stdout("x"), Send(`{"type":"error","error":"invalid_cwd: x"}`)), "invalid_cwd"},
		{"bytes behind the end", Seq(Send(exit0), raw("00000000\nx")), "came after the answer"},
		{"bytes long behind the end", Seq(Send(exit0), Terminator(), Delay(900*time.Millisecond), raw("x")), "came after the answer"},
		{"a second end", Seq(Send(exit0), Terminator(), Terminator()), "came after the answer"},
		{"more output than was allowed", Seq(stdout("123456789"), stdout("x")), "more stdout_delta came than MaxOutput allows"},
		{"more on the other stream than was allowed", Seq(stdout("123456789"), stderr("0123456789")), "more stderr_delta came"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{executing(), tt.steps, cancel(cancelled), On("exec"), ends}, func(t *testing.T, p *pod) {
				c := p.Command(t.Context(), "x")
				c.MaxOutput = 3
				_, err := c.CombinedOutput()
				lost := errorAs[*transport.LostError](t, err)
				if !lost.Confirmed || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %v, want %q in it", err, tt.text)
				}
				if r := c.Result(); r == nil || r.Signal != "SIGTERM" {
					t.Errorf("Result = %+v, want the acknowledgement's", r)
				}
			})
		})
	}
}

func TestOutputOfExactlyTheLimitPasses(t *testing.T) {
	// Three bytes that are no UTF-8 are nine bytes of text.
	bubble(t, transport.Config{}, []Step{executing(), stdout("\ufffd\ufffd\ufffd"), stderr("\ufffd\ufffd\ufffd"), finish(exit0)}, func(t *testing.T, p *pod) {
		c := p.Command(t.Context(), "x")
		c.MaxOutput = 3
		if out, err := c.CombinedOutput(); err != nil || len(out) != 18 {
			t.Errorf("got %q, %v", out, err)
		}
	})
}

// TestPeerThatNeverCloses has the complete answer and a connection that stays.
func TestPeerThatNeverCloses(t *testing.T) {
	steps := []Step{executing(), stdout("x"), Send(exit0), Terminator(), cancel(completed), On("exec"), ExpectClose()}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		out, err := p.Command(t.Context(), "x").Output()
		lost := errorAs[*transport.LostError](t, err)
		errorAs[*transport.ProtocolError](t, err)
		if !lost.Confirmed || lost.Result.ExitCode != 0 || string(out) != "x" || !strings.Contains(err.Error(), "not closed within 1s") {
			t.Errorf("got %q, %v", out, err)
		}
		p.took(t, time.Second)
	})
}

// TestLostAndUnconfirmed has a stream that breaks and a guest that does not
// confirm the program's end.
func TestLostAndUnconfirmed(t *testing.T) {
	unconfirmed := `{"ok":false,"guestBootId":"boot-1","error":"cancellation_unconfirmed","message":"group 4711 still present"}`
	fenced := strings.Replace(strings.Replace(features, "true", "false", 1), "}", `,"retiring":true}`, 1)
	silent := Seq(Accept(), Expect("cancel-execution"), Hang())
	for _, tt := range []struct {
		name                string
		steps               []Step
		retiring, restarted bool
		text                string
		took                time.Duration
	}{
		{"a guest that has fenced itself lets cancels wait and says so when asked", []Step{silent, silent, serve("healthz", fenced)},
			true, false, "no answer came within 2s; the guest has fenced itself", 2*time.Second + 50*time.Millisecond + 2*time.Second + 50*time.Millisecond},
		{"a guest that says that it could not confirm it is asked at once", []Step{cancel(unconfirmed), serve("healthz", fenced)},
			true, false, "group 4711 still present; the guest has fenced itself", 50 * time.Millisecond},
		{"a guest that is well is asked once and cancelled on", []Step{silent, silent, serve("healthz", features), silent, silent},
			false, false, "no acknowledgement came within 8s", 8 * time.Second},
		{"a guest that is silent throughout", []Step{silent, silent, Seq(Accept(), Expect("healthz"), Hang()), silent},
			false, false, "no acknowledgement came within 8s", 8 * time.Second},
		{"a guest that does not know the program", []Step{cancel(`{"ok":false,"guestBootId":"boot-1","error":"unknown_execution"}`)},
			false, false, "unknown_execution", 0},
		{"a guest that was restarted", []Step{cancel(`{"ok":false,"guestBootId":"boot-2","error":"unknown_execution"}`)},
			false, true, "the guest was restarted", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, append([]Step{executing(), stdout("x"), Close()}, tt.steps...), func(t *testing.T, p *pod) {
				c := p.Command(t.Context(), "x")
				out, err := c.Output()
				e := errorAs[*transport.CancelError](t, err)
				if e.Retiring != tt.retiring || e.Restarted != tt.restarted || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %+v: %v, want %q in it", e, err, tt.text)
				}
				if !errors.Is(err, io.ErrUnexpectedEOF) || string(out) != "x" || c.Result() != nil || transport.SafeToRetry(err) {
					t.Errorf("got %q, %v, %+v", out, err, c.Result())
				}
				p.took(t, tt.took)
			})
		})
	}
}

// TestCancelIsRepeated has a guest whose answers to the first cancels are
// worthless.
func TestCancelIsRepeated(t *testing.T) {
	for name, bad := range map[string]Step{
		"the connection is closed":  Seq(Accept(), Expect("cancel-execution"), Close()),
		"the connection is reset":   Seq(Accept(), Expect("cancel-execution"), Reset()),
		"an unknown outcome":        cancel(`{"ok":true,"state":"running","started":true}`),
		"a refused token":           cancel(`{"ok":false,"error":"unauthorized"}`),
		"a guest that fenced":       cancel(`{"ok":false,"error":"agent_retiring"}`),
		"bytes behind the answer":   Seq(Accept(), Expect("cancel-execution"), SendBytes(append(frames(cancelled), 'x')), ExpectClose()),
		"no close after the answer": Seq(Accept(), Expect("cancel-execution"), Send(cancelled), ExpectClose()),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{executing(), Close(), bad, cancel(cancelled)}, func(t *testing.T, p *pod) {
				err := p.Command(t.Context(), "x").Run()
				if lost := errorAs[*transport.LostError](t, err); !lost.Confirmed {
					t.Errorf("got %v", err)
				}
				want := 50 * time.Millisecond
				if strings.HasPrefix(name, "no close") {
					want += time.Second
				}
				p.took(t, want)
			})
		})
	}
}

// TestGuestThatIsGone has nobody to cancel at: the attempts fail fast and are
// made until the time is over.
func TestGuestThatIsGone(t *testing.T) {
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		l, err := p.net.Listen("tcp", podIP+":1024")
		if err != nil {
			t.Fatal(err)
		}
		Start(t, l, executing(), Do("listener closed", l.Close), Close())
		err = p.Command(t.Context(), "x").Run()
		errorAs[*transport.CancelError](t, err)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v", err)
		}
		p.took(t, 8*time.Second)
	})
}

// TestSilentGuest has connections that nothing comes over.
func TestSilentGuest(t *testing.T) {
	t.Run("no id is reserved", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{Accept(), Expect("reserve-execution"), ExpectClose()}, func(t *testing.T, p *pod) {
			err := p.Command(t.Context(), "x").Start()
			if errorAs[*transport.StartError](t, err); !strings.Contains(err.Error(), "no execution id was reserved within 2s") {
				t.Errorf("got %v", err)
			}
			p.took(t, 2*time.Second)
		})
	})
	t.Run("trickling does not make it last longer", func(t *testing.T) {
		steps := []Step{Accept(), Expect("reserve-execution"), Trickle(frames(reserved)[:20], 99*time.Millisecond), ExpectClose()}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			errorAs[*transport.StartError](t, p.Command(t.Context(), "x").Start())
			p.took(t, 2*time.Second)
		})
	})
	t.Run("no connection is made", func(t *testing.T) {
		bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
			p.net.Silence(podIP)
			err := p.Command(t.Context(), "x").Start()
			if e := errorAs[*transport.DialError](t, err); e.Elapsed != 2*time.Second || !strings.Contains(err.Error(), "NetworkPolicy") {
				t.Errorf("got %v", err)
			}
			p.took(t, 2*time.Second)
		})
	})
	t.Run("the program is ended when the guest has not done so", func(t *testing.T) {
		steps := []Step{executing(), stdout("x"), cancel(cancelled), On("exec"), finish(sigterm)}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "x")
			c.Timeout = 10 * time.Second
			out, err := c.Output()
			exit := errorAs[*transport.ExitError](t, err)
			if !exit.TimedOut || !c.Result().TimedOut || string(out) != "x" || !strings.Contains(err.Error(), "timed out after 10s") {
				t.Errorf("got %q, %v", out, err)
			}
			p.took(t, 10*time.Second+500*time.Millisecond)
		})
	})
	t.Run("what the guest says of a program that it ended itself is left alone", func(t *testing.T) {
		steps := []Step{executing(), cancel(completed), On("exec"), finish(exit0)}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			if err := p.Command(t.Context(), "x").Run(); err != nil {
				t.Errorf("got %v", err)
			}
			p.took(t, 5*time.Minute+500*time.Millisecond)
		})
	})
	for _, tt := range []struct {
		name     string
		answer   Step
		timedOut bool
		took     time.Duration
	}{
		{"a result that comes before the word that the guest ended it", Seq(Delay(25*time.Millisecond), answer(cancelled)), true, 25 * time.Millisecond},
		{"a result that comes before the word that it ended by itself", Seq(Delay(25*time.Millisecond), answer(completed)), false, 25 * time.Millisecond},
		{"a result that comes without any such word", ExpectClose(), true, 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps := []Step{executing(), AcceptAs("cancel"), Expect("cancel-execution"), On("exec"), finish(exit0), On("cancel"), tt.answer}
			bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
				c := p.Command(t.Context(), "x")
				c.Timeout = time.Second
				err := c.Run()
				if _, exit := errors.AsType[*transport.ExitError](err); exit != tt.timedOut || c.Result().TimedOut != tt.timedOut {
					t.Errorf("got %v, %+v", err, c.Result())
				}
				p.took(t, 1500*time.Millisecond+tt.took)
			})
		})
	}
	t.Run("the end is confirmed and the stream stays silent", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{executing(), cancel(cancelled), On("exec"), ExpectClose()}, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "x")
			c.Timeout = time.Second
			err := c.Run()
			lost := errorAs[*transport.LostError](t, err)
			if !lost.Confirmed || lost.Result.Signal != "SIGTERM" || !strings.Contains(err.Error(), "within 1.5s of the program's end") || !strings.Contains(err.Error(), "timeout of 1s") {
				t.Errorf("got %v", err)
			}
			p.took(t, 3*time.Second)
		})
	})
	t.Run("a trickling stream is not waited for any longer", func(t *testing.T) {
		steps := []Step{executing(), cancel(cancelled), On("exec"), Trickle(frames(sigterm)[:14], 100*time.Millisecond), ExpectClose()}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "x")
			c.Timeout = time.Second
			errorAs[*transport.LostError](t, c.Run())
			p.took(t, 3*time.Second)
		})
	})
	t.Run("nothing is confirmed either", func(t *testing.T) {
		silent := Seq(Accept(), Hang())
		bubble(t, transport.Config{}, []Step{executing(), silent, silent, silent, silent, On("exec"), ExpectClose()}, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "x")
			c.Timeout = time.Second
			err := c.Run()
			if errorAs[*transport.CancelError](t, err); !strings.Contains(err.Error(), "timeout of 1s") {
				t.Errorf("got %v", err)
			}
			p.took(t, time.Second+500*time.Millisecond+8*time.Second)
		})
	})
}

// TestFloodingGuest has a peer that sends without end: it is stopped by what
// was asked for, and memory is not what stops it.
func TestFloodingGuest(t *testing.T) {
	for name, flood := range map[string][]byte{
		"output":           frames(`{"type":"stdout_delta","data":"` + strings.Repeat("x", 60_000) + `"}`),
		"no header at all": bytes.Repeat([]byte("0"), 60_000),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{executing(), Send(`{"type":"stdout_delta","data":"x"}`), Flood(flood, 1<<30)}, func(t *testing.T, p *pod) {
				p.play(t, "10.0.0.8", Seq()) // the cancel goes nowhere else
				c := p.Command(t.Context(), "x")
				c.MaxOutput = 1 << 20
				err := c.Run()
				if _, ok := errors.AsType[*transport.CancelError](err); !ok {
					t.Errorf("got %v", err)
				}
				errorAs[*transport.ProtocolError](t, err)
			})
		})
	}
}

// TestEmptyEventsDoNotGoOnForever has a peer that keeps within what was allowed
// and still sends without end, after the program's end was confirmed.
func TestEmptyEventsDoNotGoOnForever(t *testing.T) {
	var beat []Step
	for range 20 {
		beat = append(beat, Delay(100*time.Millisecond), stdout(""))
	}
	steps := []Step{executing(), cancel(cancelled), On("exec"), Seq(beat[:2*14]...), ExpectClose()}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		c := p.Command(t.Context(), "x")
		c.Timeout = time.Second
		errorAs[*transport.LostError](t, c.Run())
		p.took(t, 3*time.Second)
	})
}

func ExampleSafeToRetry() {
	fmt.Println(transport.SafeToRetry(&transport.DialError{}), transport.SafeToRetry(&transport.LostError{Sent: true}))
	// Output: true false
}
