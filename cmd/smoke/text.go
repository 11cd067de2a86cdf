package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/sandlot-go/sandlot/policy"
)

// progress writes a line for each step while a run goes on.
type progress struct {
	w      io.Writer
	single bool

	mu   sync.Mutex
	done int // sandboxes
}

func (p *progress) header(o options) {
	where := map[targetKind]string{
		targetSim:        "in a simulated cluster inside this process",
		targetServer:     "at " + printableURL(o.target.server),
		targetKubeconfig: "in the cluster of -kubeconfig-json " + o.target.kubeconfig,
		targetKubectl:    "in kubectl's current cluster",
		targetInCluster:  "in the cluster that this pod is in",
	}[o.target.kind]
	fmt.Fprintf(p.w, "smoke: %s, %s\n\n", o, printable(where))
}

func (p *progress) begin(name string) { fmt.Fprintf(p.w, "  %-10s ", name) }

func (p *progress) end(s step) { fmt.Fprintf(p.w, "%8s  %s\n", took(s.took), outcome(s)) }

func outcome(s step) string {
	if s.ok {
		return printable(s.detail)
	}
	return "FAILED: " + s.failure.Reason
}

// trial reports one of several sandboxes when it is done with.
func (p *progress) trial(t *trial, d time.Duration, of int) {
	if p.single {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	what := "ok"
	if f := failed(t.steps); f != nil {
		what = fmt.Sprintf("FAILED at %s: %s", f.step, f.Reason)
	}
	if r := t.report(); r != nil {
		what += ", acquired in " + took(r.Total())
	}
	fmt.Fprintf(p.w, "  %-10s %8s  %s\n", fmt.Sprintf("%d of %d", p.done, of), took(d), what)
}

// text is the report that a person reads after the progress.
func (r *result) text() string {
	var b strings.Builder
	b.WriteString("\n")
	if len(r.spreads) > 0 {
		for _, s := range r.steps {
			if sp, several := r.spreads[s.name]; several {
				fmt.Fprintf(&b, "  %-10s %8s  %s\n", s.name, took(s.took), sp.text)
			}
		}
		b.WriteString("\n")
	}
	if a := r.acquired; a != nil {
		how := "started for this run"
		if a.Warm {
			how = "adopted warm"
		}
		title := "sandbox"
		if r.options.n > 1 {
			title = "median"
		}
		var phases []string
		for _, p := range a.Phases {
			phases = append(phases, fmt.Sprintf("%s %s", p.Stage, took(p.Duration)))
		}
		fmt.Fprintf(&b, "  %-15s %s, %s; its guest was at %s\n", title, printable(a.Sandbox), how, printable(a.Address))
		fmt.Fprintf(&b, "  %-15s %s: %s\n", "acquired in", took(a.Total()), strings.Join(phases, ", "))
		repeated := "none repeated"
		if a.Retries > 0 {
			repeated = fmt.Sprintf("%d of them repeated after a failure", a.Retries)
		}
		fmt.Fprintf(&b, "  %-15s %d to acquire it, %s; %d in the whole run\n", "API requests", a.Requests, repeated, r.requests)
		fmt.Fprintf(&b, "  %-15s %s\n", "network policy", r.networkPolicyText())
	}
	for _, n := range r.notes {
		fmt.Fprintf(&b, "  %-15s %s\n", "note", printable(n))
	}
	if r.acquired != nil || len(r.notes) > 0 {
		b.WriteString("\n")
	}
	if r.ok() {
		fmt.Fprintf(&b, "ok: %s in %s\n", r.summary(), took(r.took))
		return b.String()
	}
	f := r.failure
	fmt.Fprintf(&b, "FAILED at %s: %s (%s in %s)\n", place(f), f.Reason, r.summary(), took(r.took))
	fmt.Fprintf(&b, "  %s\n", printable(f.Message))
	if f.Next != "" {
		fmt.Fprintf(&b, "  %s\n", printable(f.Next))
	}
	for _, s := range r.steps {
		if !s.ok && s.failure.Message != f.Message {
			fmt.Fprintf(&b, "  Besides, %s: %s\n", s.name, printable(s.failure.Message))
		}
	}
	if f.Retryable {
		b.WriteString("  Trying again may help.\n")
	} else {
		b.WriteString("  Trying again will not help before something is changed.\n")
	}
	return b.String()
}

// place names the step, and the stage of a create inside it.
func place(f *failure) string {
	if f.Stage == f.step {
		return f.step
	}
	return f.step + ", stage " + f.Stage
}

func (r *result) summary() string {
	if r.options.n > 1 {
		return fmt.Sprintf("%d of %d sandboxes ok", r.good, r.options.n)
	}
	good, skipped := 0, 0
	for _, s := range r.steps {
		switch {
		case s.skipped:
			skipped++
		case s.ok:
			good++
		}
	}
	text := fmt.Sprintf("%d of %d steps ok", good, len(stepOrder))
	if skipped > 0 {
		text += fmt.Sprintf(", %d not offered by the guest", skipped)
	}
	return text
}

// took writes a duration with three digits or so.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms"
	case d < 9950*time.Microsecond: // below it is not 10.0
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d.Round(time.Millisecond) < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// printable keeps text from moving the cursor of a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// networkPolicyText says what was judged, and by which policies it passed.
func (r *result) networkPolicyText() string {
	if r.networkPolicy() == policyNotVerified {
		return policyNotVerified + ", as asked with -ingress unverified"
	}
	var closed []string
	for _, e := range r.acquired.Policies.Ingress {
		if e.Verdict == policy.Covers {
			closed = append(closed, printable(e.Kind+"/"+e.Name))
		}
	}
	return fmt.Sprintf("%s: the agent's port is closed by %s; what may leave the pod was not asked, see smoke explain", policyIngressVerified, strings.Join(closed, " and "))
}
