package transport_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const (
	notSent  = "not a request of this host: "
	leaves   = "the recording's client just left; this host ends the program first, or keeps its heartbeat"
	ownBeats = "this host keeps its own heartbeat, by its own clock"
)

// TestRecordedTerminals plays the connections of terminals.
func TestRecordedTerminals(t *testing.T) {
	skip := map[string]string{
		"terminal-input-before-ready/c1":           notSent + "it waits until the terminal is ready",
		"terminal-connection-closed/c1":            leaves,
		"terminal-setsid-job-survives-close/c1":    leaves,
		"terminal-sessionId-without-persistent/c1": notSent + "a session is always persistent",
		"heartbeat-100ms/c1":                       ownBeats, "heartbeat-asked-20/c1": ownBeats, "heartbeat-asked-250_9/c1": ownBeats, "heartbeat-silence-200ms/c1": ownBeats,
		"heartbeat-suspended-by-full-stdin/c1": ownBeats,
	}
	for _, name := range []string{"cols-0", "rows-1001", "cols-fraction", "cols-missing", "rows-missing", "both-missing", "cols-null", "cols-text", "cols-as-string", "no-body"} {
		skip["terminal-"+name+"/c1"] = notSent + "a size is two numbers from 1 to 1000"
	}
	for _, name := range []string{"kill-None", "kill-SIGSTOP", "kill-SIGUSR1", "kill-9"} {
		skip["terminal-"+name+"/c1"] = notSent + "a signal is one of those that count"
	}
	for _, name := range []string{"string", "0", "negative", "null", "true"} {
		skip["heartbeat-asked-"+name+"/c1"] = notSent + "a heartbeat is a number above zero, or absent"
	}
	replayTalks(t, "terminal", skip, 19, map[string]func(*testing.T, *talk){
		"terminal":      replayTerminal,
		"list-sessions": replaySessionControl,
	})
}

// TestRecordedSessions plays the connections of sessions.
func TestRecordedSessions(t *testing.T) {
	skip := map[string]string{
		"persistent-terminal/open":                       leaves,
		"attach-session-resize-needs-both/open":          leaves,
		"attach-session-resize-needs-both/cols-only":     notSent + "a size has both",
		"attach-session-resize-needs-both/bad-size":      notSent + "a size is two numbers from 1 to 1000",
		"attach-session-heartbeat/attach":                ownBeats,
		"attach-session-heartbeat/read-with-heartbeatMs": notSent + "it asks for no heartbeat where there is none",
		"attach-session-refusals/invalid":                notSent + "refused before it is sent",
		"attach-session-refusals/no-body":                notSent + "there is always an id",
		"attach-session-refusals/negative":               notSent + "refused before it is sent",
		"persistent-terminal-refusals/id-missing":        notSent + "there is always an id",
		"persistent-terminal-refusals/id-invalid":        notSent + "refused before it is sent",
		"persistent-terminal-refusals/bad-size":          notSent + "a size is two numbers from 1 to 1000",
		"persistent-must-be-true/open":                   notSent + "it is true or absent",
		"persistent-program-not-found/open":              "nothing was ever said; TestStartSession has this case",
		"persistent-program-exits-at-once/open":          "nothing was ever said; TestStartSession has this case",
		"kill-session-invalid/c1":                        notSent + "refused before it is sent",
		"kill-session-unknown-signal/kill":               notSent + "a signal is one of those that count",
		"superseded-opener-kept-open/B-attach":           "this host closes at once when it is detached, so there is nothing more to hear or to send",
		"start-no-body/c1":                               notSent + "there is always an id",
	}
	for _, name := range []string{"missing-command", "command-number", "command-empty", "id-missing", "id-empty", "id-slash", "id-65", "id-leading-dot", "id-trailing-newline", "id-number", "args-numbers", "args-not-array"} {
		skip["start-"+name+"/c1"] = notSent + "refused before it is sent, or of another type"
	}
	replayTalks(t, "sessions", skip, 68, map[string]func(*testing.T, *talk){
		"terminal":       replayTerminal,
		"attach-session": replayAttachSession,
		"start-detached": replaySessionControl,
		"list-sessions":  replaySessionControl,
		"kill-session":   replaySessionControl,
	})
}

// program is what a request names of a program.
func (c *talk) program(t *testing.T) (p struct {
	Cols, Rows   int
	Command, Cwd string
	Args         []string
	Env          map[string]string
	SessionID    string
	Persistent   bool
	Signal       string
	FromOffset   int64
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(JSON(c.body())), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func env(m map[string]string) (list []string) {
	for k, v := range m {
		list = append(list, k+"="+v)
	}
	return list
}

func replayTerminal(t *testing.T, c *talk) {
	b := c.program(t)
	config := transport.TerminalConfig{Cols: b.Cols, Rows: b.Rows, Path: b.Command, Args: b.Args, Dir: b.Cwd, Env: env(b.Env)}
	replayTalk(t, c, c.script(t, nil), func(t *testing.T, p *pod) {
		if b.Persistent {
			term, err := p.StartSession(t.Context(), b.SessionID, config)
			c.converse(t, p, term, err)
			return
		}
		term, err := p.OpenTerminal(t.Context(), config)
		if text, refused := c.refusal(); refused {
			judge[*transport.StartError](t, err, text)
			return
		}
		c.converse(t, p, term, err)
	})
}

func replayAttachSession(t *testing.T, c *talk) {
	b := c.program(t)
	replayTalk(t, c, c.script(t, map[string]any{"fromOffset": 0}), func(t *testing.T, p *pod) {
		if follow, ok := c.body()["follow"]; !ok || follow != false {
			term, err := p.AttachSession(t.Context(), b.SessionID, b.FromOffset, b.Cols, b.Rows)
			c.converse(t, p, term, err)
			return
		}
		out, err := p.ReadSession(t.Context(), b.SessionID, b.FromOffset)
		if err != nil {
			t.Fatal(err)
		}
		var got, want string
		var next, dropped int64
		for _, piece := range out.Pieces {
			got += piece.Text
		}
		for _, e := range c.events(t) {
			want, next, dropped = want+e.Data, *e.NextOffset, dropped+e.DroppedBytes
		}
		if got != want || out.NextOffset != next || out.Gap.Dropped != dropped {
			t.Errorf("got %q up to %d with %+v, want %q up to %d with %d dropped", got, out.NextOffset, out.Gap, want, next, dropped)
		}
	})
}

// converse does to the terminal what the recording's client did, and compares
// what comes of it.
func (c *talk) converse(t *testing.T, p *pod, term *transport.Terminal, err error) {
	if text, refused := c.refusal(); refused {
		judge[*transport.SessionError](t, err, text)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	_, finalMs := c.final(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, s := range c.Sent[1:] {
			var f struct {
				Type, Data, Signal string
				Cols, Rows         int
			}
			if s.Frame == nil || s.Ms >= finalMs {
				continue
			}
			time.Sleep(time.Until(p.start.Add(time.Duration((s.Ms - c.Sent[0].Ms) * float64(time.Millisecond)))))
			if err := json.Unmarshal(s.Frame, &f); err != nil {
				t.Error(err)
			}
			var err error
			switch f.Type {
			case "input":
				_, err = io.WriteString(term, f.Data)
			case "resize":
				err = term.Resize(f.Cols, f.Rows)
			case "kill":
				err = term.Kill(f.Signal)
			}
			if err != nil {
				t.Errorf("%s: %v", s.Frame, err)
			}
		}
	}()
	got, err := io.ReadAll(term)
	<-done
	want, last := "", streamEvent{}
	for _, e := range c.events(t) {
		want, last = want+e.Data, e
		if last.Type == "detached" {
			break
		}
	}
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	wait := term.Wait()
	killed := strings.Contains(JSON(c.Sent), `"type":"kill"`)
	switch {
	case last.Type == "detached":
		errorAs[*transport.SessionDetachedError](t, wait)
	case *last.ExitCode == 0 && last.Signal == 0 && !killed:
		if err != nil || wait != nil {
			t.Errorf("got %v and %v", err, wait)
		}
	default:
		if e := errorAs[*transport.TerminalError](t, wait); err != nil || int64(e.ExitCode) != *last.ExitCode || int64(e.Signal) != last.Signal || e.Killed != killed {
			t.Errorf("got %+v, want %+v, killed %v", e, last, killed)
		}
	}
	term.Close()
}

func replaySessionControl(t *testing.T, c *talk) {
	b := c.program(t)
	replayTalk(t, c, c.script(t, nil), func(t *testing.T, p *pod) {
		var list []transport.Session
		var s transport.Session
		var err error
		switch c.op() {
		case "list-sessions":
			list, err = p.Sessions(t.Context())
		case "kill-session":
			s, err = p.KillSession(t.Context(), b.SessionID, b.Signal)
			list = []transport.Session{s}
		default:
			s, _, err = p.StartDetached(t.Context(), b.SessionID, transport.Detached{Path: b.Command, Args: b.Args, Dir: b.Cwd, Env: env(b.Env)})
			list = []transport.Session{s}
		}
		if text, refused := c.refusal(); refused {
			judge[*transport.SessionError](t, err, text)
			return
		}
		type told struct {
			SessionID, Kind, State string
			NextOffset             int64
			ExitCode, Signal       int
		}
		var reply struct {
			told
			Sessions []told
		}
		if decodeErr := json.Unmarshal(c.Received[0].Frame, &reply); decodeErr != nil || err != nil {
			t.Fatal(decodeErr, err)
		}
		if reply.SessionID != "" {
			reply.Sessions = []told{reply.told}
		}
		if len(list) != len(reply.Sessions) {
			t.Fatalf("got %+v, want %+v", list, reply.Sessions)
		}
		for i, want := range reply.Sessions {
			if s := list[i]; s.ID != want.SessionID || s.Terminal != (want.Kind == "terminal") || s.Running != (want.State == "running") || s.NextOffset != want.NextOffset || s.ExitCode != want.ExitCode || s.Signal != want.Signal {
				t.Errorf("got %+v, want %+v", s, want)
			}
		}
	})
}
