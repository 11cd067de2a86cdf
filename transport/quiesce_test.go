package transport_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

func TestQuiesce(t *testing.T) {
	known := serve("healthz", features)
	const done = `{"ok":true,"scope":"pid-namespace","graceMs":1000,"rounds":1,"stopped":[{"pid":9,"command":"sleep","signal":"SIGKILL"}]}`
	for _, tt := range []struct {
		name  string
		grace time.Duration
		steps []Step
		want  transport.Quiescence
		check func(t *testing.T, err error)
	}{
		{"something ran", time.Second, []Step{known, Accept(), Expect("quiesce", Body(`{"graceMs":1000}`)), Delay(50 * time.Second), answer(done)},
			transport.Quiescence{Everything: true, Grace: time.Second, Rounds: 1, Stopped: []transport.Stopped{{PID: 9, Name: "sleep", Signal: "SIGKILL"}}}, nil},
		{"nothing ran that the guest knew of", 0, []Step{known, serve("quiesce", `{"ok":true,"scope":"owned-sessions","graceMs":1000,"rounds":0,"stopped":[]}`, Body(`{}`))}, transport.Quiescence{Grace: time.Second}, nil},
		{"part of a millisecond", 1, []Step{known, serve("quiesce", `{"ok":true,"scope":"x","graceMs":1,"rounds":0,"stopped":[]}`, Body(`{"graceMs":1}`))}, transport.Quiescence{Grace: time.Millisecond}, nil},
		{"it is not confirmed", 0, []Step{known, serve("quiesce", `{"ok":false,"error":"quiesce_unconfirmed","message":"pid 7 is still there"}`)}, transport.Quiescence{}, func(t *testing.T, err error) {
			if e := errorAs[*transport.UnconfirmedError](t, err); e.Reason != "quiesce_unconfirmed" || !strings.Contains(err.Error(), "pid 7") || transport.SafeToRetry(err) {
				t.Errorf("got %v", err)
			}
		}},
		{"the guest says too late that it cannot", 0, []Step{known, serve("quiesce", `{"ok":false,"error":"unknown_op: quiesce"}`)}, transport.Quiescence{}, func(t *testing.T, err error) { errorAs[*transport.UnsupportedError](t, err) }},
		{"the guest cannot", 0, []Step{serve("healthz", `{"ok":true,"protocolVersion":2,"features":[]}`)}, transport.Quiescence{}, func(t *testing.T, err error) { errorAs[*transport.UnsupportedError](t, err) }},
		{"the guest has fenced itself", 0, []Step{known, serve("quiesce", `{"ok":false,"error":"agent_retiring"}`)}, transport.Quiescence{}, func(t *testing.T, err error) { errorAs[*transport.RetiringError](t, err) }},
		{"the answer is lost", 0, []Step{known, Accept(), Expect("quiesce"), Close()}, transport.Quiescence{}, func(t *testing.T, err error) {
			if e := errorAs[*transport.LostError](t, err); !e.Sent {
				t.Errorf("got %v", err)
			}
		}},
		{"the guest is silent", 0, []Step{known, Accept(), Expect("quiesce"), Hang()}, transport.Quiescence{}, func(t *testing.T, err error) { errorAs[*transport.LostError](t, err) }},
		{"the caller leaves", 0, []Step{known, Accept(), Expect("quiesce"), Delay(2 * time.Minute)}, transport.Quiescence{}, nil},
		{"a grace below nothing", -1, nil, transport.Quiescence{}, func(t *testing.T, err error) {
			if err == nil {
				t.Error("it is accepted")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaves := tt.name == "the caller leaves"
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				ctx := t.Context()
				if leaves {
					ctx = endAfter(t, time.Second)
				}
				got, err := p.Quiesce(ctx, tt.grace)
				if !reflect.DeepEqual(got, tt.want) || leaves && err != errCause {
					t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
				}
				if tt.check != nil {
					tt.check(t, err)
				} else if err != nil && !leaves {
					t.Error(err)
				}
				if leaves {
					time.Sleep(2 * time.Minute)
				}
			})
		})
	}
}

func TestFlush(t *testing.T) {
	known := serve("healthz", features)
	bubble(t, transport.Config{}, []Step{known, serve("flush", `{"ok":true,"durationMs":12,"workspace":"/w"}`, Body(`{}`)), serve("flush", `{"ok":false,"error":"flush_unconfirmed","message":"timed out"}`, Body(`{"timeoutMs":1500}`)),
		serve("flush", `{"ok":false,"error":"flush_unsupported","message":"no sync"}`)}, func(t *testing.T, p *pod) {
		if took, err := p.Flush(t.Context(), 0); took != 12*time.Millisecond || err != nil {
			t.Errorf("got %v, %v", took, err)
		}
		_, err := p.Flush(t.Context(), 1500*time.Millisecond)
		if e := errorAs[*transport.UnconfirmedError](t, err); e.Reason != "flush_unconfirmed" {
			t.Errorf("got %v", err)
		}
		_, err = p.Flush(t.Context(), 0)
		errorAs[*transport.UnsupportedError](t, err)
		if _, err := p.Flush(t.Context(), -1); err == nil {
			t.Error("a negative timeout is accepted")
		}
	})
}

// TestRestarted notices another process behind the same endpoint, once.
func TestRestarted(t *testing.T) {
	var told [][2]string
	wrote := func(boot string) Step { return serve("write-file", `{"ok":true,`+boot+`"bytesWritten":1}`) }
	one, two := `"guestBootId":"boot-1",`, `"guestBootId":"boot-2",`
	bubble(t, transport.Config{Restarted: func(before, after string) { told = append(told, [2]string{before, after}) }}, []Step{wrote(""), wrote(one), wrote(""), wrote(one), wrote(two), wrote(two)}, func(t *testing.T, p *pod) {
		for range 6 {
			if _, err := p.WriteFile(t.Context(), "f", strings.NewReader("x")); err != nil {
				t.Fatal(err)
			}
		}
		if want := [][2]string{{"boot-1", "boot-2"}}; !reflect.DeepEqual(told, want) || p.BootID() != "boot-2" {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

// TestRecordedQuiesces plays the connections of quiesce and flush.
func TestRecordedQuiesces(t *testing.T) {
	skip := map[string]string{"quiesce-idle/no-body": notSent + "there is always a body", "flush-without-body/c1": notSent + "there is always a body"}
	for _, c := range talks(t, "quiesce") {
		for _, key := range []string{"graceMs", "timeoutMs"} {
			n, ok := c.body()[key].(float64)
			if _, there := c.body()[key]; c.op() != "" && there && (!ok || n < 1 || n != float64(int64(n))) {
				skip[c.Name] = notSent + "a time is whole and positive, or absent"
			}
		}
	}
	replay := func(t *testing.T, c *talk) {
		replayTalk(t, c, c.script(t, nil), func(t *testing.T, p *pod) {
			grace, _ := c.body()["graceMs"].(float64)
			timeout, _ := c.body()["timeoutMs"].(float64)
			var q transport.Quiescence
			var took time.Duration
			var err error
			if c.op() == "quiesce" {
				q, err = p.Quiesce(t.Context(), time.Duration(grace)*time.Millisecond)
			} else {
				took, err = p.Flush(t.Context(), time.Duration(timeout)*time.Millisecond)
			}
			if text, refused := c.refusal(); refused {
				unsupported := strings.HasPrefix(text, "flush_unsupported")
				if _, ok := errors.AsType[*transport.UnsupportedError](err); ok != unsupported {
					t.Errorf("got %v, want %q", err, text)
				} else if !ok {
					judge[*transport.UnconfirmedError](t, err, text)
				}
				return
			}
			var want struct {
				Scope      string
				Rounds     int
				DurationMs int64
				Stopped    []struct{ Command, Signal string }
			}
			if decodeErr := json.Unmarshal(c.Received[0].Frame, &want); decodeErr != nil || err != nil {
				t.Fatal(decodeErr, err)
			}
			if q.Everything != (want.Scope == "pid-namespace") || q.Rounds != want.Rounds || len(q.Stopped) != len(want.Stopped) || took.Milliseconds() != want.DurationMs {
				t.Errorf("got %+v, %v, want %+v", q, took, want)
			}
			for i, s := range q.Stopped {
				if w := want.Stopped[i]; s.Name != w.Command || s.Signal != w.Signal {
					t.Errorf("got %+v, want %+v", s, w)
				}
			}
		})
	}
	replayTalks(t, "quiesce", skip, 17, map[string]func(*testing.T, *talk){"quiesce": replay, "flush": replay})
}
