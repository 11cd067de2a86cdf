//go:build linux

package guest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The recordings in testdata/recorded are conversations with the reference
// guest; see the README there.

type recording struct {
	file    string
	Name    string          `json:"name"`
	Note    string          `json:"note"`
	Agent   recordedAgent   `json:"agent"`
	Started int64           `json:"startedEpochMs"`
	Lines   []*recordedLine `json:"connections"`
	Facts   map[string]any  `json:"facts"`
}

type recordedAgent struct {
	As  string            `json:"as"`
	Env map[string]string `json:"env"`
}

type recordedLine struct {
	ID       string         `json:"id"`
	Open     float64        `json:"openMs"`
	Sent     []recordedStep `json:"sent"`
	Received []recordedStep `json:"received"`
	End      struct {
		By       string  `json:"by"`
		How      string  `json:"how"`
		Ms       float64 `json:"ms"`
		AfterFin string  `json:"afterFin"`
	} `json:"end"`
}

type recordedStep struct {
	Ms           float64         `json:"ms"`
	Frame        json.RawMessage `json:"frame"`
	Terminator   bool            `json:"terminator"`
	Raw          string          `json:"raw"`
	Event        string          `json:"event"`
	InSameWrite  bool            `json:"inSameWrite"`
	Elided       int             `json:"elided"`
	OfType       string          `json:"ofType"`
	PayloadBytes int             `json:"payloadBytes"`
}

func loadRecordings(t *testing.T) []*recording {
	t.Helper()
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	var all []*recording
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		var list []*recording
		if err := dec.Decode(&list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, r := range list {
			r.file = strings.TrimSuffix(filepath.Base(file), ".json")
			for _, l := range r.Lines {
				for i := range l.Received {
					if l.Received[i].Elided > 0 { // it has no time of its own
						l.Received[i].Ms = l.Received[i-1].Ms
					}
				}
			}
			all = append(all, r)
		}
	}
	return all
}

// op is what the line's first request asks for.
func (l *recordedLine) op() string {
	for _, s := range l.Sent {
		var request struct {
			Op any `json:"op"`
		}
		if s.Frame != nil && json.Unmarshal(s.Frame, &request) == nil {
			op, _ := request.Op.(string)
			return op
		}
	}
	return ""
}

// has reports whether that is the recording's name, or with that of a line.
func (r *recording) has(name string) bool {
	return r.Name == name || slices.ContainsFunc(r.Lines, func(l *recordedLine) bool { return name == r.Name+"/"+l.ID })
}

// mentions reports whether a session is one of the recording's own: the
// reference guest had others from recordings before.
func (r *recording) mentions(session json.RawMessage) bool {
	var s struct{ SessionID string }
	json.Unmarshal(session, &s)
	for _, l := range r.Lines {
		for _, step := range l.Sent {
			var request struct {
				Body struct{ SessionID any }
			}
			if json.Unmarshal(step.Frame, &request) == nil && request.Body.SessionID == any(s.SessionID) {
				return true
			}
		}
	}
	return false
}

// shortened marks what a recording has left out of a long text.
var shortened = regexp.MustCompile(`…\[(\d+) more characters\]…`)

// lengthen puts back what was left out of a text that was sent, which repeats
// itself.
func lengthen(text string) (string, error) {
	cut := shortened.FindStringSubmatchIndex(text)
	if cut == nil {
		return text, nil
	}
	n, _ := strconv.Atoi(text[cut[2]:cut[3]])
	quote := strings.LastIndexByte(text[:cut[0]], '"') + 1
	head := text[quote:cut[0]]
	tail := text[cut[1]:]
	tail = tail[:strings.IndexByte(tail, '"')]
	for period := 1; period <= 64 && period < len(head); period++ {
		if head[period:] != head[:len(head)-period] {
			continue
		}
		var whole strings.Builder
		for whole.Len() < len(head)+n+len(tail) {
			whole.WriteString(head[:period])
		}
		// The end may break the rule, as padding of base64 does.
		body := whole.String()[:len(head)+n]
		return text[:quote] + body + text[cut[1]:], nil
	}
	return "", fmt.Errorf("what repeats in %.80q?", head)
}

// member is a member of a JSON object, in its place.
type member struct {
	key   string
	value json.RawMessage
}

// members takes a JSON object apart without losing the order of its keys.
func members(raw json.RawMessage) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("no object: %.80q", raw)
	}
	var all []member
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var m member
		m.key, _ = key.(string)
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
