//go:build linux

package guest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// ours are the operations that this guest has. Requests for others are
// answered as an unknown op is, once it is clear that they are answered at all.
var ours = []string{wire.OpHealth, wire.OpReserve, wire.OpExecute, wire.OpCancel, wire.OpReadFile, wire.OpReadFileStream, wire.OpWriteFile}

// An answer is what came on a line: the output of a program put together, as
// its pieces are cut by chance, and all other frames.
type answer struct {
	text   map[string]string
	frames []string // "" is the terminator
}

func (a *answer) add(payload string) {
	var delta wire.Delta
	if strings.HasPrefix(payload, `{"type":"std`) && json.Unmarshal([]byte(payload), &delta) == nil && (delta.Type == wire.TypeStdout || delta.Type == wire.TypeStderr) {
		if a.text == nil {
			a.text = map[string]string{}
		}
		a.text[delta.Type] += delta.Data
		return
	}
	a.frames = append(a.frames, payload)
}

// expectation is the recorded answer in the same form. Pieces of text and frames
// that the recording leaves out stay open.
type expectation struct {
	text   map[string]string
	frames []string
}

// slow is how many milliseconds a busy machine may be behind.
const slow = 20000

// remark is what dash says about a child that happened to run when a signal
// came.
const remark = "Terminated\n"

const anyData = "any data frame"

func expect(l *recordedLine) *expectation {
	e := &expectation{text: map[string]string{}}
	const delta = len(`{"type":"stdout_delta","data":""}`)
	for _, s := range l.Received {
		switch {
		case s.Elided > 0 && s.OfType == wire.TypeData:
			e.frames = append(e.frames, slices.Repeat([]string{anyData}, s.Elided)...)
		case s.Elided > 0:
			e.text[s.OfType] += fmt.Sprintf("…[%d more characters]…", s.PayloadBytes-s.Elided*delta)
		case s.Terminator:
			e.frames = append(e.frames, "")
		default:
			var d wire.Delta
			json.Unmarshal(s.Frame, &d)
			if d.Type == wire.TypeStdout || d.Type == wire.TypeStderr {
				e.text[d.Type] += d.Data
			} else {
				e.frames = append(e.frames, string(s.Frame))
			}
		}
	}
	for kind, text := range e.text {
		e.text[kind] = joinShortened(text)
	}
	return e
}

// joinShortened makes one mark of several, with all that is between them.
func joinShortened(text string) string {
	marks := shortened.FindAllStringSubmatchIndex(text, -1)
	if len(marks) < 2 {
		return text
	}
	first, last := marks[0], marks[len(marks)-1]
	n := 0
	for _, m := range marks {
		var part int
		fmt.Sscan(text[m[2]:m[3]], &part)
		n += part
	}
	between := shortened.ReplaceAllString(text[first[0]:last[1]], "")
	return text[:first[0]] + fmt.Sprintf("…[%d more characters]…", n+len([]rune(between))) + text[last[1]:]
}

// compare lists the differences between what was recorded on a line and what
// came. now is the wall clock at the start of the replay, in milliseconds.
func (b *binding) compare(r *recording, l *recordedLine, got *answer, now int64) []string {
	want := expect(l)
	if op := l.op(); op != "" && !slices.Contains(ours, op) && len(want.frames) > 0 && !refuses(want.frames[0]) {
		want = &expectation{frames: []string{`{"ok":false,"error":"unknown_op: ` + op + `"}`}}
	}
	var diffs []string
	for _, kind := range []string{wire.TypeStdout, wire.TypeStderr} {
		if err := b.match(strings.ReplaceAll(want.text[kind], remark, ""), strings.ReplaceAll(got.text[kind], remark, "")); err != nil {
			diffs = append(diffs, kind+": "+err.Error())
		}
	}
	frames := got.frames
	if l.End.By == "local" { // the host has left, sooner or later
		frames = frames[:min(len(frames), len(want.frames))]
	}
	for i := range max(len(want.frames), len(frames)) {
		switch {
		case i >= len(frames):
			diffs = append(diffs, fmt.Sprintf("frame %d is missing, want %.200s", i, want.frames[i]))
		case i >= len(want.frames):
			diffs = append(diffs, fmt.Sprintf("frame %d is too much: %.200s", i, frames[i]))
		default:
			for _, d := range b.frame(r, want.frames[i], frames[i], now) {
				diffs = append(diffs, fmt.Sprintf("frame %d: %s", i, d))
			}
		}
	}
	return diffs
}

func refuses(frame string) bool {
	return strings.Contains(frame, `"unauthorized"`) || strings.Contains(frame, `"agent_retiring"`)
}

func (b *binding) frame(r *recording, want, got string, now int64) []string {
	switch {
	case want == anyData:
		if !strings.HasPrefix(got, `{"type":"data",`) {
			return []string{fmt.Sprintf("%.80s, want data", got)}
		}
		return nil
	case want == "" || got == "":
		if want != got {
			return []string{fmt.Sprintf("%.200q, want %.200q", got, want)}
		}
		return nil
	}
	return b.object(r, json.RawMessage(want), json.RawMessage(got), now)
}

func (b *binding) object(r *recording, want, got json.RawMessage, now int64) (diffs []string) {
	wanted, err := members(want)
	if err != nil {
		return []string{err.Error()}
	}
	have, err := members(got)
	if err != nil {
		return []string{err.Error()}
	}
	if keys(wanted) != keys(have) {
		return []string{fmt.Sprintf("keys %s of %.300s, want %s of %.300s", keys(have), got, keys(wanted), want)}
	}
	for i, w := range wanted {
		if d := b.value(r, w.key, w.value, have[i].value, now); d != "" {
			diffs = append(diffs, w.key+": "+d)
		}
	}
	return diffs
}

func keys(all []member) string {
	var names []string
	for _, m := range all {
		names = append(names, m.key)
	}
	return strings.Join(names, ",")
}

// value compares a value. What is the guest's own affair is compared by what it
// must be: features, times, and the free text that goes with some codes.
func (b *binding) value(r *recording, key string, want, got json.RawMessage, now int64) string {
	var w, g any
	json.Unmarshal(want, &w)
	json.Unmarshal(got, &g)
	switch key {
	case "features":
		var all, have []string
		json.Unmarshal(want, &all)
		json.Unmarshal(got, &have)
		all = slices.DeleteFunc(all, func(f string) bool {
			return f != wire.FeatureWriteParts && f != wire.FeatureReadStream && f != wire.FeatureBootID
		})
		if all = append(all, wire.FeatureSafeStdin); !slices.Equal(all, have) {
			return fmt.Sprintf("%q, want %q", have, all)
		}
		return ""
	case "durationMs":
		if ms, _ := g.(float64); ms < 0 || ms < w.(float64)/2-50 || ms > w.(float64)+slow {
			return fmt.Sprintf("%v, want about %v", g, w)
		}
		return ""
	case "leaseExpiresAt":
		if d := (g.(float64) - float64(now)) - (w.(float64) - float64(r.Started)); d < -3000 || d > slow {
			return fmt.Sprintf("off by %v ms", d)
		}
		return ""
	case "message":
		if text, _ := g.(string); text == "" {
			return "no text"
		}
		return ""
	case "result":
		return strings.Join(b.object(r, want, got, now), "; ")
	}
	if text, ok := w.(string); ok {
		have, ok := g.(string)
		if !ok {
			return fmt.Sprintf("%s, want a text", got)
		}
		if err := b.match(text, have); err != nil {
			return err.Error()
		}
		return ""
	}
	if string(want) != string(got) {
		return fmt.Sprintf("%s, want %s", got, want)
	}
	return ""
}
