package transport_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// TestAbort gives up a guest that is known to be gone.
func TestAbort(t *testing.T) {
	steps := []Step{executing(), Accept(), Expect("cancel-execution"), ExpectClose(), On("exec"), ExpectClose()}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		c := p.Command(context.Background(), "x")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if got := p.Running(); got != 1 {
			t.Errorf("%d programs run, want 1", got)
		}
		time.Sleep(time.Second)
		p.Abort(errCause)
		p.Abort(errFailing) // the first cause stays
		p.took(t, time.Second)
		err := c.Wait()
		errorAs[*transport.CancelError](t, err)
		for _, op := range []error{err, p.Command(t.Context(), "x").Run()} {
			if !errors.Is(op, errCause) || !errors.Is(op, transport.ErrClosed) || !errors.Is(op, net.ErrClosed) || errors.Is(op, errFailing) {
				t.Errorf("got %v, want the cause and ErrClosed in it", op)
			}
		}
		p.took(t, 3*time.Second)
		p.Close()
	})
}

// TestRunning counts programs.
func TestRunning(t *testing.T) {
	for name, tt := range map[string]struct {
		steps []Step
		want  int
	}{
		"a program that has ended":         {[]Step{executing(), finish(exit0)}, 0},
		"a program that was not started":   {[]Step{serve("reserve-execution", `{"ok":false,"error":"execution_capacity"}`)}, 0},
		"a program whose end is confirmed": {[]Step{executing(), Close(), cancel(cancelled)}, 0},
	} {
		bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
			p.Command(t.Context(), "x").Run()
			if got := p.Running(); got != tt.want {
				t.Errorf("%s: %d programs run, want %d", name, got, tt.want)
			}
		})
	}
}
