package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

var errCause = errors.New("the caller's cause")

// endAfter is a context that ends with errCause after d.
func endAfter(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errCause)
	t.Cleanup(cancel)
	return ctx
}

// cancelAfter returns a context that is cancelled with errCause, which is no
// deadline.
func cancelAfter(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(d, func() { cancel(errCause) })
	t.Cleanup(func() { timer.Stop(); cancel(nil) })
	return ctx
}

// TestContextEndsARunningProgram ends the context 3 seconds into a program.
func TestContextEndsARunningProgram(t *testing.T) {
	type outcome int
	const (
		stopped outcome = iota
		lost
		unconfirmed
	)
	exec := func(s ...Step) Step { return Seq(On("exec"), Seq(s...)) }
	cancelOpen := Seq(AcceptAs("cancel"), Expect("cancel-execution"))
	silent := Seq(Accept(), Expect("cancel-execution"), Hang())
	for _, tt := range []struct {
		name   string
		steps  []Step
		want   outcome
		signal string // of the Result, empty when there is none
		output string
		took   time.Duration
	}{
		{"the acknowledgement comes first", []Step{cancel(cancelled), exec(Delay(25*time.Millisecond), stdout("bye"), finish(sigterm))},
			stopped, "SIGTERM", "hello bye", 3025 * time.Millisecond},
		{"the stream's result comes first, as it does from a real guest", []Step{cancelOpen, Delay(252 * time.Millisecond), exec(stdout("bye"), finish(sigterm)), On("cancel"), ExpectClose()},
			stopped, "SIGTERM", "hello bye", 3252 * time.Millisecond},
		{"the program had not been started", []Step{cancel(neverStarted), exec(ExpectClose())},
			stopped, "", "hello ", 3 * time.Second},
		{"the start had failed", []Step{cancel(failedStart), exec(ExpectClose())},
			stopped, "", "hello ", 3 * time.Second},
		{"the program ended by itself in the same moment", []Step{cancel(completed), exec(finish(exit0))},
			stopped, "-", "hello ", 3 * time.Second},
		{"the rest of the output does not come", []Step{cancel(cancelled), exec(stdout("bye"), ExpectClose())},
			lost, "SIGTERM", "hello bye", 4500 * time.Millisecond},
		{"the connection breaks when the program ends", []Step{cancel(cancelled), exec(Close())},
			lost, "SIGTERM", "hello ", 3 * time.Second},
		{"the connection breaks before the acknowledgement", []Step{cancelOpen, exec(Close()), On("cancel"), Delay(time.Second), answer(cancelled)},
			lost, "SIGTERM", "hello ", 4 * time.Second},
		{"the first cancel goes astray", []Step{silent, cancel(cancelled), exec(finish(sigterm))},
			stopped, "SIGTERM", "hello ", 5050 * time.Millisecond},
		{"nothing is confirmed", []Step{silent, silent, silent, silent, exec(ExpectClose())},
			unconfirmed, "", "hello ", 11 * time.Second},
		{"the guest does not know the program", []Step{cancel(`{"ok":false,"error":"unknown_execution"}`), exec(ExpectClose())},
			unconfirmed, "", "hello ", 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == unconfirmed && tt.took > 10*time.Second {
				tt.steps[2] = Seq(Accept(), Expect("healthz"), Hang())
			}
			bubble(t, transport.Config{}, append([]Step{executing(), stdout("hello ")}, tt.steps...), func(t *testing.T, p *pod) {
				c := p.Command(endAfter(t, 3*time.Second), "x")
				out, err := c.CombinedOutput()
				if !errors.Is(err, errCause) {
					t.Errorf("%v does not wrap the context's cause", err)
				}
				switch tt.want {
				case stopped:
					if e := errorAs[*transport.StoppedError](t, err); e.Result != c.Result() {
						t.Errorf("the error has %+v and the Cmd %+v", e.Result, c.Result())
					}
				case lost:
					if e := errorAs[*transport.LostError](t, err); !e.Confirmed || e.Cause != errCause {
						t.Errorf("got %+v", e)
					}
				case unconfirmed:
					errorAs[*transport.CancelError](t, err)
				}
				r := c.Result()
				if (r == nil) != (tt.signal == "") || r != nil && r.Signal != strings.Trim(tt.signal, "-") {
					t.Errorf("Result = %+v, want %q", r, tt.signal)
				}
				if string(out) != tt.output {
					t.Errorf("output %q, want %q", out, tt.output)
				}
				p.took(t, tt.took)
			})
		})
	}
}

// TestContextEndsBeforeTheProgramStarts ends the context in each step of Start:
// the cause itself comes back, and nothing was started.
func TestContextEndsBeforeTheProgramStarts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(*testing.T, *pod)
		stdin   io.Reader
		steps   []Step
	}{
		{"connecting", func(_ *testing.T, p *pod) { p.net.Silence(podIP) }, nil, nil},
		{"between two attempts to connect", nil, nil, nil},
		{"reserving", nil, nil, []Step{Accept(), Expect("reserve-execution"), ExpectClose()}},
		{"after the reply, before the close", nil, nil, []Step{Accept(), Expect("reserve-execution"), Send(reserved), ExpectClose()}},
		{"asking for features", nil, strings.NewReader("x"), []Step{Accept(), Expect("healthz"), ExpectClose()}},
		{"putting the input into a file", nil, strings.NewReader("x"), []Step{
			serve("healthz", features), Accept(), Expect("write-file"), ExpectClose(),
			serve("write-file", `{"ok":true,"discarded":true}`, Field("part.discard", true))}},
		{"reserving after that", nil, strings.NewReader("x"), []Step{
			serve("healthz", features), serve("write-file", `{"ok":true,"bytesWritten":1,"sizeBytes":1}`),
			Accept(), Expect("reserve-execution"), ExpectClose(),
			serve("write-file", `{"ok":true,"discarded":true}`, Field("part.discard", true))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				if tt.prepare != nil {
					tt.prepare(t, p)
				}
				c := p.Command(endAfter(t, 950*time.Millisecond), "x")
				c.Stdin = tt.stdin
				if err := c.Start(); err != errCause {
					t.Errorf("got %v, want the cause itself", err)
				}
				p.took(t, 950*time.Millisecond)
			})
		})
	}
	t.Run("while the request to execute cannot be written", func(t *testing.T) {
		steps := []Step{reserve(), Accept(), Delay(time.Second), Hang()}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			p.net.Buffer = 1000
			c := p.Command(endAfter(t, 950*time.Millisecond), "x", strings.Repeat("a", 5000))
			if err := c.Start(); err != errCause {
				t.Errorf("got %v, want the cause itself", err)
			}
			p.took(t, 950*time.Millisecond)
		})
	})
}

// TestContextEndsAfterTheStreamBroke sees that the caller's cause is not hidden
// by what happened before.
func TestContextEndsAfterTheStreamBroke(t *testing.T) {
	steps := []Step{executing(), Close(), Accept(), Expect("cancel-execution"), Delay(1500 * time.Millisecond), answer(cancelled)}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		err := p.Command(endAfter(t, time.Second), "x").Run()
		if e := errorAs[*transport.LostError](t, err); !e.Confirmed || !errors.Is(err, errCause) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
		p.took(t, 1500*time.Millisecond)
	})
}

// TestContextEndsAfterTheTimeout likewise.
func TestContextEndsAfterTheTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		steps []Step
		is    func(error) bool
	}{
		"and no result comes": {[]Step{cancel(cancelled), On("exec"), ExpectClose()},
			func(err error) bool {
				e, ok := errors.AsType[*transport.LostError](err)
				return ok && e.Cause == errCause
			}},
		"and the result comes": {[]Step{cancel(cancelled), On("exec"), Delay(time.Second), finish(sigterm)},
			func(err error) bool {
				e, ok := errors.AsType[*transport.ExitError](err)
				return ok && e.TimedOut && !errors.Is(err, errCause)
			}},
	} {
		bubble(t, transport.Config{}, append([]Step{executing()}, tt.steps...), func(t *testing.T, p *pod) {
			c := p.Command(endAfter(t, 2*time.Second), "x")
			c.Timeout = time.Second
			if err := c.Run(); err == nil || !tt.is(err) {
				t.Errorf("%s: %T %v", name, err, err)
			}
		})
	}
}

func TestWriterThatFails(t *testing.T) {
	steps := []Step{executing(), stdout("x"), cancel(cancelled), On("exec"), stdout("y"), stderr("z"), finish(sigterm)}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		c := p.Command(t.Context(), "x")
		var errs bytes.Buffer
		c.Stdout, c.Stderr = failing{}, &errs
		err := c.Run()
		if e := errorAs[*transport.StoppedError](t, err); e.Result.Signal != "SIGTERM" || !errors.Is(err, errFailing) || errs.String() != "z" {
			t.Errorf("got %v, %q", err, &errs)
		}
	})
	t.Run("in the moment in which the program ends", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{executing(), Seq(stdout("x"), finish(exit0))}, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "x")
			c.Stdout = writer(func(b []byte) (int, error) { time.Sleep(time.Second); return len(b) - 1, nil })
			if err := c.Run(); !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("got %v, want a short write", err)
			}
		})
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestSlowWriter takes an hour for output of a program that ran a second: that
// is no reason to give anything up, and does not hold up anybody else.
func TestSlowWriter(t *testing.T) {
	steps := []Step{
		Patience(24 * time.Hour), executing(), stdout("a"), stdout("b"), Delay(time.Second), finish(exit0),
	}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		c := p.Command(t.Context(), "x")
		c.Timeout = 10 * time.Second
		var got bytes.Buffer
		c.Stdout = writer(func(b []byte) (int, error) { time.Sleep(time.Hour); return got.Write(b) })
		if err := c.Run(); err != nil || got.String() != "ab" {
			t.Errorf("got %q, %v", &got, err)
		}
		p.took(t, 2*time.Hour)
	})
	t.Run("the guest's time counts all the same", func(t *testing.T) {
		steps := []Step{Patience(24 * time.Hour), executing(), stdout("a"), cancel(cancelled), On("exec"), ExpectClose()}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			c := p.Command(t.Context(), "x")
			c.Timeout = 10 * time.Second
			c.Stdout = writer(func(b []byte) (int, error) { time.Sleep(time.Hour); return len(b), nil })
			errorAs[*transport.LostError](t, c.Run())
			p.took(t, time.Hour+12*time.Second) // 10 s, half a second more, and the wait for the end
		})
	})
	t.Run("a context that ends meanwhile has the program ended at once", func(t *testing.T) {
		var at time.Duration
		bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
			p.play(t, podIP, Patience(24*time.Hour), executing(), stdout("a"), cancel(cancelled), Do("noted", func() error { at = time.Since(p.start); return nil }), On("exec"), finish(sigterm))
			c := p.Command(endAfter(t, 3*time.Second), "x")
			c.Stdout = writer(func(b []byte) (int, error) { time.Sleep(time.Hour); return len(b), nil })
			errorAs[*transport.StoppedError](t, c.Run())
			if at != 3*time.Second {
				t.Errorf("the program was ended after %v", at)
			}
			p.took(t, time.Hour)
		})
	})
}

// TestClose closes the Agent during each thing that can be waited for.
func TestClose(t *testing.T) {
	const at = 500 * time.Millisecond
	for _, tt := range []struct {
		name  string
		steps []Step
		call  func(*pod) error
		took  time.Duration
	}{
		{"a running program is ended", []Step{executing(), cancel(cancelled), On("exec"), finish(sigterm)},
			func(p *pod) error { return p.Command(context.Background(), "x").Run() }, at},
		{"a program whose end is not confirmed is not waited for as long as usual", []Step{executing(), Accept(), Expect("cancel-execution"), ExpectClose(), On("exec"), ExpectClose()},
			func(p *pod) error { return p.Command(context.Background(), "x").Run() }, at + 2*time.Second},
		{"a reservation", []Step{Accept(), Expect("reserve-execution"), ExpectClose()},
			func(p *pod) error { return p.Command(context.Background(), "x").Run() }, at},
		{"a health check", []Step{Accept(), Expect("healthz"), ExpectClose()},
			func(p *pod) error { _, err := p.Health(context.Background()); return err }, at},
		{"a read", []Step{serve("healthz", features), Accept(), Expect("read-file-stream"), ExpectClose()},
			func(p *pod) error { _, err := p.ReadFile(context.Background(), "a"); return err }, at},
		{"a write", []Step{Accept(), Expect("write-file"), ExpectClose()},
			func(p *pod) error {
				_, err := p.WriteFile(context.Background(), "a", strings.NewReader("x"))
				return err
			}, at},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				done := make(chan error, 1)
				go func() { done <- tt.call(p) }()
				time.Sleep(at)
				if err := p.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
				select {
				case err := <-done:
					if !errors.Is(err, transport.ErrClosed) {
						t.Errorf("the call ended with %v", err)
					}
				case <-time.After(time.Nanosecond):
					t.Error("Close did not wait for the call")
				}
				if got := time.Since(p.start).Truncate(time.Millisecond); got != tt.took {
					t.Errorf("Close was done after %v, want %v", got, tt.took)
				}
				if err := p.Close(); err != nil {
					t.Errorf("second Close = %v", err)
				}
			})
		})
	}
}

// TestManyAtOnce runs programs of which some are ended; the others do not
// notice.
func TestManyAtOnce(t *testing.T) {
	steps := []Step{
		reserve(), AcceptAs("a"), Expect("execute", Field("command", "a")), stdout("a1 "),
		Delay(2 * time.Second), reserve(), AcceptAs("b"), Expect("execute", Field("command", "b")), stdout("b1 "),
		Accept(), Expect("cancel-execution"), answer(cancelled), On("b"), finish(sigterm),
		On("a"), Delay(time.Second), stdout("a2"), finish(exit0),
	}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		a := p.Command(t.Context(), "a")
		var out bytes.Buffer
		a.Stdout = &out
		if err := a.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		got, err := p.Command(endAfter(t, 2*time.Second), "b").Output()
		if errorAs[*transport.StoppedError](t, err); string(got) != "b1 " {
			t.Errorf("b: %q, %v", got, err)
		}
		if err := a.Wait(); err != nil || out.String() != "a1 a2" {
			t.Errorf("a: %q, %v", &out, err)
		}
		p.took(t, 4*time.Second)
	})
}
