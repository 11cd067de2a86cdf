package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
)

// A result is what became of a run. It is what both reports are written from.
type result struct {
	options   options
	target    string
	namespace string
	good      int // sandboxes whose every step went well
	steps     []step
	spreads   map[string]spread // of the steps, by name; for more than one sandbox
	acquired  *acquire.Report   // of the median create; nil if there was none
	failure   *failure
	notes     []string
	requests  int
	took      time.Duration
}

func (r *result) ok() bool { return r.failure == nil }

// A spread is how one step went over all sandboxes.
type spread struct {
	p50, most time.Duration
	text      string
}

func (r *session) result() *result {
	out := &result{
		options:  r.options,
		target:   r.cluster.name,
		notes:    r.notes.all(),
		requests: r.requests.total(),
		took:     time.Since(r.started),
	}
	if r.client != nil {
		out.namespace = r.client.Namespace()
	}
	if out.target == "" { // it could not be opened
		out.target = string(r.options.target.kind)
		if r.options.target.kind == targetServer {
			out.target = printableURL(r.options.target.server)
		}
	}
	var sets [][]step
	var reports []acquire.Report
	for _, t := range r.trials {
		sets = append(sets, t.steps)
		if report := t.report(); report != nil {
			reports = append(reports, *report)
		}
		if len(t.steps) > 0 && failed(t.steps) == nil {
			out.good++
		}
	}
	out.steps, out.spreads = aggregate(r.steps, sets)
	out.acquired = median(reports)
	out.failure = firstFailure(r.steps, sets)
	out.notes = slices.DeleteFunc(out.notes, func(note string) bool {
		return out.failure != nil && strings.Contains(note, oneLine(out.failure.Message)) // is said already
	})
	return out
}

// firstFailure is the one that the result is about: that of connecting, else of
// the first sandbox that failed, else of the leak check.
func firstFailure(once []step, sets [][]step) *failure {
	if len(once) > 0 && !once[0].ok {
		return once[0].failure
	}
	for _, steps := range sets {
		if f := failed(steps); f != nil {
			return f
		}
	}
	for _, steps := range sets {
		if len(steps) == 0 {
			return &failure{Stage: stepAcquire, Reason: "interrupted", Retryable: true, Message: "interrupted before every sandbox was created", step: stepAcquire}
		}
	}
	return failed(once)
}

// aggregate makes one list of the steps that are there once and those of every
// sandbox, in the order of stepOrder. A step that never ran is left out. Of
// several sandboxes a step takes as long as the slowest.
func aggregate(once []step, sets [][]step) ([]step, map[string]spread) {
	var out []step
	spreads := map[string]spread{}
	for _, name := range stepOrder {
		var same []step
		for _, steps := range append([][]step{once}, sets...) {
			for _, s := range steps {
				if s.name == name {
					same = append(same, s)
				}
			}
		}
		switch {
		case len(same) == 0:
		case len(sets) <= 1 || name == stepConnect || name == stepLeakCheck:
			out = append(out, same...)
		default:
			s, spread := merge(same)
			out = append(out, s)
			spreads[name] = spread
		}
	}
	return out, spreads
}

// merge makes one step of the same step of several sandboxes.
func merge(same []step) (step, spread) {
	var times []time.Duration
	m := step{name: same[0].name, ok: true}
	good, skipped := 0, 0
	for _, s := range same {
		times = append(times, s.took)
		if s.skipped {
			skipped++
		}
		if s.ok {
			good++
		} else if m.ok {
			m.ok, m.failure = false, s.failure
		}
	}
	slices.Sort(times)
	sp := spread{p50: times[(len(times)-1)/2], most: times[len(times)-1]}
	m.took = sp.most
	sp.text = fmt.Sprintf("%d of %d ok, p50 %s, max %s", good, len(same), took(sp.p50), took(sp.most))
	if skipped > 0 {
		m.skipped = skipped == len(same)
		sp.text += fmt.Sprintf(", %d of them not offered by the guest", skipped)
	}
	m.detail = sp.text
	if m.failure != nil {
		m.detail += "; first failure: " + m.failure.Message
	}
	return m, sp
}

// median is the report of the create that took neither long nor short.
func median(reports []acquire.Report) *acquire.Report {
	if len(reports) == 0 {
		return nil
	}
	slices.SortStableFunc(reports, func(a, b acquire.Report) int { return int(a.Total() - b.Total()) })
	return &reports[(len(reports)-1)/2]
}
