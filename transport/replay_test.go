package transport_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// An exchange is one recording; testdata/recorded/README.md describes it.
type exchange struct {
	Name        string
	Connections []*connection
}

type connection struct {
	ID     string
	OpenMs float64
	Sent   []struct {
		Ms    float64
		Frame struct {
			Op    string
			Body  map[string]any
			Token string
		}
	}
	Received []received
	End      struct {
		How, AfterFin string
		Ms            float64
	}
}

type received struct {
	Ms         float64
	Frame      json.RawMessage
	Terminator bool
}

func (c *connection) op() string { return c.Sent[0].Frame.Op }

func (c *connection) body(key string) string { s, _ := c.Sent[0].Frame.Body[key].(string); return s }

func recordings(t *testing.T) map[string]*exchange {
	t.Helper()
	all := make(map[string]*exchange)
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	ids := regexp.MustCompile(`exec_<uuid-(\d)>`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = ids.ReplaceAll(text, []byte("exec_7e4f2b18-6c3d-4a95-b0e7-28d91f5c6a0$1"))
		var list []*exchange
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, e := range list {
			all[strings.TrimSuffix(filepath.Base(file), ".json")+"/"+e.Name] = e
		}
	}
	return all
}

// made is, for exchanges in which the host of this package makes other
// requests than the client of the recording did, what those are. A cancel with
// a "!" is one whose answer takes longer than the host waits for it.
var made = map[string][]string{
	"execute/reservation-expires":                           {"reserve", "execute"},
	"cancel/cancel-twice":                                   {"reserve", "execute", "cancel-1"},
	"retiring/group-outlives-leader":                        {"reserve", "execute", "cancel!", "cancel!", "healthz"},
	"retiring/timeout-unconfirmed":                          {"reserve", "execute", "cancel!", "cancel!", "healthz"},
	"retiring/cancel-unconfirmed-member-ignores-term":       {"reserve", "execute", "cancel", "healthz"},
	"retiring/cancel-member-ignores-term-output-redirected": {"reserve", "execute", "cancel", "healthz"},
}

// an event of an exchange, in the order of time.
type event struct {
	ms   float64
	step func(connection string) Step
	conn *connection
}

// script is what the agent did, in the order in which it did it. Its pauses are
// kept. What it sent after the host had all it needed is left out.
func (e *exchange) script(name string) []Step {
	conns := e.Connections
	if ids := made[name]; ids != nil {
		conns = nil
		for _, id := range ids {
			i := slices.IndexFunc(e.Connections, func(c *connection) bool { return c.ID == strings.TrimSuffix(id, "!") })
			c := *e.Connections[i]
			if c.ID = id; strings.HasSuffix(id, "!") {
				c.Received, c.End.How = nil, "still open"
			}
			conns = append(conns, &c)
		}
	}
	var events []event
	for i, c := range conns {
		at := c.Sent[0].Ms
		if i > 0 && len(made[name]) > 4 {
			at = conns[i-1].Sent[0].Ms // the order of made counts, not the recording's
		}
		events = append(events, event{at, func(id string) Step { return Seq(AcceptAs(id), Expect(c.op(), c.matches)) }, c})
		final := false
		for _, r := range c.Received {
			if final {
				break // the host has what it needs, and closes
			}
			final = r.is("error") || r.is("end")
			send := Terminator()
			if !r.Terminator {
				send = Send([]byte(r.Frame))
			}
			events = append(events, event{r.Ms, func(id string) Step { return Seq(On(id), send) }, c})
		}
		switch {
		case c.End.How == "still open":
		case final:
			events = append(events, event{c.End.Ms, func(id string) Step { return Seq(On(id), ExpectClose()) }, c})
		case strings.Contains(c.End.AfterFin, "fully closed"):
			events = append(events, event{c.End.Ms, func(id string) Step { return Seq(On(id), Close()) }, c})
		default:
			events = append(events, event{c.End.Ms, func(id string) Step { return Seq(On(id), CloseWrite(), ExpectClose()) }, c})
		}
	}
	if len(made[name]) <= 4 {
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.ms, b.ms) })
	}
	return assemble(events, conns)
}

func assemble(events []event, conns []*connection) []Step {
	var steps []Step
	last, over := 0.0, false
	open := make(map[string]bool)
	for i, ev := range events {
		id := fmt.Sprintf("%p", ev.conn)
		if over && open[id] {
			continue
		}
		if pause := ev.ms - last; pause > 0 && i > 0 && open[id] {
			steps = append(steps, Delay(time.Duration(pause*float64(time.Millisecond))))
		}
		last = max(last, ev.ms)
		steps = append(steps, ev.step(id))
		open[id] = true
		if ends := i+1 == len(events) || !slices.ContainsFunc(events[i+1:], func(e event) bool { return e.conn == ev.conn }); ends && ev.conn.End.How != "still open" {
			delete(open, id)
			over = over || ev.conn.op() == "execute" && ev.conn.has("result") || ev.conn.op() == "healthz" && len(conns) > 1
		}
	}
	for _, c := range conns {
		if id := fmt.Sprintf("%p", c); open[id] {
			steps = append(steps, On(id), ExpectClose())
		}
	}
	return steps
}

// has reports whether an event of the type was received.
func (c *connection) has(kind string) bool {
	return slices.ContainsFunc(c.Received, func(r received) bool { return r.is(kind) })
}

func (r received) is(kind string) bool {
	return bytes.Contains(r.Frame, []byte(`"type": "`+kind+`"`))
}

// matches compares the host's request with the recorded one. Arguments are
// always there, content is always base64.
func (c *connection) matches(r Request) error {
	want := maps.Clone(c.Sent[0].Frame.Body)
	switch c.op() {
	case "execute":
		if want["args"] == nil {
			want["args"] = []any{}
		}
	case "read-file":
		want["encoding"] = "base64"
	case "write-file":
		if want["encoding"] != "base64" {
			want["content"], want["encoding"] = b64(c.body("content")), "base64"
		}
	}
	if want == nil {
		return Body("")(r)
	}
	if err := Body(JSON(want))(r); err != nil {
		return err
	}
	if token := c.Sent[0].Frame.Token; token != "" || c.op() != "healthz" {
		return Token(token)(r)
	}
	return nil
}

// TestRecordings plays what the real agent sent to this package's host.
func TestRecordings(t *testing.T) {
	all := recordings(t)
	played := make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		op := e.Connections[0].op()
		t.Run(name, func(t *testing.T) {
			switch op {
			case "reserve-execution":
				e.replayProgram(t, name)
			case "read-file", "read-file-stream":
				e.replayRead(t, name, all["framing/healthz"])
			case "write-file":
				e.replayWrite(t, name)
			case "healthz":
				e.replayHealth(t, name)
			default:
				t.Fatalf("nobody begins with %s", op)
			}
		})
		played[op]++
	}
	if len(all) != 172 {
		t.Errorf("%d recordings were played, want 172: %v", len(all), played)
	}
}

// replay runs f on an Agent that has the token of the recording.
func (e *exchange) replay(t *testing.T, script []Step, f func(t *testing.T, p *pod)) {
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		agent, err := transport.New(transport.Config{Host: podIP, Port: 1024, Token: transport.Secret(e.Connections[0].Sent[0].Frame.Token), DialContext: p.net.DialContext})
		if err != nil {
			t.Fatal(err)
		}
		p.Agent = agent
		p.play(t, podIP, script...)
		f(t, p)
		agent.Close()
	})
}

// refusal is the first frame that the agent answered with, if that is one.
func (c *connection) refusal() (text string, ok bool) {
	var r struct {
		OK    *bool
		Type  string
		Error string
	}
	if len(c.Received) == 0 || json.Unmarshal(c.Received[0].Frame, &r) != nil {
		return "", false
	}
	return r.Error, r.OK != nil && !*r.OK || r.Type == "error"
}

// judge checks err against a refusal.
func judge[T error](t *testing.T, err error, text string) {
	t.Helper()
	switch text {
	case "unauthorized":
		errorAs[*transport.UnauthorizedError](t, err)
	case "agent_retiring":
		errorAs[*transport.RetiringError](t, err)
	default:
		if errorAs[T](t, err); !strings.HasSuffix(err.Error(), ": "+text) {
			t.Errorf("got %v, want the agent's words %q", err, text)
		}
	}
}

func (e *exchange) replayHealth(t *testing.T, name string) {
	e.replay(t, e.script(name), func(t *testing.T, p *pod) {
		h, err := p.Health(t.Context())
		if err != nil || h.Retiring != strings.HasPrefix(name, "retiring/") || h.OK == h.Retiring || !h.Features.Has("guest-boot-id") {
			t.Errorf("got %+v, %v", h, err)
		}
	})
}

func (e *exchange) replayRead(t *testing.T, name string, health *exchange) {
	c := e.Connections[0]
	_, ranged := c.Sent[0].Frame.Body["offset"]
	announced := string(health.Connections[0].Received[0].Frame)
	if c.op() == "read-file" && !ranged {
		announced = strings.Replace(announced, "read-file-stream", "of-an-older-guest", 1)
	}
	script := append([]Step{Accept(), Expect("healthz"), answer(announced)}, e.script(name)...)
	e.replay(t, script, func(t *testing.T, p *pod) {
		var got []byte
		var size int64
		var err error
		if ranged {
			b := c.Sent[0].Frame.Body
			got, size, err = p.ReadRange(t.Context(), c.body("path"), int64(b["offset"].(float64)), int64(b["length"].(float64)))
		} else {
			got, err = p.ReadFile(t.Context(), c.body("path"))
			size = int64(len(got))
		}
		if text, refused := c.refusal(); refused {
			judge[*transport.FileError](t, err, text)
			return
		}
		want, wantSize := c.content(t)
		if err != nil || string(got) != want || size != wantSize {
			t.Errorf("got %q of %d, %v, want %q of %d", got, size, err, want, wantSize)
		}
	})
}

// content is what the agent sent of a file.
func (c *connection) content(t *testing.T) (content string, size int64) {
	for _, r := range c.Received {
		var v struct {
			Content, Data string
			SizeBytes     int64
		}
		if r.Terminator {
			continue
		}
		if err := json.Unmarshal(r.Frame, &v); err != nil {
			t.Fatal(err)
		}
		b, err := base64.StdEncoding.DecodeString(v.Content + v.Data)
		if err != nil {
			t.Fatal(err)
		}
		content += string(b)
		size = max(size, v.SizeBytes)
	}
	return content, size
}

func (e *exchange) replayWrite(t *testing.T, name string) {
	c := e.Connections[0]
	e.replay(t, e.script(name), func(t *testing.T, p *pod) {
		content := c.body("content")
		if c.body("encoding") == "base64" {
			b, err := base64.StdEncoding.DecodeString(content)
			if err != nil {
				t.Fatal(err)
			}
			content = string(b)
		}
		n, err := p.WriteFile(t.Context(), c.body("path"), strings.NewReader(content))
		if text, refused := c.refusal(); refused {
			judge[*transport.FileError](t, err, text)
		} else if err != nil || n != int64(len(content)) || p.BootID() != "<boot-id>" {
			t.Errorf("got %d, %v, boot id %q", n, err, p.BootID())
		}
	})
}

// replayProgram runs the program of an exchange that begins with a reservation.
// Where the client of the recording ended the program, the context does here.
func (e *exchange) replayProgram(t *testing.T, name string) {
	reserve := e.Connections[0]
	script := e.script(name)
	if len(e.Connections) == 1 {
		// Nothing but the reservation was recorded.
		if _, refused := reserve.refusal(); !refused {
			script = append(script, Accept(), Expect("execute"), finish(exit0))
		}
		e.replay(t, script, func(t *testing.T, p *pod) {
			err := p.Command(t.Context(), "x").Run()
			if text, refused := reserve.refusal(); refused {
				judge[*transport.StartError](t, err, text)
			} else if err != nil {
				t.Error(err)
			}
		})
		return
	}
	exec := e.Connections[1]
	text, refused := exec.refusal()
	if refused && (strings.HasPrefix(text, "spawn ") || strings.HasPrefix(text, "The argument ")) && len(e.Connections) == 2 {
		// The agent remembers what became of a start that failed.
		script = append(script, Accept(), Expect("cancel-execution"), answer(`{"ok":true,"guestBootId":"<boot-id>","state":"failed","started":true,"error":`+JSON(text)+`}`))
	}
	e.replay(t, script, func(t *testing.T, p *pod) {
		ctx := t.Context()
		ended := len(e.Connections) > 2 && e.Connections[2].op() == "cancel-execution" && !refused
		if ended {
			var cancel context.CancelFunc
			after := e.Connections[2].OpenMs - exec.Sent[0].Ms
			ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(after*float64(time.Millisecond)), errCause)
			defer cancel()
		}
		c := p.command(ctx, t, exec.Sent[0].Frame.Body)
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		err := c.Run()
		wantOut, wantErrs, want := exec.output(t)
		if out.String() != wantOut || errs.String() != wantErrs {
			t.Errorf("got output %q and %q, want %q and %q", &out, &errs, wantOut, wantErrs)
		}
		if ended && !errors.Is(err, errCause) {
			t.Errorf("%v does not wrap the context's cause", err)
		}
		switch r := c.Result(); {
		case refused:
			judge[*transport.StartError](t, err, text)
		case want == nil:
			if e := errorAs[*transport.CancelError](t, err); !e.Retiring || r != nil {
				t.Errorf("got %v, %+v, want a guest that has fenced itself", err, r)
			}
		case r == nil || *r != *want:
			t.Errorf("got %+v, want %+v", r, want)
		case ended:
			errorAs[*transport.StoppedError](t, err)
		case want.ExitCode == 0 && !want.TimedOut:
			if err != nil {
				t.Error(err)
			}
		default:
			errorAs[*transport.ExitError](t, err)
		}
	})
}

func (p *pod) command(ctx context.Context, t *testing.T, body map[string]any) *transport.Cmd {
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Command        string
		Args           []string
		Cwd            string
		Env            map[string]string
		TimeoutMs      int64
		MaxOutputBytes int64
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	c := p.Command(ctx, v.Command, v.Args...)
	c.Dir, c.Timeout, c.MaxOutput = v.Cwd, time.Duration(v.TimeoutMs)*time.Millisecond, v.MaxOutputBytes
	for k, v := range v.Env {
		c.Env = append(c.Env, k+"="+v)
	}
	return c
}

// output is what the agent sent of a program's output, and its result.
func (c *connection) output(t *testing.T) (stdout, stderr string, result *transport.Result) {
	for _, r := range c.Received {
		var v struct {
			Type, Data, Signal               string
			ExitCode                         int
			TimedOut                         bool
			DurationMs                       int64
			StdoutTruncated, StderrTruncated bool
		}
		if r.Terminator {
			continue
		}
		if err := json.Unmarshal(r.Frame, &v); err != nil {
			t.Fatal(err)
		}
		switch v.Type {
		case "stdout_delta":
			stdout += v.Data
		case "stderr_delta":
			stderr += v.Data
		case "result":
			result = &transport.Result{ExitCode: v.ExitCode, Signal: v.Signal, TimedOut: v.TimedOut, Duration: time.Duration(v.DurationMs) * time.Millisecond,
				StdoutTruncated: v.StdoutTruncated, StderrTruncated: v.StderrTruncated}
		}
	}
	return stdout, stderr, result
}
