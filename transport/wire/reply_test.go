package wire_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const someID = "exec_7e4f2b18-6c3d-4a95-b0e7-28d91f5c6a03"

// parser is one of the Parse functions, its message erased.
type parser func([]byte) (any, error)

func erase[T any](f func([]byte) (T, error)) parser {
	return func(b []byte) (any, error) { return f(b) }
}

var (
	parseHealth       = erase(wire.ParseHealth)
	parseReservation  = erase(wire.ParseReservation)
	parseCancellation = erase(wire.ParseCancellation)
	parseRead         = erase(wire.ParseRead)
	parseWrite        = erase(wire.ParseWrite)
	parseDiscard      = erase(wire.ParseDiscard)
	parseExecute      = parser(wire.ParseExecuteEvent)
	parseStream       = parser(wire.ParseReadEvent)
)

var replyParsers = map[string]parser{
	"healthz": parseHealth, "reserve": parseReservation, "cancel": parseCancellation, "read": parseRead, "write": parseWrite, "discard": parseDiscard,
}

func TestRepliesAreRead(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parse parser
		text  string
		want  any
	}{
		{"health", parseHealth, `{"ok":true,"protocolVersion":2,"features":["a","b"]}`,
			wire.Health{OK: true, ProtocolVersion: 2, Features: []string{"a", "b"}}},
		{"health without features", parseHealth, `{"ok":true,"protocolVersion":2}`,
			wire.Health{OK: true, ProtocolVersion: 2}},
		{"a fenced guest is no error", parseHealth, `{"ok":false,"protocolVersion":2,"features":[],"retiring":true}`,
			wire.Health{ProtocolVersion: 2, Features: []string{}, Retiring: true}},
		{"a reservation", parseReservation, `{"ok":true,"guestBootId":"b","protocolVersion":2,"executionId":"` + someID + `","leaseExpiresAt":1790000030000}`,
			wire.Reservation{OK: true, BootID: "b", ProtocolVersion: 2, ExecutionID: someID, LeaseExpiresAt: 1790000030000}},
		{"a reservation of a named id, in upper case and with unknown fields", parseReservation,
			`{"state":"running","x":{"y":[1]},"ok":true,"protocolVersion":2,"executionId":"` + strings.ToUpper(someID) + `","leaseExpiresAt":0}`,
			wire.Reservation{OK: true, ProtocolVersion: 2, ExecutionID: strings.ToUpper(someID), State: "running"}},
		{"a cancellation with a result", parseCancellation, `{"ok":true,"guestBootId":"b","state":"cancelled","started":true,"result":{"exitCode":-1,"timedOut":false,"durationMs":2204,"signal":"SIGTERM","stdoutTruncated":true,"stderrTruncated":false}}`,
			wire.Cancellation{OK: true, BootID: "b", State: "cancelled", Started: true, Result: &wire.Result{ExitCode: -1, DurationMs: 2204, Signal: "SIGTERM", StdoutTruncated: true}}},
		{"a cancellation of a failed start", parseCancellation, `{"ok":true,"state":"failed","started":true,"error":"spawn x ENOENT","result":null}`,
			wire.Cancellation{OK: true, State: "failed", Started: true, Error: "spawn x ENOENT"}},
		{"a whole file", parseRead, `{"ok":true,"content":"YQ==","sizeBytes":1,"encoding":"base64"}`,
			wire.ReadReply{OK: true, Content: "YQ==", SizeBytes: 1, Encoding: "base64"}},
		{"a range", parseRead, `{"ok":true,"guestBootId":"b","content":"","sizeBytes":7,"encoding":"base64","offset":9,"bytesRead":0}`,
			wire.ReadReply{OK: true, BootID: "b", SizeBytes: 7, Encoding: "base64", Offset: new(int64(9)), BytesRead: new(int64(0))}},
		{"a whole write", parseWrite, `{"ok":true,"guestBootId":"b","bytesWritten":11}`, wire.WriteReply{OK: true, BootID: "b", BytesWritten: 11}},
		{"a part", parseWrite, `{"ok":true,"bytesWritten":4,"sizeBytes":10}`, wire.WriteReply{OK: true, BytesWritten: 4, SizeBytes: new(int64(10))}},
		{"a discard", parseDiscard, `{"ok":true,"discarded":true}`, wire.DiscardReply{OK: true, Discarded: true}},
		{"the last of a key's values counts", parseWrite, `{"ok":true,"bytesWritten":4,"bytesWritten":5}`, wire.WriteReply{OK: true, BytesWritten: 5}},
		{"a whole number in another notation", parseWrite, `{"ok":true,"bytesWritten":1.1e1}`, wire.WriteReply{OK: true, BytesWritten: 11}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.parse([]byte(tt.text))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s\n got %+v, %v\nwant %+v", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestRepliesAreRefused(t *testing.T) {
	reservation := func(old, new string) string {
		return strings.Replace(`{"ok":true,"protocolVersion":2,"executionId":"`+someID+`","leaseExpiresAt":1}`, old, new, 1)
	}
	for _, tt := range []struct {
		name  string
		parse parser
		text  string
	}{
		{"another protocol version", parseHealth, `{"ok":true,"protocolVersion":3,"features":[]}`},
		{"another protocol version of a fenced guest", parseHealth, `{"ok":false,"retiring":true,"protocolVersion":1}`},
		{"no protocol version", parseHealth, `{"ok":true,"features":[]}`},
		{"a version that is text", parseHealth, `{"ok":true,"protocolVersion":"2"}`},
		{"features that are no texts", parseHealth, `{"ok":true,"protocolVersion":2,"features":[1]}`},
		{"features that are one text", parseHealth, `{"ok":true,"protocolVersion":2,"features":"flush"}`},
		{"a key in another case is another key", parseHealth, `{"OK":true,"protocolVersion":2}`},
		{"a reservation of version 1", parseReservation, reservation(`:2`, `:1`)},
		{"a fractional version", parseReservation, reservation(`:2`, `:2.5`)},
		{"an id of UUID version 7", parseReservation, reservation("-4a95-", "-7a95-")},
		{"an id of another variant", parseReservation, reservation("-b0e7-", "-c0e7-")},
		{"an id with something behind it", parseReservation, reservation("6a03", `6a03\n`)},
		{"an id that is a number", parseReservation, reservation(`"`+someID+`"`, "7")},
		{"no id", parseReservation, reservation("executionId", "x")},
		{"no lease", parseReservation, reservation("leaseExpiresAt", "x")},
		{"a lease that is no safe integer", parseReservation, reservation(`At":1`, `At":9007199254740992`)},
		{"a lease that no number can hold", parseReservation, reservation(`At":1`, `At":1e999`)},
		{"an unknown outcome", parseCancellation, `{"ok":true,"state":"running","started":true}`},
		{"no word on whether it started", parseCancellation, `{"ok":true,"state":"cancelled"}`},
		{"a result that is no object", parseCancellation, `{"ok":true,"state":"cancelled","started":true,"result":7}`},
		{"a result without an exit code", parseCancellation, `{"ok":true,"state":"cancelled","started":true,"result":{"timedOut":false,"durationMs":1}}`},
		{"an exit code out of range", parseCancellation, `{"ok":true,"state":"cancelled","started":true,"result":{"exitCode":2147483648,"timedOut":false,"durationMs":1}}`},
		{"no content", parseRead, `{"ok":true,"sizeBytes":1}`},
		{"a negative size", parseRead, `{"ok":true,"content":"","sizeBytes":-1}`},
		{"a negative offset", parseRead, `{"ok":true,"content":"","sizeBytes":1,"offset":-1}`},
		{"a negative count", parseRead, `{"ok":true,"content":"","sizeBytes":1,"bytesRead":-1}`},
		{"no count", parseWrite, `{"ok":true}`},
		{"a discard for a write", parseWrite, `{"ok":true,"discarded":true}`},
		{"a write for a discard", parseDiscard, `{"ok":true,"bytesWritten":0}`},
		{"a negative count of written bytes", parseWrite, `{"ok":true,"bytesWritten":-1}`},
		{"a negative size after a part", parseWrite, `{"ok":true,"bytesWritten":1,"sizeBytes":-1}`},
		{"a fractional count", parseWrite, `{"ok":true,"bytesWritten":0.5}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.parse([]byte(tt.text))
			if _, ok := errors.AsType[*wire.MessageError](err); !ok {
				t.Errorf("%s\n got %+v, %v, want a *MessageError", tt.text, got, err)
			}
		})
	}
	for name, parse := range replyParsers {
		for _, text := range []string{
			``, ` `, `null`, `42`, `"x"`, `[]`, `{}`, `{`, `{"ok":true}}`, `{"ok":1}`, `{"ok":"true"}`, `{"ok":null}`,
			`{"ok":false}`, `{"ok":false,"error":null}`, `{"ok":false,"error":5}`, `{"ok":false,"error":"x","message":5}`,
			"\xef\xbb\xbf{\"ok\":false,\"error\":\"x\"}", "\x00", strings.Repeat("[", 100_000),
		} {
			got, err := parse([]byte(text))
			if _, ok := errors.AsType[*wire.MessageError](err); !ok {
				t.Errorf("%s reply %.60q: got %+v, %v, want a *MessageError", name, text, got, err)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, parse := range replyParsers {
		_, err := parse([]byte(`{"ok":false,"guestBootId":"b","error":"cancellation_unconfirmed","message":"still there"}`))
		got, ok := errors.AsType[*wire.Refusal](err)
		if want := (wire.Refusal{BootID: "b", Code: "cancellation_unconfirmed", Message: "still there"}); !ok || *got != want {
			t.Errorf("%s: got %v, want %v", name, err, &want)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{`{"ok":false,"error":"unauthorized"}`, "guest refused: unauthorized"},
		{`{"ok":false,"error":"flush_unsupported","message":"no sync"}`, "guest refused: flush_unsupported: no sync"},
	} {
		if _, err := wire.ParseWrite([]byte(tt.text)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
}

func TestValidExecutionID(t *testing.T) {
	for id, want := range map[string]bool{
		someID: true, strings.ToUpper(someID): true, "Exec_" + someID[5:]: true,
		"": false, someID[5:]: false, someID + "\n": false, "\n" + someID: false, someID + "0": false,
		strings.Replace(someID, "-4a95", "-0a95", 1): false, strings.Replace(someID, "-4a95", "-6a95", 1): false,
		strings.Replace(someID, "_", "-", 1): false, strings.Replace(someID, "7e4f2b18", "7e4f2b1g", 1): false,
	} {
		if got := wire.ValidExecutionID(id); got != want {
			t.Errorf("ValidExecutionID(%q) = %v, want %v", id, got, want)
		}
	}
}

func TestCode(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"unauthorized":                   "unauthorized",
		"ENOENT: no such file: x":        "ENOENT",
		"execution_not_reserved: exited": "execution_not_reserved",
		":":                              "",
	} {
		if got := wire.Code(text); got != want {
			t.Errorf("Code(%q) = %q, want %q", text, got, want)
		}
	}
}
