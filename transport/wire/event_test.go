package wire_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

func TestExecuteEvents(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       any
	}{
		{"output", `{"type":"stdout_delta","data":"début\n"}`, &wire.Delta{Type: "stdout_delta", Data: "début\n"}},
		{"output of the other stream with fields nobody asked for", `{"type":"stderr_delta","data":"","offset":0,"nextOffset":0}`, &wire.Delta{Type: "stderr_delta"}},
		{"half a surrogate pair", `{"type":"stdout_delta","data":"\ud83d"}`, &wire.Delta{Type: "stdout_delta", Data: "\ufffd"}},
		{"bytes that are no UTF-8", "{\"type\":\"stdout_delta\",\"data\":\"a\xffb\"}", &wire.Delta{Type: "stdout_delta", Data: "a\ufffdb"}},
		{"a result", `{"type":"result","exitCode":3,"timedOut":false,"durationMs":18,"stdoutTruncated":false,"stderrTruncated":true}`,
			&wire.Result{Type: "result", ExitCode: 3, DurationMs: 18, StderrTruncated: true}},
		{"a result of a killed program, without the optional flags", `{"type":"result","exitCode":-1,"timedOut":true,"durationMs":1512,"signal":"SIGTERM"}`,
			&wire.Result{Type: "result", ExitCode: -1, TimedOut: true, DurationMs: 1512, Signal: "SIGTERM"}},
		{"an error", `{"type":"error","error":"spawn x ENOENT"}`, &wire.StreamError{Type: "error", Text: "spawn x ENOENT"}},
		{"an error that says ok false as well is an error", `{"type":"error","ok":false,"error":"x"}`, &wire.StreamError{Type: "error", Text: "x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.ParseExecuteEvent([]byte(tt.text))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s\n got %+v, %v\nwant %+v", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestReadEvents(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       any
	}{
		{"meta", `{"type":"meta","sizeBytes":8,"offset":2,"length":6}`, &wire.Meta{Type: "meta", SizeBytes: 8, Offset: 2, Length: 6}},
		{"data", `{"type":"data","data":"AgMEBQYH"}`, []byte{2, 3, 4, 5, 6, 7}},
		{"no data", `{"type":"data","data":""}`, []byte{}},
		{"end", `{"type":"end","bytesSent":6}`, &wire.End{Type: "end", BytesSent: 6}},
		{"error", `{"type":"error","error":"read_file_stream_not_a_regular_file"}`, &wire.StreamError{Type: "error", Text: "read_file_stream_not_a_regular_file"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.ParseReadEvent([]byte(tt.text))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s\n got %+v, %v\nwant %+v", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestEventsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parse parser
		text  string
	}{
		{"output that is no text", parseExecute, `{"type":"stdout_delta","data":5}`},
		{"output without data", parseExecute, `{"type":"stdout_delta"}`},
		{"output that is null", parseExecute, `{"type":"stdout_delta","data":null}`},
		{"a result without its exit code", parseExecute, `{"type":"result","timedOut":false,"durationMs":1}`},
		{"a fractional exit code", parseExecute, `{"type":"result","exitCode":0.5,"timedOut":false,"durationMs":1}`},
		{"an exit code below the range", parseExecute, `{"type":"result","exitCode":-2147483649,"timedOut":false,"durationMs":1}`},
		{"no word on the time-out", parseExecute, `{"type":"result","exitCode":0,"durationMs":1}`},
		{"a time-out that is a number", parseExecute, `{"type":"result","exitCode":0,"timedOut":0,"durationMs":1}`},
		{"a signal that is a number", parseExecute, `{"type":"result","exitCode":0,"timedOut":false,"durationMs":1,"signal":9}`},
		{"an error without text", parseExecute, `{"type":"error"}`},
		{"an error whose text is an object", parseExecute, `{"type":"error","error":{}}`},
		{"a file's event in a program's stream", parseExecute, `{"type":"meta","sizeBytes":8,"offset":2,"length":6}`},
		{"a success that is no event", parseExecute, `{"ok":true}`},
		{"a program's event in a file's stream", parseStream, `{"type":"stdout_delta","data":""}`},
		{"a negative size", parseStream, `{"type":"meta","sizeBytes":-8,"offset":2,"length":6}`},
		{"a negative offset", parseStream, `{"type":"meta","sizeBytes":8,"offset":-2,"length":6}`},
		{"a negative length", parseStream, `{"type":"meta","sizeBytes":8,"offset":2,"length":-6}`},
		{"a length beyond the safe integers", parseStream, `{"type":"meta","sizeBytes":8,"offset":2,"length":9007199254740992}`},
		{"data that is no base64", parseStream, `{"type":"data","data":"!!!!"}`},
		{"data without padding", parseStream, `{"type":"data","data":"YQ"}`},
		{"data in the URL alphabet", parseStream, `{"type":"data","data":"-_-_"}`},
		{"a negative total", parseStream, `{"type":"end","bytesSent":-1}`},
		{"no total", parseStream, `{"type":"end"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.parse([]byte(tt.text))
			if _, ok := errors.AsType[*wire.MessageError](err); !ok {
				t.Errorf("%s\n got %+v, %v, want a *MessageError", tt.text, got, err)
			}
		})
	}
	for name, parse := range map[string]parser{"execute": parseExecute, "read-file-stream": parseStream} {
		for _, text := range []string{
			``, ` `, "\n", `null`, `7`, `[]`, `{}`, `{"type":""}`, `{"type":7}`, `{"type":null,"ok":false,"error":"x"}`, `{"type":"Result"}`,
			`{"type":"end"}{"type":"end"}`, `{"ok":false}`, strings.Repeat(`{"type":`, 50_000),
		} {
			got, err := parse([]byte(text))
			if _, ok := errors.AsType[*wire.MessageError](err); !ok {
				t.Errorf("%s event %.60q: got %+v, %v, want a *MessageError", name, text, got, err)
			}
		}
		_, err := parse([]byte(`{"ok":false,"error":"agent_retiring"}`))
		if got, ok := errors.AsType[*wire.Refusal](err); !ok || got.Code != wire.CodeRetiring {
			t.Errorf("%s: a control-shaped refusal = %v, want a *Refusal", name, err)
		}
	}
}

// TestTextsOfPeersAreCut sees that what a peer sent is quoted and short in the
// text of an error.
func TestTextsOfPeersAreCut(t *testing.T) {
	_, err := wire.ParseExecuteEvent([]byte(`{"type":"` + strings.Repeat("x", 10_000) + `\u001b"}`))
	if text := err.Error(); len(text) > 200 {
		t.Errorf("the error's text has %d bytes: %.100s", len(text), text)
	}
}
