package acquire

import (
	"time"

	"github.com/sandlot-go/sandlot/policy"
	"github.com/sandlot-go/sandlot/probe"
)

// A Phase is a stage of a create and the time it took.
type Phase struct {
	Stage    Stage
	Duration time.Duration
}

// A Report is how a sandbox came to be: what an operator asks for first.
type Report struct {
	Phases   []Phase // in order
	Requests int     // to the API server, repetitions included
	Retries  int     // repetitions after a failure

	Kind, Object, ObjectUID string // the claim, or the Sandbox created directly
	Namespace               string
	Sandbox                 string
	Pod, PodUID             string
	Address                 string // host and port of the guest
	Warm                    bool   // a pool member was adopted; otherwise the pod was started for this create

	Privileges probe.Status  // what the guest showed
	Policies   policy.Report // every network policy that selects the pod, with its verdict

	// ClockOffset is the API server's clock minus this host's, by which stamps
	// are corrected; 0 when they agree to the second or it is not known.
	ClockOffset time.Duration
}

// add books time for a stage. One that came twice, such as the verification of
// a Sandbox without a pool, has the time of both.
func (r *Report) add(s Stage, d time.Duration) {
	for i := range r.Phases {
		if r.Phases[i].Stage == s {
			r.Phases[i].Duration += d
			return
		}
	}
	r.Phases = append(r.Phases, Phase{s, d})
}

// Total is the time of all phases.
func (r Report) Total() time.Duration {
	var d time.Duration
	for _, p := range r.Phases {
		d += p.Duration
	}
	return d
}
