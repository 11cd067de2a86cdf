package main

import (
	"encoding/json"
	"io"
	"math"
	"time"
)

// A document is the answer to -json. Its keys are a promise: add, never rename.
type document struct {
	OK            bool             `json:"ok"`
	Target        string           `json:"target"`
	Namespace     string           `json:"namespace"`
	Pool          string           `json:"pool"` // "" with -direct
	Template      string           `json:"template"`
	NetworkPolicy string           `json:"network_policy"`
	N             int              `json:"n"`
	NOK           int              `json:"n_ok"`
	MS            float64          `json:"ms"`
	Requests      int              `json:"requests"` // to the API server, by all steps
	Steps         []documentStep   `json:"steps"`
	Acquire       *documentAcquire `json:"acquire"`
	Error         *failure         `json:"error"`
	Notes         []string         `json:"notes"`
}

type documentStep struct {
	Name    string   `json:"name"`
	OK      bool     `json:"ok"`
	Skipped bool     `json:"skipped,omitempty"` // the guest does not offer it; ok is true
	MS      float64  `json:"ms"`
	Detail  string   `json:"detail"`
	P50     *float64 `json:"p50_ms,omitempty"` // over more than one sandbox
	Max     *float64 `json:"max_ms,omitempty"`
}

type documentAcquire struct {
	Phases   map[string]float64 `json:"phases"` // ms
	Requests int                `json:"requests"`
	Retries  int                `json:"retries"`
	Sandbox  string             `json:"sandbox"`
	Pod      string             `json:"pod"`
	Warm     bool               `json:"warm"`
	MS       float64            `json:"ms"`
	Kind     string             `json:"kind"`
	Object   string             `json:"object"`
	Address  string             `json:"address"`
}

// The values of network_policy.
const (
	policyNotVerified     = "not verified"
	policyIngressVerified = "ingress verified" // the agent's port is closed but to the peers that a policy names
)

func (r *result) networkPolicy() string {
	if r.acquired == nil || r.options.unverified {
		return policyNotVerified
	}
	return policyIngressVerified
}

func (r *result) document() document {
	d := document{
		OK:            r.ok(),
		Target:        r.target,
		Namespace:     r.namespace,
		Pool:          r.options.pool,
		Template:      r.options.template,
		NetworkPolicy: r.networkPolicy(),
		N:             r.options.n,
		NOK:           r.good,
		MS:            milliseconds(r.took),
		Requests:      r.requests,
		Steps:         []documentStep{},
		Error:         r.failure,
		Notes:         append([]string{}, r.notes...),
	}
	for _, s := range r.steps {
		step := documentStep{Name: s.name, OK: s.ok, Skipped: s.skipped, MS: milliseconds(s.took), Detail: s.detail}
		if sp, several := r.spreads[s.name]; several {
			p50, most := milliseconds(sp.p50), milliseconds(sp.most)
			step.P50, step.Max = &p50, &most
		}
		d.Steps = append(d.Steps, step)
	}
	if a := r.acquired; a != nil {
		d.Acquire = &documentAcquire{
			Phases:   map[string]float64{},
			Requests: a.Requests, Retries: a.Retries,
			Sandbox: a.Sandbox, Pod: a.Pod, Warm: a.Warm,
			MS: milliseconds(a.Total()), Kind: a.Kind, Object: a.Object, Address: a.Address,
		}
		for _, p := range a.Phases {
			d.Acquire.Phases[string(p.Stage)] += milliseconds(p.Duration)
		}
	}
	return d
}

func writeJSON(w io.Writer, r *result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r.document())
}

// milliseconds keeps microseconds and no more.
func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}
