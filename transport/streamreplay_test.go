package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// A talk is one recorded connection, of which every frame counts.
type talk struct {
	Name     string // of the exchange, and of the connection in it
	ID       string
	Sent     []spoken
	Received []spoken
	End      struct {
		By, How string
		Ms      float64
	}
	exchange []*talk
}

type spoken struct {
	Ms         float64
	Frame      json.RawMessage
	Terminator bool
	Event      string
	Elided     int
	Raw        json.RawMessage
}

// talks reads a file of testdata/recorded/streams.
func talks(t *testing.T, file string) (all []*talk) {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded/streams/" + file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		text = bytes.ReplaceAll(text, fmt.Appendf(nil, "exec_<uuid-%d>", i), fmt.Appendf(nil, "exec_7e4f2b18-6c3d-4a95-b0e7-28d91f5c6a0%d", i))
	}
	text = bytes.ReplaceAll(text, []byte(`"<pid>"`), []byte("77"))
	var list []struct {
		Name        string
		Connections []*talk
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		for _, c := range e.Connections {
			c.Name, c.exchange = e.Name+"/"+c.ID, e.Connections
			all = append(all, c)
		}
	}
	return all
}

func (c *talk) op() string {
	var r struct{ Op string }
	if len(c.Sent) > 0 {
		json.Unmarshal(c.Sent[0].Frame, &r) // what is no request has no op
	}
	return r.Op
}

func (c *talk) body() map[string]any {
	var r struct{ Body map[string]any }
	json.Unmarshal(c.Sent[0].Frame, &r)
	return r.Body
}

// whole reports whether all of the connection was recorded, as frames.
func (c *talk) whole() bool {
	part := func(s spoken) bool {
		return s.Elided > 0 || s.Raw != nil || bytes.Contains(s.Frame, []byte("more characters]"))
	}
	return !slices.ContainsFunc(c.Sent, part) && !slices.ContainsFunc(c.Received, part)
}

// script is what the agent did on the connection and when, from the request on.
// Fields that the host leaves to the guest's defaults, or sends although they
// are the default, are given by but.
func (c *talk) script(t *testing.T, but map[string]any) []Step {
	want := c.body()
	if want == nil {
		want = map[string]any{}
	}
	for k, v := range but {
		if _, there := want[k]; !there {
			want[k] = v
		}
	}
	if args, ok := want["args"].([]any); ok && len(args) == 0 && c.op() != "execute" {
		delete(want, "args") // this host leaves out what is empty
	}
	body := JSON(want)
	if slices.Contains([]string{"list-sessions", "healthz", "reserve-execution"}, c.op()) {
		body = ""
	}
	var base time.Time
	at := func(ms float64) Step {
		return Do(fmt.Sprintf("wait until %v ms", ms), func() error {
			time.Sleep(time.Until(base.Add(time.Duration((ms - c.Sent[0].Ms) * float64(time.Millisecond)))))
			return nil
		})
	}
	steps := []Step{Accept(), Expect(c.op(), Body(body)), Do("begin", func() error { base = time.Now(); return nil })}
	type timed struct {
		ms   float64
		step Step
	}
	var then []timed
	last, lastMs := c.final(t)
	for _, s := range c.Sent[1:] {
		if s.Frame != nil && s.Ms < lastMs {
			then = append(then, timed{s.Ms, ExpectFrame(string(s.Frame))})
		}
	}
	for i, r := range c.Received {
		if r.Terminator {
			then = append(then, timed{r.Ms, Terminator()})
		} else {
			then = append(then, timed{r.Ms, Send([]byte(r.Frame))})
		}
		if i == last {
			break
		}
	}
	slices.SortStableFunc(then, func(a, b timed) int { return int((a.ms - b.ms) * 1000) })
	for _, s := range then {
		steps = append(steps, at(s.ms), s.step)
	}
	if c.End.By == "peer" && c.End.How == "FIN" {
		steps = append(steps, at(c.End.Ms), CloseWrite())
	}
	return append(steps, ExpectClose())
}

// final is when the frame came with which the host has what it needs, and
// closes.
func (c *talk) final(t *testing.T) (index int, ms float64) {
	for i, e := range c.events(t) {
		if e.Type == "error" || e.Type == "exit" || e.Type == "detached" {
			return i, c.Received[i].Ms
		}
	}
	return len(c.Received), math.Inf(1)
}

// refusal is the text of the error that the agent answered with.
func (c *talk) refusal() (string, bool) {
	var r struct {
		OK             *bool
		Type           string
		Error, Message string
	}
	if len(c.Received) == 0 || json.Unmarshal(c.Received[0].Frame, &r) != nil {
		return "", false
	}
	if r.Message != "" {
		r.Error += ": " + r.Message
	}
	return r.Error, r.OK != nil && !*r.OK || r.Type == "error"
}

// event is any frame of the agent's.
type streamEvent struct {
	Type, Stream, Data, Outcome, Error, State string
	Offset, NextOffset                        *int64
	FromOffset, DroppedBytes, Signal          int64
	ExitCode                                  *int64
	Started                                   bool
	Result                                    *struct {
		ExitCode int
		TimedOut bool
	}
}

func (c *talk) events(t *testing.T) (all []streamEvent) {
	for _, r := range c.Received {
		var e streamEvent
		if r.Terminator {
			continue
		}
		// A signal is a number in some frames and a name in others.
		var loose map[string]any
		if err := json.Unmarshal(r.Frame, &loose); err != nil {
			t.Fatal(err)
		}
		if _, ok := loose["signal"].(string); ok {
			delete(loose, "signal")
		}
		if err := json.Unmarshal([]byte(JSON(loose)), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// replayTalk runs f on an Agent with the recording's token and a guest that
// announces everything before it plays the script.
func replayTalk(t *testing.T, c *talk, steps []Step, f func(t *testing.T, p *pod)) {
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		beat, _ := c.body()["heartbeatMs"].(float64)
		agent, err := transport.New(transport.Config{Host: podIP, Port: 1024, Token: "<token>", DialContext: p.net.DialContext, Heartbeat: time.Duration(beat) * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		p.Agent = agent
		p.play(t, podIP, append([]Step{Accept(), Expect("healthz"), answer(features)}, steps...)...)
		if _, err := p.Features(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.start = time.Now()
		f(t, p)
		agent.Close()
	})
}

// replayTalks plays the connections of a file whose op is among those of how.
// It fails when another number of them is played than want says.
func replayTalks(t *testing.T, file string, skip map[string]string, want int, how map[string]func(t *testing.T, c *talk)) {
	played := map[string]bool{}
	for _, c := range talks(t, file) {
		f, ok := how[c.op()]
		if why, skipped := skip[c.Name]; !ok || skipped && why != "" || !c.whole() {
			continue
		}
		played[c.Name] = true
		t.Run(c.Name, func(t *testing.T) { f(t, c) })
	}
	if len(played) != want {
		t.Errorf("%d recordings were played, want %d: %v", len(played), want, slices.Sorted(maps.Keys(played)))
	}
}

// TestRecordedAttachments plays the connections of executions whose output is
// kept.
func TestRecordedAttachments(t *testing.T) {
	const other = "not a request of this host: "
	replayTalks(t, "attach", map[string]string{
		"retained-execute/attach-negative":     other + "refused before it is sent",
		"retained-execute/attach-fraction":     other + "offsets are whole",
		"retained-execute/attach-string-4":     other + "offsets are numbers",
		"retained-execute/attach-null":         other + "offsets are always there",
		"attach-invalid-id/c1":                 other + "refused before it is sent",
		"attach-no-body/c1":                    other + "there is always an id",
		"attach-extra-frame/reader":            other + "it sends nothing after the first frame",
		"attach-heartbeatMs-is-ignored/attach": other + "it asks for no heartbeat where there is none",
	}, 35, map[string]func(*testing.T, *talk){"attach-execution": replayAttach})
}

func replayAttach(t *testing.T, c *talk) {
	from, _ := c.body()["fromOffset"].(float64)
	replayTalk(t, c, c.script(t, map[string]any{"fromOffset": 0}), func(t *testing.T, p *pod) {
		ctx := t.Context()
		if c.End.By == "local" {
			after := time.Duration((c.End.Ms - c.Sent[0].Ms) * float64(time.Millisecond))
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, after, errCause)
			defer cancel()
		}
		a := p.Attach(ctx, c.body()["executionId"].(string), int64(from))
		var out, errs bytes.Buffer
		var gap transport.Gap
		a.Stdout, a.Stderr, a.OnGap = &out, &errs, func(g transport.Gap) { gap = g }
		err := a.Run()
		if text, refused := c.refusal(); refused {
			if e := errorAs[*transport.NotAttachableError](t, err); e.Text != text {
				t.Errorf("got %v, want the agent's words %q", err, text)
			}
			return
		}
		var wantOut, wantErrs string
		var wantGap transport.Gap
		var last streamEvent
		end := int64(from)
		for _, e := range c.events(t) {
			switch last = e; e.Type {
			case "attached":
				if end = e.FromOffset; e.DroppedBytes > 0 {
					wantGap = transport.Gap{From: int64(from), Dropped: e.DroppedBytes}
				}
			case "stdout_delta":
				wantOut, end = wantOut+e.Data, *e.NextOffset
			case "stderr_delta":
				wantErrs, end = wantErrs+e.Data, *e.NextOffset
			}
		}
		if out.String() != wantOut || errs.String() != wantErrs || gap != wantGap || a.Offset() != end {
			t.Errorf("got %q and %q with %+v up to %d, want %q and %q with %+v up to %d", &out, &errs, gap, a.Offset(), wantOut, wantErrs, wantGap, end)
		}
		switch r := last.Result; {
		case last.Type != "attach_result":
			errorAs[*transport.ExecutionDetachedError](t, err)
		case last.Error != "":
			if errorAs[*transport.StartError](t, err); !strings.HasSuffix(err.Error(), last.Error) {
				t.Errorf("got %v, want %q", err, last.Error)
			}
		case r.ExitCode == 0 && !r.TimedOut:
			if err != nil {
				t.Error(err)
			}
		default:
			if e, ok := errors.AsType[*transport.ExitError](err); !ok || e.ExitCode != r.ExitCode || e.TimedOut != r.TimedOut {
				t.Errorf("got %v, want %+v", err, r)
			}
		}
	})
}
