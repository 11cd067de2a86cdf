package wire_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// FuzzFrameReader feeds bytes in two deliveries: what is read does not depend
// on the cut, nothing exceeds the limit, and what was read makes the same bytes
// again but for the case of the digits.
func FuzzFrameReader(f *testing.F) {
	for _, seed := range []string{
		"00000010\n{\"op\":\"healthz\"}", "00000000\n", "0000000A\n0123456789", "ffffff00\n", "00000002\nab00000000\n00000001\nc", "zzzzzzzz\n", "0000\n", "",
	} {
		f.Add([]byte(seed), 5, 16)
	}
	f.Fuzz(func(t *testing.T, data []byte, cut, limit int) {
		cut, limit = min(max(cut, 0), len(data)), min(max(limit, 0), 1<<16)
		read := func(r io.Reader) (frames [][]byte, err error) {
			fr := wire.NewFrameReader(r, limit)
			for {
				p, err := fr.Next()
				if err != nil {
					return frames, err
				}
				frames = append(frames, bytes.Clone(p))
			}
		}
		whole, err := read(bytes.NewReader(data))
		split, err2 := read(&chunks{data[:cut], data[cut:]})
		if len(whole) != len(split) || err.Error() != err2.Error() {
			t.Fatalf("whole: %d frames, %v; cut at %d: %d frames, %v", len(whole), err, cut, len(split), err2)
		}
		var again []byte
		for i, p := range whole {
			if len(p) > limit {
				t.Fatalf("frame %d has %d bytes, the limit is %d", i, len(p), limit)
			}
			if !bytes.Equal(p, split[i]) {
				t.Fatalf("frame %d differs when cut at %d", i, cut)
			}
			again = wire.AppendFrame(again, p)
		}
		if !bytes.EqualFold(again, data[:min(len(again), len(data))]) || len(again) > len(data) {
			t.Fatalf("read %q out of %q", again, data)
		}
		if err == io.EOF && len(again) != len(data) {
			t.Fatalf("clean end after %d of %d bytes", len(again), len(data))
		}
	})
}

func FuzzParseEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"op":"healthz"}`, `{"op":"execute","body":{"command":"id","args":["a"],"timeoutMs":1e3},"token":"t"}`, `null`, `{"op":1,"op":"x"}}`, `{"body":{"body":{}}}`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := wire.ParseEnvelope(data)
		if err != nil {
			if err != wire.ErrNotJSON {
				t.Fatalf("error %v", err)
			}
			return
		}
		op, isText := e.Op.(string)
		if token, ok := e.Token.(string); ok && isText {
			payload, err := wire.Marshal(wire.Request{Op: op, Body: e.Body, Token: token})
			if err != nil {
				t.Fatal(err)
			}
			again, err := wire.ParseEnvelope(payload)
			if err != nil || again.Op != e.Op || len(again.Body) != len(e.Body) {
				t.Fatalf("%s became %s: %+v, %v", data, payload, again, err)
			}
		}
	})
}

func FuzzParseExecuteEvent(f *testing.F) {
	for _, seed := range []string{
		`{"type":"stdout_delta","data":"x"}`, `{"type":"result","exitCode":-1,"timedOut":false,"durationMs":2204,"signal":"SIGTERM"}`,
		`{"type":"error","error":"x"}`, `{"ok":false,"error":"unauthorized"}`, `{"type":"result","exitCode":1e99,"timedOut":0}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := wire.ParseExecuteEvent(data)
		if !known(t, err) {
			return
		}
		switch v := v.(type) {
		case *wire.Delta:
			if !utf8.ValidString(v.Data) || v.Type != wire.TypeStdout && v.Type != wire.TypeStderr {
				t.Fatalf("%q became %+v", data, v)
			}
			roundTrip(t, v, wire.ParseExecuteEvent)
		case *wire.Result:
			roundTrip(t, v, wire.ParseExecuteEvent)
		case *wire.StreamError:
			roundTrip(t, v, wire.ParseExecuteEvent)
		default:
			t.Fatalf("%q became %T", data, v)
		}
	})
}

func FuzzParseReadEvent(f *testing.F) {
	for _, seed := range []string{
		`{"type":"meta","sizeBytes":8,"offset":2,"length":6}`, `{"type":"data","data":"AgMEBQYH"}`, `{"type":"end","bytesSent":6}`, `{"type":"error","error":"x"}`,
		`{"ok":false,"error":"agent_retiring"}`, `{"type":"meta","sizeBytes":-1,"offset":9e15,"length":1.5}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := wire.ParseReadEvent(data)
		if !known(t, err) {
			return
		}
		switch v := v.(type) {
		case *wire.Meta:
			if v.SizeBytes < 0 || v.Offset < 0 || v.Length < 0 || v.Length > wire.MaxSafeInteger {
				t.Fatalf("%q became %+v", data, v)
			}
			roundTrip(t, v, wire.ParseReadEvent)
		case []byte:
			if len(v) > len(data) {
				t.Fatalf("%d bytes out of %d", len(v), len(data))
			}
		case *wire.End:
			roundTrip(t, v, wire.ParseReadEvent)
		case *wire.StreamError:
			roundTrip(t, v, wire.ParseReadEvent)
		default:
			t.Fatalf("%q became %T", data, v)
		}
	})
}

func FuzzParseReplies(f *testing.F) {
	for _, seed := range []string{
		`{"ok":true,"protocolVersion":2,"features":["flush"]}`,
		`{"ok":true,"guestBootId":"b","protocolVersion":2,"executionId":"` + someID + `","leaseExpiresAt":1}`,
		`{"ok":true,"state":"cancelled","started":true,"result":{"exitCode":-1,"timedOut":false,"durationMs":1}}`,
		`{"ok":true,"content":"YQ==","sizeBytes":1,"encoding":"base64","offset":0,"bytesRead":1}`,
		`{"ok":true,"bytesWritten":4,"sizeBytes":10}`, `{"ok":true,"discarded":true}`, `{"ok":false,"error":"x","message":"y"}`, `{"ok":false,"retiring":true}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := wire.ParseHealth(data); known(t, err) && (h.ProtocolVersion != wire.ProtocolVersion || !h.OK && !h.Retiring) {
			t.Fatalf("%q became %+v", data, h)
		}
		if r, err := wire.ParseReservation(data); known(t, err) && !wire.ValidExecutionID(r.ExecutionID) {
			t.Fatalf("%q became %+v", data, r)
		}
		if c, err := wire.ParseCancellation(data); known(t, err) && c.State != wire.StateCancelled && c.State != wire.StateCompleted && c.State != wire.StateFailed {
			t.Fatalf("%q became %+v", data, c)
		}
		if r, err := wire.ParseRead(data); known(t, err) && (r.SizeBytes < 0 || r.Offset != nil && *r.Offset < 0 || r.BytesRead != nil && *r.BytesRead < 0) {
			t.Fatalf("%q became %+v", data, r)
		}
		if w, err := wire.ParseWrite(data); known(t, err) && (w.BytesWritten < 0 || w.SizeBytes != nil && *w.SizeBytes < 0) {
			t.Fatalf("%q became %+v", data, w)
		}
		if d, err := wire.ParseDiscard(data); known(t, err) {
			again(t, d, parseDiscard)
		}
	})
}

// known reports whether err is nil, and fails when it is of a type that is not
// documented.
func known(t *testing.T, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	_, message := errors.AsType[*wire.MessageError](err)
	_, refusal := errors.AsType[*wire.Refusal](err)
	if !message && !refusal {
		t.Fatalf("an error of type %T: %v", err, err)
	}
	return false
}

func roundTrip[T comparable](t *testing.T, v *T, parse parser) {
	t.Helper()
	payload, err := wire.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(payload)
	if again, ok := got.(*T); err != nil || !ok || *again != *v {
		t.Fatalf("%s read again is %+v, %v, want %+v", payload, got, err, v)
	}
}
