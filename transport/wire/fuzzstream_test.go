package wire_test

import (
	"reflect"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// fuzzEvents feeds a parser of events: what it accepts is written by the
// guest's side so that it is read as the same again.
func fuzzEvents(f *testing.F, parse parser, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parse(data)
		if !known(t, err) {
			return
		}
		if b, ok := v.([]byte); ok {
			if len(b) > len(data) {
				t.Fatalf("%d bytes out of %d", len(b), len(data))
			}
			return
		}
		again(t, v, parse)
	})
}

func again(t *testing.T, v any, parse parser) {
	t.Helper()
	payload, err := wire.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parse(payload); err != nil || !reflect.DeepEqual(got, v) {
		t.Fatalf("%s read again is %+v, %v, want %+v", payload, got, err, v)
	}
}

func FuzzParseRetainedEvent(f *testing.F) {
	fuzzEvents(f, parseRetained, `{"type":"stdout_delta","data":"x","offset":0,"nextOffset":1}`,
		`{"type":"attached","executionId":"e","state":"running","fromOffset":2,"droppedBytes":2}`,
		`{"type":"attach_result","executionId":"e","outcome":"completed","started":true,"result":{"exitCode":0,"timedOut":false,"durationMs":1},"nextOffset":9}`,
		`{"type":"error","error":"output_not_retained","state":"reserved"}`, exitText)
}

const exitText = `{"type":"exit","exitCode":-1,"signal":9,"nextOffset":87}`

func FuzzParseTerminalEvent(f *testing.F) {
	fuzzEvents(f, parseTerminal, exitText, `{"type":"ready","guestBootId":"b","heartbeatMs":100}`, `{"type":"data","data":"$ "}`, `{"type":"heartbeat"}`,
		`{"type":"ready","sessionId":"s","kind":"terminal","state":"exited","exitCode":3,"fromOffset":1,"droppedBytes":1,"nextOffset":87,"heartbeatMs":0.1}`,
		`{"type":"data","stream":"stderr","data":"x","offset":0,"nextOffset":1}`, `{"type":"detached","reason":"slow_reader"}`, `{"type":"error","error":"invalid_offset","nextOffset":9}`)
}

// FuzzPlainData compares the short way of reading data with the long one, which
// a blank in front makes the parsers take.
func FuzzPlainData(f *testing.F) {
	for _, seed := range []string{"", "cGluZwo=", "YQ==", "YQ", "YR==", "YW\\nJj", "YWJj\\u0059", `Y",`, "YWJj\nYWJj", "é"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		payload := `{"type":"data","data":"` + string(data) + `"}`
		for _, parse := range []parser{parseStream, parseConnect} {
			short, err := parse([]byte(payload))
			long, longErr := parse([]byte(" " + payload))
			if (err == nil) != (longErr == nil) || err == nil && !reflect.DeepEqual(short, long) {
				t.Fatalf("%q is %v, %v and the long way %v, %v", payload, short, err, long, longErr)
			}
		}
	})
}

func FuzzParseConnectEvent(f *testing.F) {
	fuzzEvents(f, parseConnect, `{"type":"ready","heartbeatMs":1e9}`, `{"type":"data","data":"cGluZwo="}`, `{"type":"end"}`, `{"type":"error","error":"x"}`)
}

func FuzzParseSessionReplies(f *testing.F) {
	for _, seed := range []string{
		`{"ok":true,` + sessionText + `,"pid":77,"signalled":1}`, `{"ok":true,"sessions":[{` + sessionText + `}]}`, `{"ok":false,"error":"session_exists"}`,
		`{"ok":true,"scope":"owned-sessions","graceMs":5,"rounds":1,"stopped":[{"pid":9,"command":"sleep","signal":"SIGKILL"}]}`, `{"ok":true,"durationMs":12,"workspace":"/w"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []parser{parseStart, parseList, parseKill, parseQuiesce, parseFlush} {
			if v, err := parse(data); known(t, err) {
				again(t, v, parse)
			}
		}
	})
}

func FuzzParseHostFrame(f *testing.F) {
	for _, seed := range []string{
		`{"type":"input","data":"ls\n"}`, `{"type":"resize","cols":120,"rows":40}`, `{"type":"kill","signal":"SIGINT"}`, `{"type":"data","data":"cGluZwo="}`, `{"type":"destroy"}`, `{"type":"kill","signal":9}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, ok := wire.ParseHostFrame(data)
		if !ok {
			return
		}
		if got, ok := wire.ParseHostFrame(v.Append(nil)); !ok || got != v {
			t.Fatalf("%s became %+v, written and read again %+v, %v", data, v, got, ok)
		}
	})
}
