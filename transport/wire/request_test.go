package wire_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

func TestRequests(t *testing.T) {
	zero, five := int64(0), int64(5)
	empty := ""
	for _, tt := range []struct {
		name string
		r    wire.Request
		want string
	}{
		{"healthz has neither body nor token", wire.Request{Op: wire.OpHealth}, `{"op":"healthz"}`},
		{"reserve without a wish", wire.Request{Op: wire.OpReserve, Token: "t"}, `{"op":"reserve-execution","token":"t"}`},
		{"reserve of a named id", wire.Request{Op: wire.OpReserve, Body: wire.ReserveBody{ExecutionID: someID}}, `{"op":"reserve-execution","body":{"executionId":"` + someID + `"}}`},
		{"args are there even when there are none", wire.Request{Op: wire.OpExecute, Body: wire.ExecuteBody{Command: "id", Args: []string{}}},
			`{"op":"execute","body":{"command":"id","args":[]}}`},
		{"everything of execute", wire.Request{Op: wire.OpExecute, Body: wire.ExecuteBody{ExecutionID: someID, Command: "sh", Args: []string{"-c", "a<b>c&d"}, Cwd: "p", Env: map[string]string{"K": "v"}, Stdin: &empty, TimeoutMs: 1, MaxOutput: 2}, Token: "t"},
			`{"op":"execute","body":{"executionId":"` + someID + `","command":"sh","args":["-c","a<b>c&d"],"cwd":"p","env":{"K":"v"},"stdin":"","timeoutMs":1,"maxOutputBytes":2},"token":"t"}`},
		{"output that is kept", wire.Request{Op: wire.OpExecute, Body: wire.ExecuteBody{ExecutionID: someID, Retain: true, Command: "id"}},
			`{"op":"execute","body":{"executionId":"` + someID + `","retainOutput":true,"command":"id","args":[]}}`},
		{"an attachment says where it begins", wire.Request{Op: wire.OpAttachExecution, Body: wire.AttachBody{ExecutionID: someID}},
			`{"op":"attach-execution","body":{"executionId":"` + someID + `","fromOffset":0}}`},
		{"a terminal with the guest's shell", wire.Request{Op: wire.OpTerminal, Body: wire.TerminalBody{Cols: 80, Rows: 24}}, `{"op":"terminal","body":{"cols":80,"rows":24}}`},
		{"everything of terminal", wire.Request{Op: wire.OpTerminal, Body: wire.TerminalBody{Cols: 80, Rows: 24, Command: "sh", Args: []string{"-l"}, Cwd: "d", Env: map[string]string{"B": "2", "A": "1"}, HeartbeatMs: 15000, SessionID: "s", Persistent: true}},
			`{"op":"terminal","body":{"cols":80,"rows":24,"command":"sh","args":["-l"],"cwd":"d","env":{"A":"1","B":"2"},"heartbeatMs":15000,"sessionId":"s","persistent":true}}`},
		{"an attachment to a session follows", wire.Request{Op: wire.OpAttachSession, Body: wire.AttachSessionBody{SessionID: "s", FromOffset: 9, Cols: 80, Rows: 24, HeartbeatMs: 100}},
			`{"op":"attach-session","body":{"sessionId":"s","fromOffset":9,"cols":80,"rows":24,"heartbeatMs":100}}`},
		{"a look at a session", wire.Request{Op: wire.OpAttachSession, Body: wire.AttachSessionBody{SessionID: "s", Once: true}},
			`{"op":"attach-session","body":{"sessionId":"s","fromOffset":0,"follow":false}}`},
		{"a session without a terminal", wire.Request{Op: wire.OpStartDetached, Body: wire.StartBody{SessionID: "s", Command: "sh", Args: []string{"-c", "x"}, Cwd: "d", Env: map[string]string{"A": "1"}}},
			`{"op":"start-detached","body":{"sessionId":"s","command":"sh","args":["-c","x"],"cwd":"d","env":{"A":"1"}}}`},
		{"the end of a session", wire.Request{Op: wire.OpKillSession, Body: wire.KillBody{SessionID: "s", Signal: "SIGTERM"}}, `{"op":"kill-session","body":{"sessionId":"s","signal":"SIGTERM"}}`},
		{"the guest's end of a session", wire.Request{Op: wire.OpKillSession, Body: wire.KillBody{SessionID: "s"}}, `{"op":"kill-session","body":{"sessionId":"s"}}`},
		{"all sessions", wire.Request{Op: wire.OpListSessions, Token: "t"}, `{"op":"list-sessions","token":"t"}`},
		{"a port", wire.Request{Op: wire.OpConnect, Body: wire.ConnectBody{Port: 8080}}, `{"op":"tcp-connect","body":{"port":8080}}`},
		{"a port with everything", wire.Request{Op: wire.OpConnect, Body: wire.ConnectBody{Host: "::1", Port: 8080, HeartbeatMs: 100}}, `{"op":"tcp-connect","body":{"host":"::1","port":8080,"heartbeatMs":100}}`},
		{"quiesce with the guest's grace", wire.Request{Op: wire.OpQuiesce, Body: wire.QuiesceBody{}}, `{"op":"quiesce","body":{}}`},
		{"quiesce", wire.Request{Op: wire.OpQuiesce, Body: wire.QuiesceBody{GraceMs: 5}}, `{"op":"quiesce","body":{"graceMs":5}}`},
		{"flush", wire.Request{Op: wire.OpFlush, Body: wire.FlushBody{TimeoutMs: 5}}, `{"op":"flush","body":{"timeoutMs":5}}`},
		{"a range from the beginning says so", wire.Request{Op: wire.OpReadFile, Body: wire.ReadBody{Path: "a", Encoding: "base64", Offset: &zero, Length: &five}},
			`{"op":"read-file","body":{"path":"a","encoding":"base64","offset":0,"length":5}}`},
		{"a first part says offset and final", wire.Request{Op: wire.OpWriteFile, Body: wire.WriteBody{Path: "a", Part: &wire.Part{}}},
			`{"op":"write-file","body":{"path":"a","content":"","part":{"offset":0,"final":false}}}`},
		{"a discard", wire.Request{Op: wire.OpWriteFile, Body: wire.WriteBody{Path: "a", Part: &wire.Part{Discard: true}}},
			`{"op":"write-file","body":{"path":"a","content":"","part":{"offset":0,"final":false,"discard":true}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.Marshal(tt.r)
			if err != nil || string(got) != tt.want {
				t.Errorf("\n got %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

// TestRequestsSurviveTheGuestsReading marshals and parses every body.
func TestRequestsSurviveTheGuestsReading(t *testing.T) {
	body := wire.ExecuteBody{ExecutionID: someID, Command: "sh", Args: []string{"-c", "\u2028<&>\x00\"\\"}, Env: map[string]string{"A=": "é"}, TimeoutMs: 9007199254740991}
	payload, err := wire.Marshal(wire.Request{Op: wire.OpExecute, Body: body, Token: "<token>"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.ParseEnvelope(payload)
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Envelope{Op: "execute", Token: "<token>", Body: map[string]any{
		"executionId": someID, "command": "sh", "args": []any{"-c", "\u2028<&>\x00\"\\"},
		"env": map[string]any{"A=": "é"}, "timeoutMs": json.Number("9007199254740991"),
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestEnvelopes(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       wire.Envelope
	}{
		{"nothing but an op", `{"op":"healthz"}`, wire.Envelope{Op: "healthz"}},
		{"blanks and line feeds around and inside", " \n{\t\"op\" : \"healthz\" }\r\n", wire.Envelope{Op: "healthz"}},
		{"fields nobody knows", `{"x":1,"op":"healthz","y":null}`, wire.Envelope{Op: "healthz"}},
		{"the last of two ops", `{"op":"execute","op":"healthz"}`, wire.Envelope{Op: "healthz"}},
		{"the last of two bodies, not both", `{"body":{"a":"1"},"body":{"b":"2"}}`, wire.Envelope{Body: map[string]any{"b": "2"}}},
		{"an op of another type", `{"op":5,"token":["x"]}`, wire.Envelope{Op: json.Number("5"), Token: []any{"x"}}},
		{"a key in another case", `{"Op":"healthz"}`, wire.Envelope{}},
		{"a body that is no object", `{"op":"x","body":[1]}`, wire.Envelope{Op: "x"}},
		{"a body that is null", `{"op":"x","body":null}`, wire.Envelope{Op: "x"}},
		{"null", `null`, wire.Envelope{}},
		{"a number", `42`, wire.Envelope{}},
		{"a text", `"x"`, wire.Envelope{}},
		{"a list", `[]`, wire.Envelope{}},
		{"bytes that are no UTF-8", "{\"op\":\"a\xff\"}", wire.Envelope{Op: "a\ufffd"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.ParseEnvelope([]byte(tt.text))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s\n got %+v, %v\nwant %+v", tt.text, got, err, tt.want)
			}
		})
	}
	for _, text := range []string{
		"", " ", "not json", "{", `{"op":"healthz"`, `{"op":"healthz"}}`, `{"op":"healthz"}]`, `{"op":"healthz"} {}`, `{"op":"healthz"}x`,
		`{"op":"healthz",}`, `{'op':'healthz'}`, "\xef\xbb\xbf{}", "\x00", "NaN", strings.Repeat("[", 100_000),
	} {
		if got, err := wire.ParseEnvelope([]byte(text)); !errors.Is(err, wire.ErrNotJSON) {
			t.Errorf("ParseEnvelope(%.40q) = %+v, %v, want ErrNotJSON", text, got, err)
		}
	}
}

// TestWriteFrame builds the same request in one go and piece by piece.
func TestWriteFrame(t *testing.T) {
	content := []byte("0123456789abcdefg")
	for _, tt := range []struct {
		name  string
		body  wire.WriteBody
		token string
	}{
		{"whole", wire.WriteBody{Path: `a "quoted" <path>`}, "t"},
		{"whole without a token", wire.WriteBody{Path: "a"}, ""},
		{"a part in the middle", wire.WriteBody{Path: "a", Part: &wire.Part{Offset: 7}}, "t"},
		{"the final part", wire.WriteBody{Path: "a", Part: &wire.Part{Offset: 7, Final: true, RenameTo: "b"}}, "t"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			frame := &wire.WriteFrame{Budget: 100}
			frame.Add(content[:6])
			frame.Add(content[6:])
			for range 2 { // Frame can be asked for again
				got := frame.Frame(tt.body, tt.token)
				payload, err := wire.NewFrameReader(strings.NewReader(string(got)), 1000).Next()
				if err != nil {
					t.Fatalf("%q: %v", got, err)
				}
				tt.body.Content, tt.body.Encoding = base64.StdEncoding.EncodeToString(content), "base64"
				want, _ := wire.Marshal(wire.Request{Op: wire.OpWriteFile, Body: tt.body, Token: tt.token})
				var x, y any
				if err := json.Unmarshal(payload, &x); err != nil {
					t.Fatalf("%s: %v", payload, err)
				}
				if json.Unmarshal(want, &y); !reflect.DeepEqual(x, y) {
					t.Errorf("got %s, want the content of %s", payload, want)
				}
				over := wire.WriteOverhead(tt.body, tt.token)
				if want := len(payload) - len(tt.body.Content); over != want {
					t.Errorf("WriteOverhead = %d, want %d", over, want)
				}
			}
			frame.Reset()
			if got := frame.Frame(tt.body, tt.token); strings.Contains(string(got), "MDEy") || frame.Len() != 0 {
				t.Errorf("after Reset: %s", got)
			}
		})
	}
}

func TestWriteFrameFillsItsBudgetExactly(t *testing.T) {
	for budget := 4; budget < 40; budget++ {
		frame := &wire.WriteFrame{Budget: budget}
		n := frame.Room()
		frame.Add(make([]byte, n))
		got := frame.Frame(wire.WriteBody{}, "")
		over := wire.WriteOverhead(wire.WriteBody{}, "")
		used := len(got) - wire.HeaderLen - over
		if used > budget || budget-used >= 4 || frame.Room() != 0 || frame.Len() != n {
			t.Errorf("budget %d: %d used by %d bytes, room %d", budget, used, n, frame.Room())
		}
	}
}
