package wire_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

var (
	parseRetained = parser(wire.ParseRetainedEvent)
	parseTerminal = parser(wire.ParseTerminalEvent)
	parseConnect  = parser(wire.ParseConnectEvent)
	parseStart    = erase(wire.ParseStart)
	parseList     = erase(wire.ParseList)
	parseKill     = erase(wire.ParseKill)
	parseQuiesce  = erase(wire.ParseQuiesce)
	parseFlush    = erase(wire.ParseFlush)
)

const sessionText = `"sessionId":"web","kind":"detached","command":"sh","args":["-c","x"],"startedAt":5,"nextOffset":12,"droppedBytes":2,"state":"exited","attached":false,"exitCode":-1,"signal":15`

var session = wire.Session{
	SessionID: "web", Kind: wire.KindDetached, Command: "sh", Args: []string{"-c", "x"}, StartedAt: 5,
	NextOffset: 12, Dropped: 2, State: wire.StateExited, ExitCode: new(-1), Signal: 15,
}

func TestStreamEventsAndSessionReplies(t *testing.T) {
	running := session
	running.State, running.ExitCode, running.Signal, running.Attached, running.LastInputAt, running.LastOutputAt = wire.StateRunning, nil, 0, true, 6, 7
	for _, tt := range []struct {
		name  string
		parse parser
		text  string
		want  any
	}{
		{"output that is kept", parseRetained, `{"type":"stderr_delta","data":"two\n","offset":4,"nextOffset":8}`,
			&wire.RetainedDelta{Type: "stderr_delta", Data: "two\n", Offset: 4, NextOffset: 8}},
		{"half a character, whose text is longer than its bytes", parseRetained, `{"type":"stdout_delta","data":"\ufffd","offset":0,"nextOffset":1}`,
			&wire.RetainedDelta{Type: "stdout_delta", Data: "\ufffd", NextOffset: 1}},
		{"the beginning of an attachment", parseRetained, `{"type":"attached","executionId":"` + someID + `","state":"running","fromOffset":2,"droppedBytes":2}`,
			&wire.Attached{Type: "attached", ExecutionID: someID, State: "running", FromOffset: 2, Dropped: 2}},
		{"the end of an attachment", parseRetained, `{"type":"attach_result","executionId":"` + someID + `","outcome":"cancelled","started":true,"result":{"exitCode":-1,"timedOut":false,"durationMs":466,"signal":"SIGKILL"},"nextOffset":9}`,
			&wire.AttachResult{Type: "attach_result", ExecutionID: someID, Outcome: "cancelled", Started: true, Result: &wire.Result{ExitCode: -1, DurationMs: 466, Signal: "SIGKILL"}, NextOffset: 9}},
		{"the end of a start that failed", parseRetained, `{"type":"attach_result","executionId":"` + someID + `","outcome":"failed","started":true,"error":"spawn x ENOENT","nextOffset":0}`,
			&wire.AttachResult{Type: "attach_result", ExecutionID: someID, Outcome: "failed", Started: true, Error: "spawn x ENOENT"}},
		{"a refusal with the state", parseRetained, `{"type":"error","error":"output_not_retained","state":"reserved"}`,
			&wire.StreamError{Type: "error", Text: "output_not_retained", State: "reserved"}},
		{"a plain terminal is ready", parseTerminal, `{"type":"ready","guestBootId":"b"}`, &wire.Ready{Type: "ready", BootID: "b"}},
		{"and takes up the heartbeat", parseTerminal, `{"type":"ready","heartbeatMs":250.9}`, &wire.Ready{Type: "ready", HeartbeatMs: 250}},
		{"a heartbeat below a millisecond is one", parseTerminal, `{"type":"ready","heartbeatMs":0.0001}`, &wire.Ready{Type: "ready", HeartbeatMs: 1}},
		{"a heartbeat beyond all bounds is bounded", parseTerminal, `{"type":"ready","heartbeatMs":1e300}`, &wire.Ready{Type: "ready", HeartbeatMs: wire.MaxSafeInteger}},
		{"a heartbeat of no time is none", parseTerminal, `{"type":"ready","heartbeatMs":0}`, &wire.Ready{Type: "ready"}},
		{"a heartbeat that is text is none", parseTerminal, `{"type":"ready","heartbeatMs":"250"}`, &wire.Ready{Type: "ready"}},
		{"a session is ready", parseTerminal, `{"type":"ready","guestBootId":"b","sessionId":"s","kind":"terminal","state":"exited","exitCode":3,"fromOffset":1,"droppedBytes":1,"nextOffset":87}`,
			&wire.SessionReady{Type: "ready", BootID: "b", SessionID: "s", Kind: "terminal", State: "exited", ExitCode: new(3), FromOffset: 1, Dropped: 1, NextOffset: 87}},
		{"output of a terminal", parseTerminal, `{"type":"data","data":"$ "}`, &wire.Data{Type: "data", Data: "$ "}},
		{"output of a session", parseTerminal, `{"type":"data","stream":"stderr","data":"x","offset":0,"nextOffset":1}`,
			&wire.SessionData{Type: "data", Stream: "stderr", Data: "x", NextOffset: 1}},
		{"the end of a terminal", parseTerminal, `{"type":"exit","exitCode":-1,"signal":9}`, &wire.Exit{Type: "exit", ExitCode: -1, Signal: 9}},
		{"the end of a session", parseTerminal, `{"type":"exit","exitCode":3,"nextOffset":87}`, &wire.Exit{Type: "exit", ExitCode: 3, NextOffset: new(int64(87))}},
		{"another attachment came", parseTerminal, `{"type":"detached","reason":"superseded"}`, &wire.Detached{Type: "detached", Reason: "superseded"}},
		{"a heartbeat", parseTerminal, `{"type":"heartbeat"}`, &wire.Bare{Type: "heartbeat"}},
		{"an offset beyond the end", parseTerminal, `{"type":"error","error":"invalid_offset","nextOffset":9}`,
			&wire.StreamError{Type: "error", Text: "invalid_offset", NextOffset: new(int64(9))}},
		{"a port is connected", parseConnect, `{"type":"ready","guestBootId":"b","heartbeatMs":150}`, &wire.Ready{Type: "ready", BootID: "b", HeartbeatMs: 150}},
		{"bytes of a port", parseConnect, `{"type":"data","data":"cGluZwo="}`, []byte("ping\n")},
		{"the end of a port", parseConnect, `{"type":"end"}`, &wire.Bare{Type: "end"}},
		{"a heartbeat of a port", parseConnect, `{"type":"heartbeat"}`, &wire.Bare{Type: "heartbeat"}},
		{"a port that nobody listens on", parseConnect, `{"type":"error","error":"connect ECONNREFUSED 127.0.0.1:1"}`, &wire.StreamError{Type: "error", Text: "connect ECONNREFUSED 127.0.0.1:1"}},
		{"a started session", parseStart, `{"ok":true,` + sessionText + `,"pid":77}`, wire.StartReply{OK: true, Session: session, PID: 77}},
		{"a killed session", parseKill, `{"ok":true,` + sessionText + `,"signalled":2}`, wire.KillReply{OK: true, Session: session, Signalled: new(int64(2))}},
		{"a session that was over", parseKill, `{"ok":true,` + sessionText + `}`, wire.KillReply{OK: true, Session: session}},
		{"no sessions", parseList, `{"ok":true,"sessions":[]}`, wire.ListReply{OK: true, Sessions: []wire.Session{}}},
		{"sessions", parseList, `{"ok":true,"sessions":[{` + sessionText + `},{"sessionId":"web","kind":"detached","command":"sh","args":["-c","x"],"startedAt":5,"lastInputAt":6,"lastOutputAt":7,"nextOffset":12,"droppedBytes":2,"state":"running","attached":true}]}`,
			wire.ListReply{OK: true, Sessions: []wire.Session{session, running}}},
		{"nothing ran", parseQuiesce, `{"ok":true,"scope":"pid-namespace","graceMs":1000,"rounds":0,"stopped":[]}`,
			wire.QuiesceReply{OK: true, Scope: wire.ScopeNamespace, GraceMs: 1000, Stopped: []wire.Stopped{}}},
		{"something ran", parseQuiesce, `{"ok":true,"scope":"owned-sessions","graceMs":5,"rounds":1,"stopped":[{"pid":9,"command":"sleep","signal":"SIGKILL"}]}`,
			wire.QuiesceReply{OK: true, Scope: wire.ScopeOwned, GraceMs: 5, Rounds: 1, Stopped: []wire.Stopped{{PID: 9, Command: "sleep", Signal: "SIGKILL"}}}},
		{"on disk", parseFlush, `{"ok":true,"durationMs":12,"workspace":"/w"}`, wire.FlushReply{OK: true, DurationMs: 12, Workspace: "/w"}},
		{"a reservation of what has ended", parseReservation, `{"ok":true,"protocolVersion":2,"executionId":"` + someID + `","leaseExpiresAt":1,"state":"terminal","retainedOutput":true,"outputOffset":0}`,
			wire.Reservation{OK: true, ProtocolVersion: 2, ExecutionID: someID, LeaseExpiresAt: 1, State: "terminal", RetainedOutput: true, OutputOffset: new(int64(0))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.parse([]byte(tt.text))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s\n got %+v, %v\nwant %+v", tt.text, got, err, tt.want)
			}
			if _, data := got.([]byte); data || strings.Contains(tt.text, "heartbeatMs\":0") || err != nil {
				return
			}
			// What the guest's side writes is read as the same.
			written, err := wire.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := tt.parse(written); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("%s read again is %+v, %v", written, again, err)
			}
		})
	}
}

func TestStreamEventsAndSessionRepliesAreRefused(t *testing.T) {
	with := func(old, new string) string {
		return `{"ok":true,` + strings.Replace(sessionText, old, new, 1) + `,"pid":7}`
	}
	for _, tt := range []struct {
		name  string
		parse parser
		text  string
	}{
		{"output without its place", parseRetained, `{"type":"stdout_delta","data":"x"}`},
		{"output without its end", parseRetained, `{"type":"stdout_delta","data":"x","offset":0}`},
		{"output that runs backwards", parseRetained, `{"type":"stdout_delta","data":"x","offset":5,"nextOffset":4}`},
		{"output at no whole byte", parseRetained, `{"type":"stdout_delta","data":"x","offset":0,"nextOffset":0.5}`},
		{"output before the first byte", parseRetained, `{"type":"stdout_delta","data":"x","offset":-1,"nextOffset":0}`},
		{"an attachment without its beginning", parseRetained, `{"type":"attached","executionId":"x","state":"running","droppedBytes":0}`},
		{"an attachment that lost less than nothing", parseRetained, `{"type":"attached","executionId":"x","state":"running","fromOffset":0,"droppedBytes":-1}`},
		{"an unknown outcome", parseRetained, `{"type":"attach_result","executionId":"x","outcome":"won","started":true,"nextOffset":0}`},
		{"an outcome without its end", parseRetained, `{"type":"attach_result","executionId":"x","outcome":"failed","started":true}`},
		{"half a result", parseRetained, `{"type":"attach_result","executionId":"x","outcome":"completed","started":true,"nextOffset":0,"result":{"exitCode":0}}`},
		{"a heartbeat where there is none", parseRetained, `{"type":"heartbeat"}`},
		{"a session without its kind", parseTerminal, `{"type":"ready","sessionId":"s","state":"running","fromOffset":0,"droppedBytes":0,"nextOffset":0}`},
		{"output of an unknown stream", parseTerminal, `{"type":"data","stream":"x","data":"","offset":0,"nextOffset":0}`},
		{"output of half a place", parseTerminal, `{"type":"data","stream":"stdout","data":"","nextOffset":0}`},
		{"output that is no text", parseTerminal, `{"type":"data","data":7}`},
		{"an end without a status", parseTerminal, `{"type":"exit"}`},
		{"an end with a signal's name", parseTerminal, `{"type":"exit","exitCode":-1,"signal":"SIGTERM"}`},
		{"a signal below zero", parseTerminal, `{"type":"exit","exitCode":-1,"signal":-9}`},
		{"a status beyond all", parseTerminal, `{"type":"exit","exitCode":2147483648}`},
		{"detached for no reason", parseTerminal, `{"type":"detached"}`},
		{"an unknown event", parseTerminal, `{"type":"title"}`},
		{"bytes of a port that are no base64", parseConnect, `{"type":"data","data":"="}`},
		{"the destruction of a port", parseConnect, `{"type":"destroy"}`},
		{"a started session without its process", parseStart, `{"ok":true,` + sessionText + `}`},
		{"a session without an id", parseStart, with(`"sessionId":"web",`, ``)},
		{"a session with an id that is none", parseStart, with(`"web"`, `"../web"`)},
		{"an ended session without a status", parseStart, with(`,"exitCode":-1`, ``)},
		{"a session in an unknown state", parseStart, with(`"exited"`, `"paused"`)},
		{"arguments that are no texts", parseStart, with(`["-c","x"]`, `[1]`)},
		{"an end before the first byte", parseStart, with(`"nextOffset":12`, `"nextOffset":-1`)},
		{"sessions that are no list", parseList, `{"ok":true,"sessions":{}}`},
		{"sessions that are no sessions", parseList, `{"ok":true,"sessions":["web"]}`},
		{"one broken session among them", parseList, `{"ok":true,"sessions":[{` + sessionText + `},{}]}`},
		{"fewer than no processes signalled", parseKill, `{"ok":true,` + sessionText + `,"signalled":-1}`},
		{"processes that are no list", parseQuiesce, `{"ok":true,"scope":"x","graceMs":1,"rounds":0,"stopped":7}`},
		{"a process that is none", parseQuiesce, `{"ok":true,"scope":"x","graceMs":1,"rounds":0,"stopped":[7]}`},
		{"a process without a number", parseQuiesce, `{"ok":true,"scope":"x","graceMs":1,"rounds":0,"stopped":[{"command":"x","signal":"y"}]}`},
		{"no duration", parseFlush, `{"ok":true,"workspace":"/w"}`},
		{"a reservation with an offset below zero", parseReservation, `{"ok":true,"protocolVersion":2,"executionId":"` + someID + `","leaseExpiresAt":1,"outputOffset":-1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.parse([]byte(tt.text))
			if _, ok := errors.AsType[*wire.MessageError](err); !ok {
				t.Errorf("%s\n got %+v, %v, want a *MessageError", tt.text, got, err)
			}
		})
	}
	for name, parse := range map[string]parser{
		"retained": parseRetained, "terminal": parseTerminal, "connect": parseConnect,
		"start": parseStart, "list": parseList, "kill": parseKill, "quiesce": parseQuiesce, "flush": parseFlush,
	} {
		for _, text := range []string{``, `null`, `7`, `[]`, `{}`, `{"type":7}`, `{"ok":"true"}`, `{"ok":false}`, `{"ok":true}`} {
			got, err := parse([]byte(text))
			if _, ok := errors.AsType[*wire.MessageError](err); !ok {
				t.Errorf("%s %q: got %+v, %v, want a *MessageError", name, text, got, err)
			}
		}
		_, err := parse([]byte(`{"ok":false,"error":"spawn_failed","message":"spawn x ENOENT"}`))
		if got, ok := errors.AsType[*wire.Refusal](err); !ok || got.Code != wire.CodeSpawnFailed || got.Message != "spawn x ENOENT" {
			t.Errorf("%s: a refusal = %v", name, err)
		}
	}
}

func TestValidSessionID(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "0": true, "Z.y_x-9": true, strings.Repeat("a", 64): true,
		"": false, ".a": false, "-a": false, "_a": false, "a/b": false, "a b": false, "a\n": false, "é": false, strings.Repeat("a", 65): false,
	} {
		if got := wire.ValidSessionID(id); got != want {
			t.Errorf("ValidSessionID(%q) = %v, want %v", id, got, want)
		}
	}
}
