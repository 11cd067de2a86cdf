package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// turnedAway answers a request that the guest has not read.
func turnedAway(op string) Step {
	return Seq(Accept(), Expect(op), answer(`{"ok":false,"error":"too_many_unauthenticated_connections: limit 64 (NAMZU_AGENT_MAX_PREAUTH_CONNECTIONS)"}`))
}

// TestCrowdedGuest turns each operation away once, before it has read its
// request, and carries it out when it comes again.
func TestCrowdedGuest(t *testing.T) {
	away := turnedAway
	known := Seq(away("healthz"), serve("healthz", features))
	for _, tt := range []struct {
		name  string
		steps []Step
		times int // turned away
		do    func(ctx context.Context, p *pod) error
	}{
		{"a program", []Step{away("reserve-execution"), reserve(), away("execute"), Accept(), Expect("execute", Field("executionId", id)), stdout("x"), finish(exit0)}, 2, func(ctx context.Context, p *pod) error {
			out, err := p.Command(ctx, "x").Output()
			if string(out) != "x" {
				t.Errorf("got %q", out)
			}
			return err
		}},
		{"a written file", []Step{away("write-file"), away("write-file"), serve("write-file", `{"ok":true,"bytesWritten":1}`)}, 2, func(ctx context.Context, p *pod) error {
			_, err := p.WriteFile(ctx, "f", strings.NewReader("x"))
			return err
		}},
		{"a read file", []Step{known, away("read-file-stream"), Accept(), Expect("read-file-stream"), Send(`{"type":"meta","sizeBytes":1,"offset":0,"length":1}`), Send(fileData("x")), Send(`{"type":"end","bytesSent":1}`), ExpectClose()}, 2, func(ctx context.Context, p *pod) error {
			_, err := p.ReadFile(ctx, "f")
			return err
		}},
		{"a file that is opened", []Step{known, away("read-file-stream"), Accept(), Expect("read-file-stream"), Send(`{"type":"meta","sizeBytes":1,"offset":0,"length":1}`), ExpectClose()}, 2, func(ctx context.Context, p *pod) error {
			f, err := p.Open(ctx, "f")
			if err == nil {
				f.Close()
			}
			return err
		}},
		{"a port", []Step{away("tcp-connect"), connected(), ExpectClose()}, 1, func(ctx context.Context, p *pod) error {
			c, err := p.DialGuest(ctx, 80)
			if err == nil {
				c.Close()
			}
			return err
		}},
		{"a terminal", []Step{away("terminal"), opening(), answer(termExit0)}, 1, func(ctx context.Context, p *pod) error {
			_, err := p.OpenTerminal(ctx, transport.TerminalConfig{})
			return err
		}},
		{"an attachment", []Step{known, away("attach-execution"), attach(0), attached(0, 0), attachEnd("completed", result0, 0)}, 2, func(ctx context.Context, p *pod) error {
			return p.Attach(ctx, id, 0).Run()
		}},
		{"a look at a session", []Step{known, away("attach-session"), looking(0), sessionReady(0, 0, running), Terminator(), CloseWrite(), ExpectClose()}, 2, func(ctx context.Context, p *pod) error {
			_, err := p.ReadSession(ctx, "web", 0)
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				if err := tt.do(t.Context(), p); err != nil {
					t.Error(err)
				}
				p.took(t, time.Duration(tt.times)*100*time.Millisecond)
			})
		})
	}
	t.Run("for as long as connecting may take", func(t *testing.T) {
		bubble(t, transport.Config{DialBudget: 250 * time.Millisecond}, []Step{away("write-file"), away("write-file"), away("write-file")}, func(t *testing.T, p *pod) {
			if _, err := p.WriteFile(t.Context(), "f", strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "too_many_unauthenticated_connections") {
				t.Errorf("got %v", err)
			}
			p.took(t, 200*time.Millisecond)
		})
	})
	t.Run("until the context of a program ends", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{reserve(), away("execute")}, func(t *testing.T, p *pod) {
			err := p.Command(endAfter(t, 50*time.Millisecond), "x").Run()
			if e := errorAs[*transport.StoppedError](t, err); e.Cause != errCause || e.Result != nil {
				t.Errorf("got %+v", e)
			}
			p.took(t, 50*time.Millisecond)
		})
	})
}

// TestGreetings has many calls at once: no more than 32 connections wait to
// show who they are from.
func TestGreetings(t *testing.T) {
	var mu sync.Mutex
	dialling, most := 0, 0
	config := transport.Config{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialling++
		most = max(most, dialling)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		dialling--
		mu.Unlock()
		return nil, io.ErrClosedPipe
	}, DialBudget: time.Second}
	bubble(t, config, nil, func(t *testing.T, p *pod) {
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				_, err := p.Health(t.Context())
				errorAs[*transport.DialError](t, err)
			})
		}
		if _, err := p.Health(endAfter(t, 500*time.Millisecond)); err != errCause {
			t.Errorf("one that waits for its turn: %v", err)
		}
		calls.Wait()
		p.took(t, 4*time.Second)
		if most != 32 {
			t.Errorf("%d at a time, want 32", most)
		}
	})
}

// TestTurnsAreNotHeldAgainstTheGuest starts so many programs at once that most
// of them wait longer for their turn than an execution id may take.
func TestTurnsAreNotHeldAgainstTheGuest(t *testing.T) {
	config := transport.Config{DialContext: func(context.Context, string, string) (net.Conn, error) {
		time.Sleep(time.Second)
		return nil, io.ErrClosedPipe
	}, DialBudget: time.Second}
	bubble(t, config, nil, func(t *testing.T, p *pod) {
		var starts sync.WaitGroup
		for range 100 {
			starts.Go(func() {
				err := p.Command(t.Context(), "x").Start()
				if e := errorAs[*transport.DialError](t, err); e.Attempts != 1 || !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("got %v", err)
				}
			})
		}
		starts.Wait()
		p.took(t, 4*time.Second)
	})
}

// TestCrowdedRetained has the request for a program whose output is kept be
// turned away: what the guest has not read comes again, and nothing else does.
func TestCrowdedRetained(t *testing.T) {
	begin := Seq(serve("healthz", features), serve("reserve-execution", named))
	again := Seq(AcceptAs("exec"), Expect("execute", Field("executionId", id), Field("retainOutput", true)))
	for _, tt := range []struct {
		name  string
		steps []Step
	}{
		{"and is taken then", []Step{begin, turnedAway("execute"), turnedAway("execute"), again, keptOut("x", 0), finish(exit0)}},
		{"and is lost then", []Step{begin, turnedAway("execute"), again, Reset(), attach(0), attached(0, 0), keptOut("x", 0), attachEnd("completed", result0, 1)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				c, out, _ := p.retained(t.Context())
				if err := c.Run(); err != nil || out.String() != "x" {
					t.Errorf("got %q, %v", out, err)
				}
			})
		})
	}
}

// TestCrowdedAndThenEnded has a program be turned away, run when it comes again,
// and be ended without a word from the guest: that it was turned away once does
// not mean any more that it did not start.
func TestCrowdedAndThenEnded(t *testing.T) {
	silent := Seq(Accept(), Expect("cancel-execution"), Hang())
	steps := []Step{reserve(), turnedAway("execute"), AcceptAs("exec"), Expect("execute"), stdout("x"), silent, silent, Seq(Accept(), Expect("healthz"), Hang()), silent, On("exec"), ExpectClose()}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := p.Command(ctx, "x")
		c.Stdout = writer(func(b []byte) (int, error) { cancel(errCause); return len(b), nil })
		err := c.Run()
		if errorAs[*transport.CancelError](t, err); !errors.Is(err, errCause) || transport.SafeToRetry(err) {
			t.Errorf("got %v", err)
		}
	})
}
