package acquire

import (
	"time"

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

	Privileges probe.Status // what the guest showed

	// ClockOffset is the API server's clock minus this host's, by which stamps
	// are corrected; 0 when they agree to the second or it is not known.
	ClockOffset time.Duration
}

// Total is the time of all phases.
func (r Report) Total() time.Duration {
	var d time.Duration
	for _, p := range r.Phases {
		d += p.Duration
	}
	return d
}
