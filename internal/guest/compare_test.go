//go:build linux

package guest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// An answer is what came on a line: the output of a program put together, as
// its pieces are cut by chance, and all other frames.
type answer struct {
	op     string
	beats  int // heartbeats
	text   map[string]string
	span   map[string][2]int64 // by kind: the first offset and the last that follows
	frames []string            // "" is the terminator
}

func (a *answer) add(payload string) {
	if payload == `{"type":"heartbeat"}` {
		a.beats++
		return
	}
	if kind, data, span, ok := output(a.op, payload); ok {
		if a.text == nil {
			a.text, a.span = map[string]string{}, map[string][2]int64{}
		}
		a.text[kind] += data
		widen(a.span, kind, span)
		return
	}
	a.frames = append(a.frames, payload)
}

// output takes apart a frame that holds output of a program, and reports whether
// it does. The span is {0, -1} where offsets are not told.
func output(op, payload string) (kind, data string, span [2]int64, ok bool) {
	var f struct {
		Type, Data, Stream string
		Offset, NextOffset *int64
	}
	switch {
	case strings.HasPrefix(payload, `{"type":"std`):
	case (op == wire.OpConnect || op == wire.OpTerminal || op == wire.OpAttachSession) && strings.HasPrefix(payload, `{"type":"data"`):
	default:
		return "", "", span, false
	}
	if json.Unmarshal([]byte(payload), &f) != nil {
		return "", "", span, false
	}
	if op == wire.OpConnect {
		data, _ := base64.StdEncoding.DecodeString(f.Data)
		latin1 := make([]rune, len(data))
		for i, b := range data {
			latin1[i] = rune(b)
		}
		return wire.TypeData, string(latin1), [2]int64{0, -1}, true
	}
	span = [2]int64{0, -1}
	if f.Offset != nil && f.NextOffset != nil {
		span = [2]int64{*f.Offset, *f.NextOffset}
	}
	return f.Type + f.Stream, f.Data, span, f.Type == wire.TypeStdout || f.Type == wire.TypeStderr || f.Type == wire.TypeData
}

// widen takes a piece's offsets into those of all pieces of its kind.
func widen(spans map[string][2]int64, kind string, span [2]int64) {
	if all, ok := spans[kind]; ok {
		span[0] = all[0]
	}
	spans[kind] = span
}

// expectation is the recorded answer in the same form. Pieces of text and frames
// that the recording leaves out stay open.
type expectation struct {
	text   map[string]string
	span   map[string][2]int64
	beats  bool
	frames []string
}

// slow is how many milliseconds a busy machine may be behind.
const slow = 20000

// remarks are what dash says about a child that happened to run when a signal
// came, and what the program says that is between the reference guest and that
// of a terminal.
var remarks = strings.NewReplacer("Terminated\n", "", "\nSession terminated, killing shell...", "", " ...killed.\n", "")

// features are those of the reference guest that this one has.
var features = []string{wire.FeatureWriteParts, wire.FeatureAttach, wire.FeatureHeartbeat, wire.FeatureReadStream, wire.FeatureSessions, wire.FeatureQuiesce, wire.FeatureFlush, wire.FeatureBootID}

var tty = regexp.MustCompile(`/dev/pts/\d+`)

const anyData = "any data frame"

func expect(l *recordedLine) *expectation {
	e := &expectation{text: map[string]string{}, span: map[string][2]int64{}}
	elided := map[string]bool{}
	kinds := []string{wire.TypeStdout, wire.TypeStderr}
	if op := l.op(); op == wire.OpTerminal || op == wire.OpAttachSession {
		kinds = append(kinds, wire.TypeData)
	}
	const delta = len(`{"type":"stdout_delta","data":""}`)
	for _, s := range l.Received {
		switch {
		case s.OfType == wire.TypeHeartbeat || compact(s.Frame) == `{"type":"heartbeat"}`:
			e.beats = true
		case s.Elided > 0 && !slices.Contains(kinds, s.OfType):
			e.frames = append(e.frames, slices.Repeat([]string{anyData}, s.Elided)...)
		case s.Elided > 0:
			elided[s.OfType] = true
			e.text[s.OfType] += fmt.Sprintf("…[%d more characters]…", s.PayloadBytes-s.Elided*delta)
		case s.Terminator:
			e.frames = append(e.frames, "")
		default:
			if kind, data, span, ok := output(l.op(), compact(s.Frame)); ok {
				e.text[kind] += data
				widen(e.span, kind, span)
			} else {
				e.frames = append(e.frames, string(s.Frame))
			}
		}
	}
	for kind, text := range e.text {
		e.text[kind] = joinShortened(text)
		if span, ok := e.span[kind]; ok && span[1] > 0 && elided[kind] { // of one byte a character
			e.text[kind] = shortened.ReplaceAllStringFunc(e.text[kind], func(mark string) string {
				return fmt.Sprintf("…[%d more characters]…", int(span[1]-span[0])-len(e.text[kind])+len(mark))
			})
		}
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
	var diffs []string
	for _, kind := range []string{wire.TypeStdout, wire.TypeStderr, wire.TypeData, wire.TypeData + wire.StreamStdout, wire.TypeData + wire.StreamStderr} {
		wanted, have := remarks.Replace(want.text[kind]), remarks.Replace(got.text[kind])
		wanted, have = tty.ReplaceAllString(wanted, "/dev/pts/"), tty.ReplaceAllString(have, "/dev/pts/")
		if l.End.By == "local" && strings.HasPrefix(have, wanted) { // the host has left before the rest
			have = wanted
		}
		if err := b.match(wanted, have); err != nil {
			diffs = append(diffs, kind+": "+err.Error())
		}
		wide, span := want.span[kind], got.span[kind]
		if l.End.By == "local" {
			span[1] = min(span[1], wide[1])
		}
		if wanted+have != "" && wide != span {
			diffs = append(diffs, fmt.Sprintf("%s: offsets %v, want %v", kind, span, wide))
		}
	}
	if want.beats != (got.beats > 0) {
		diffs = append(diffs, fmt.Sprintf("%d heartbeats, want some: %v", got.beats, want.beats))
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
	ready := strings.HasPrefix(string(got), `{"type":"ready"`)
	for i, w := range wanted {
		if ready && w.key == "nextOffset" {
			continue // it depends on what is there already
		}
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
			return !slices.Contains(features, f)
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
	case "startedAt", "lastInputAt", "lastOutputAt":
		if ms, _ := g.(float64); ms < float64(now)-slow || ms > float64(now)+10*slow {
			return fmt.Sprintf("%v is not about now", g)
		}
		return ""
	case "pid":
		if pid, _ := g.(float64); pid < 2 {
			return fmt.Sprintf("%s is no process", got)
		}
		return ""
	case "sessions":
		var all, have []json.RawMessage
		json.Unmarshal(want, &all)
		json.Unmarshal(got, &have)
		all = slices.DeleteFunc(all, func(s json.RawMessage) bool { return !r.mentions(s) })
		if len(all) != len(have) {
			return fmt.Sprintf("%d of them, want %d", len(have), len(all))
		}
		var diffs []string
		for i := range all {
			diffs = append(diffs, b.object(r, all[i], have[i], now)...)
		}
		return strings.Join(diffs, "; ")
	case "args":
		var all, have []string
		json.Unmarshal(want, &all)
		json.Unmarshal(got, &have)
		if !slices.EqualFunc(all, have, func(w, h string) bool { return b.match(w, h) == nil }) {
			return fmt.Sprintf("%q, want %q", have, all)
		}
		return ""
	case "scope": // the tests are not alone among the processes
		if g != any(wire.ScopeOwned) {
			return fmt.Sprintf("%v, want %s", g, wire.ScopeOwned)
		}
		return ""
	case "rounds", "stopped": // how many there are is a matter of time
		if string(want) == "0" != (string(got) == "0") || string(want) == "[]" != (string(got) == "[]") {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	case "signalled": // the same, and on a terminal there is one more there
		if n, _ := g.(float64); n < 1 {
			return fmt.Sprintf("%s, want some", got)
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

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
