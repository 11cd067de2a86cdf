package transport_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	"github.com/sandlot-go/sandlot/transport/wire"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// lie is a frame that announces another length than it has.
func lie(payload string, by int) []byte {
	b := wire.AppendFrame(nil, []byte(payload))
	copy(b, fmt.Sprintf("%08x", len(payload)+by))
	return b
}

// TestHostileAnswers has each operation be answered by what is no answer to it.
func TestHostileAnswers(t *testing.T) {
	for _, q := range questions() {
		whole, first := frames(q.answer...), q.answer[0]
		answers := map[string][]byte{
			"a length beyond any limit":           []byte("ffffffff\n"),
			"a length just beyond the limit":      []byte("02000000\n"),
			"another protocol":                    []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
			"a line without an end":               bytes.Repeat([]byte("0"), 100_000),
			"an end too early":                    []byte("00\n000000"),
			"a length with a sign":                []byte("-0000001\n{}"),
			"nothing but the terminator":          frames(""),
			"a length that is one too small":      lie(first, -1),
			"an empty line":                       frames("\n"),
			"two objects in a frame":              frames(first + first),
			"a byte order mark":                   frames("\ufeff" + first),
			"half an object":                      frames(first[:len(first)/2]),
			"an object that is open at its end":   frames(strings.TrimSuffix(first, "}")),
			"depth":                               frames(strings.Repeat("[", 100_000)),
			"depth in a field that nobody reads":  frames(`{"x":` + strings.Repeat(`{"x":`, 100_000)),
			"an ok that is none":                  frames(`{"ok":"true"}`),
			"an ok and no more":                   frames(`{"ok":true}`),
			"no ok and no reason":                 frames(`{"ok":false}`),
			"a reason that is no text":            frames(`{"ok":false,"error":7}`),
			"a type that is no text":              frames(`{"type":7}`),
			"a type that nobody knows":            frames(`{"type":"surprise"}`),
			"a type without its fields, a result": frames(`{"type":"result"}`),
			"a type without its fields, an error": frames(`{"type":"error"}`),
			"a heartbeat and then nonsense":       frames(heartbeat, "x"),
		}
		for _, text := range []string{"null", "true", "42", `"x"`, "[]", "{}", "x"} {
			answers["nothing but "+text] = frames(text)
		}
		for i := 1; i < q.whole(); i++ {
			for _, refusal := range []string{`{"ok":false,"error":"frame_too_large: announced 9 bytes, limit 8 (X)"}`, `{"type":"error","error":"EIO: i/o error, read"}`} {
				answers[fmt.Sprintf("after %d events %s", i, refusal)] = frames(append(q.answer[:i:i], refusal)...)
			}
		}
		if q.strict {
			for i := range q.whole() {
				answers[fmt.Sprintf("event %d left out", i)] = frames(slices.Delete(slices.Clone(q.answer), i, i+1)...)
				if q.last && i == len(q.answer)-1 {
					continue
				}
				answers[fmt.Sprintf("event %d twice", i)] = frames(slices.Insert(slices.Clone(q.answer), i, q.answer[i])...)
			}
		}
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			for what, answer := range answers {
				q.never(t, what, Seq(SendBytes(answer), Hang()))
			}
			q.never(t, "a length that is one too large", Seq(SendBytes(lie(first, 1)), Close()))
			q.never(t, "a byte now and then", Drip(whole, 50*time.Second))
			if !q.last {
				for what, step := range map[string]Step{
					"the answer twice":       SendBytes(append(slices.Clone(whole), whole...)),
					"a byte after it":        SendBytes(append(slices.Clone(whole), 0)),
					"a byte after it, late":  Seq(SendBytes(whole), Delay(900*time.Millisecond), SendBytes([]byte("x"))),
					"the answer and no end":  SendBytes(whole),
					"the answer for ever":    Flood(whole, 1<<30),
					"a frame without an end": Seq(SendBytes([]byte("000ffff0\n")), Flood(bytes.Repeat([]byte("x"), 100_000), 1<<24)),
				} {
					q.never(t, what, Seq(step, Hang()))
				}
			}
		})
	}
}

// TestAnswersThatAreNoUTF8 has a byte in each answer that is none: in a text it
// counts as U+FFFD, and where bytes count it is refused.
func TestAnswersThatAreNoUTF8(t *testing.T) {
	for _, q := range questions() {
		texts, others := slices.Clone(q.answer), slices.Clone(q.answer)
		for i, payload := range q.answer {
			texts[i] = strings.ReplaceAll(payload, `"data":"one"`, "\"data\":\"o\xffe\"")
			for _, encoded := range []string{b64("one"), b64("ne"), b64("oneé")} {
				others[i] = strings.ReplaceAll(others[i], `"`+encoded+`"`, "\"\xff"+encoded[1:]+`"`)
			}
		}
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			if !slices.Equal(others, q.answer) {
				q.never(t, "base64 with a byte that is none", Seq(SendBytes(frames(others...)), Hang()))
			}
			if slices.Equal(texts, q.answer) {
				return
			}
			bubble(t, transport.Config{}, []Step{Seq(q.steps...), SendBytes(frames(texts...)), CloseWrite(), ExpectClose(), Seq(q.then...)}, func(t *testing.T, p *pod) {
				if got, err := q.ask(t.Context(), p); got != "o\ufffdeé" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		})
	}
}
