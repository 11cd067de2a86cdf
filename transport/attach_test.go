package transport_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

func TestAttach(t *testing.T) {
	known := serve("healthz", features)
	refuse := func(text string) Step { return answer(`{"type":"error",` + text + `}`) }
	for _, tt := range []struct {
		name  string
		from  int64
		steps []Step
		out   string
		gap   transport.Gap
		check func(t *testing.T, err error, a *transport.Attachment)
	}{
		{"from the beginning", 0, []Step{known, attach(0), attached(0, 0), keptOut("one", 0), Delay(time.Hour), Send(kept("stderr", "two", 3)), attachEnd("completed", result0, 6)}, "onetwo", transport.Gap{},
			func(t *testing.T, err error, a *transport.Attachment) {
				if err != nil || a.Offset() != 6 || a.Result() == nil {
					t.Errorf("got %v, offset %d", err, a.Offset())
				}
			}},
		{"from somewhere, of which nothing is kept", 3, []Step{known, attach(3), attached(9, 6), attachEnd("cancelled", resultT, 9)}, "", transport.Gap{From: 3, Dropped: 6},
			func(t *testing.T, err error, a *transport.Attachment) {
				if e := errorAs[*transport.ExitError](t, err); e.Signal != "SIGTERM" || !e.StdoutTruncated || !strings.Contains(e.Error(), "execution "+id+": killed by SIGTERM") {
					t.Errorf("got %v", err)
				}
			}},
		{"across a cut", 3, []Step{known, attach(3), attached(3, 0), keptOut("one", 3), Delay(time.Millisecond), Reset(), attach(6), attached(6, 0), keptOut("two", 6), attachEnd("completed", result0, 9)}, "onetwo", transport.Gap{},
			func(t *testing.T, err error, a *transport.Attachment) {
				if err != nil || a.Offset() != 9 {
					t.Errorf("got %v, offset %d", err, a.Offset())
				}
			}},
		{"to what never started", 0, []Step{known, attach(0), refuse(`"error":"output_not_retained","state":"reserved"`)}, "", transport.Gap{},
			func(t *testing.T, err error, a *transport.Attachment) {
				if e := errorAs[*transport.NotAttachableError](t, err); e.Reason != "output_not_retained" || e.State != "reserved" || e.ID != id || !transport.SafeToRetry(err) {
					t.Errorf("got %+v", e)
				}
			}},
		{"to what is not known", 0, []Step{known, attach(0), refuse(`"error":"unknown_execution"`)}, "", transport.Gap{},
			func(t *testing.T, err error, a *transport.Attachment) {
				if e := errorAs[*transport.NotAttachableError](t, err); e.Reason != "unknown_execution" {
					t.Errorf("got %+v", e)
				}
			}},
		{"to a guest that has fenced itself", 0, []Step{known, attach(0), refuse(`"error":"agent_retiring"`)}, "", transport.Gap{},
			func(t *testing.T, err error, a *transport.Attachment) { errorAs[*transport.RetiringError](t, err) }},
		{"with the wrong token", 0, []Step{known, attach(0), answer(`{"ok":false,"error":"unauthorized"}`)}, "", transport.Gap{},
			func(t *testing.T, err error, a *transport.Attachment) {
				errorAs[*transport.UnauthorizedError](t, err)
			}},
		{"to an older guest", 0, []Step{serve("healthz", `{"ok":true,"protocolVersion":2,"features":[]}`)}, "", transport.Gap{},
			func(t *testing.T, err error, a *transport.Attachment) { errorAs[*transport.UnsupportedError](t, err) }},
		{"to a peer that says nothing", 0, []Step{known, attach(0), Hang()}, "", transport.Gap{},
			func(t *testing.T, err error, a *transport.Attachment) { errorAs[*transport.LostError](t, err) }},
		{"to a program that goes on, until the context ends", 0, []Step{Patience(3 * time.Hour), known, attach(0), attached(0, 0), keptOut("one", 0), ExpectClose()}, "one", transport.Gap{},
			func(t *testing.T, err error, a *transport.Attachment) {
				if e := errorAs[*transport.ExecutionDetachedError](t, err); e.Offset != 3 || !errors.Is(err, errCause) || a.Result() != nil {
					t.Errorf("got %+v", e)
				}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				a := p.Attach(endAfter(t, 2*time.Hour), id, tt.from)
				var out bytes.Buffer
				var gap transport.Gap
				a.Stdout, a.Stderr, a.OnGap = &out, &out, func(g transport.Gap) { gap = g }
				err := a.Run()
				if out.String() != tt.out || gap != tt.gap {
					t.Errorf("got %q with %+v, want %q with %+v", &out, gap, tt.out, tt.gap)
				}
				tt.check(t, err, a)
				if err := a.Run(); err == nil {
					t.Error("an Attachment can be used twice")
				}
			})
		})
	}
	bubble(t, transport.Config{}, []Step{known, attach(0), attached(0, 0), keptOut("one", 0), ExpectClose()}, func(t *testing.T, p *pod) {
		a := p.Attach(t.Context(), id, 0)
		a.Stdout = failing{}
		if err := a.Run(); !errors.Is(err, errFailing) {
			t.Errorf("a writer that fails: %v", err)
		}
		p.took(t, 0)
	})
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		errorAs[*transport.NotAttachableError](t, p.Attach(t.Context(), id, -1).Run())
		errorAs[*transport.NotAttachableError](t, p.Attach(t.Context(), "exec_7", 0).Run())
		if n := p.dials.Load(); n != 0 {
			t.Errorf("%d connections for what can be refused here", n)
		}
	})
}

func TestCancelExecution(t *testing.T) {
	unconfirmed := cancel(`{"ok":false,"error":"cancellation_unconfirmed","message":"group outlives its leader"}`)
	for _, tt := range []struct {
		name  string
		steps []Step
		check func(t *testing.T, o transport.Outcome, err error)
	}{
		{"a program that runs", []Step{cancel(cancelled)}, func(t *testing.T, o transport.Outcome, err error) {
			if err != nil || !o.Cancelled || !o.Started || o.Result.Signal != "SIGTERM" {
				t.Errorf("got %+v, %v", o, err)
			}
		}},
		{"a program that had ended", []Step{cancel(completed)}, func(t *testing.T, o transport.Outcome, err error) {
			if err != nil || o.Cancelled || !o.Started || o.Result.ExitCode != 0 {
				t.Errorf("got %+v, %v", o, err)
			}
		}},
		{"a program that never started", []Step{cancel(neverStarted)}, func(t *testing.T, o transport.Outcome, err error) {
			if err != nil || !o.Cancelled || o.Started {
				t.Errorf("got %+v, %v", o, err)
			}
		}},
		{"a program that could not start", []Step{cancel(failedStart)}, func(t *testing.T, o transport.Outcome, err error) {
			if err != nil || o.Cancelled || o.Started || o.Text != "spawn nope ENOENT" {
				t.Errorf("got %+v, %v", o, err)
			}
		}},
		{"a program that nobody knows", []Step{cancel(`{"ok":false,"error":"unknown_execution"}`)}, func(t *testing.T, o transport.Outcome, err error) {
			if e := errorAs[*transport.NotAttachableError](t, err); e.Reason != "unknown_execution" {
				t.Errorf("got %+v", e)
			}
		}},
		{"a lost answer", []Step{Accept(), Expect("cancel-execution"), Close(), cancel(cancelled)}, func(t *testing.T, o transport.Outcome, err error) {
			if err != nil || !o.Cancelled {
				t.Errorf("got %+v, %v", o, err)
			}
		}},
		{"the wrong token", []Step{cancel(`{"ok":false,"error":"unauthorized"}`)}, func(t *testing.T, o transport.Outcome, err error) {
			errorAs[*transport.UnauthorizedError](t, err)
		}},
		{"a guest that fences itself", []Step{unconfirmed, unconfirmed, serve("healthz", `{"ok":false,"protocolVersion":2,"features":[],"retiring":true}`)}, func(t *testing.T, o transport.Outcome, err error) {
			if e := errorAs[*transport.CancelError](t, err); !e.Retiring {
				t.Errorf("got %+v", e)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				o, err := p.CancelExecution(t.Context(), id)
				tt.check(t, o, err)
			})
		})
	}
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		_, err := p.CancelExecution(t.Context(), "no id")
		errorAs[*transport.NotAttachableError](t, err)
	})
}
