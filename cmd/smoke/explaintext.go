package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/sandlot-go/sandlot/policy"
)

// An explanation is the answer to -json. Its keys are a promise: add, never
// rename.
type explanation struct {
	Egress  explainedSide   `json:"egress"`
	Ingress explainedSide   `json:"ingress"`
	OK      bool            `json:"ok"`    // closed in all directions that were asked for
	Asked   []string        `json:"asked"` // egress, ingress
	Engine  string          `json:"engine"`
	Pod     explainedPod    `json:"pod"`
	Unread  []policy.Unread `json:"unread"`
	Notes   []string        `json:"notes"`
	Error   string          `json:"error,omitempty"` // why nothing could be read

	subject string
}

type explainedSide struct {
	Verdict  policy.Openness   `json:"verdict"`
	Text     string            `json:"text"` // one line
	Examined []explainedPolicy `json:"examined"`
}

// explainedPolicy is policy.Examined with every key always there.
type explainedPolicy struct {
	Kind    string         `json:"kind"`
	Name    string         `json:"name"`
	Verdict policy.Verdict `json:"verdict"`
	Detail  string         `json:"detail"`
	Rule    string         `json:"rule"`
	Peer    string         `json:"peer"`
}

type explainedPod struct {
	Name      string            `json:"name"` // "" when only its labels are known
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
}

// explanation is a document that says what was asked, without an answer yet.
func (o *explainOptions) explanation(e evidence) explanation {
	x := explanation{
		Asked:   []string{},
		Engine:  string(o.engine),
		Pod:     explainedPod{Name: e.podName, Namespace: e.pod.Namespace, Labels: map[string]string{}},
		Unread:  append([]policy.Unread{}, e.unread...),
		Notes:   append([]string{}, e.notes...),
		subject: e.describe(),
	}
	for key, value := range e.pod.Labels {
		x.Pod.Labels[key] = value
	}
	if o.egress {
		x.Asked = append(x.Asked, "egress")
	}
	if o.ingress {
		x.Asked = append(x.Asked, "ingress")
	}
	return x
}

func writeIndented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// text is the answer that a person reads.
func (x explanation) text() string {
	var b strings.Builder
	sides := map[string]explainedSide{"egress": x.Egress, "ingress": x.Ingress}
	for _, direction := range x.Asked {
		fmt.Fprintf(&b, "%-8s %s\n", direction, printable(sides[direction].Text))
	}
	fmt.Fprintf(&b, "\nfor %s; engine %s\n", printable(x.subject), x.Engine)
	for _, direction := range x.Asked {
		sides[direction].list(&b, direction)
	}
	for _, u := range x.Unread {
		fmt.Fprintf(&b, "not read %s: %s\n", printable(u.Resource), printable(u.Rule))
	}
	for _, note := range x.Notes {
		fmt.Fprintf(&b, "note     %s\n", printable(note))
	}
	return b.String()
}

// list writes a line for each policy that was looked at. There may be thousands
// that are about other pods.
func (s explainedSide) list(b *strings.Builder, direction string) {
	others := 0
	for _, p := range s.Examined {
		if p.Verdict == policy.DoesNotSelect {
			others++
			continue
		}
		line := fmt.Sprintf("%s/%s %s", p.Kind, p.Name, p.Verdict)
		why := p.Rule
		if !strings.Contains(p.Detail, p.Peer) {
			why = strings.TrimSpace(why + " " + p.Peer)
		}
		if p.Detail != "" {
			why = strings.TrimPrefix(why+": "+p.Detail, ": ")
		}
		if why != "" {
			line += " by " + why
		}
		fmt.Fprintf(b, "%-8s %s\n", direction, printable(line))
	}
	if others > 0 {
		fmt.Fprintf(b, "%-8s %d that do not select the pod\n", direction, others)
	}
}
