package policy

import "slices"

// Verdict is what one policy does to the pod.
type Verdict string

// The verdicts. DoesNotSelect and NotEvaluable are of both directions.
const (
	DoesNotSelect Verdict = "does-not-select"
	NotEvaluable  Verdict = "not-evaluable"

	Within          Verdict = "within"        // lets out nothing more than configured, and denies the rest
	WidensEgress    Verdict = "widens-egress" // lets out more
	NotEgressScoped Verdict = "not-egress-scoped"

	Covers           Verdict = "covers" // keeps the agent's port closed to all but the peers it names
	OpensAgentPort   Verdict = "opens-agent-port"
	NotIngressScoped Verdict = "not-ingress-scoped"

	// Of Explain, about one destination or source:
	Admits   Verdict = "admits"
	MayAdmit Verdict = "may-admit"
	Isolates Verdict = "isolates" // denies what no policy admits, and does not admit it
	Denies   Verdict = "denies"   // by a rule that says so
	Passes   Verdict = "passes"   // an administrator's policy that leaves it to the others
)

// Examined is one policy with its verdict. A policy with several specs appears once for each.
type Examined struct {
	Kind    string  `json:"kind"`
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail,omitempty"` // why, when the verdict alone does not say it
	Rule    string  `json:"rule,omitempty"`   // such as egress[0]
	Peer    string  `json:"peer,omitempty"`   // such as to[1] ipBlock 0.0.0.0/0
}

// Unread is a collection that could not be read.
type Unread struct {
	Resource string `json:"resource"` // such as networkpolicies.networking.k8s.io
	Path     string `json:"path"`
	Why      string `json:"why"`    // absent, forbidden
	Reason   string `json:"reason"` // the server's words
	Rule     string `json:"rule"`   // the RBAC rule that would allow it
	Required bool   `json:"required"`
}

// The values of Unread.Why.
const (
	UnreadAbsent    = "absent"    // the API is not served here
	UnreadForbidden = "forbidden" // the host may not list it
)

// Report is what a passed check examined.
type Report struct {
	Egress     []Examined `json:"egress,omitempty"`
	Ingress    []Examined `json:"ingress,omitempty"`
	Unread     []Unread   `json:"unread,omitempty"` // none of them required
	Notes      []string   `json:"notes,omitempty"`  // what the reader should know besides
	Remembered bool       `json:"remembered"`       // answered from an earlier pass over the same labels
}

func (r *Report) clone() *Report {
	c := *r
	c.Egress = slices.Clone(r.Egress)
	c.Ingress = slices.Clone(r.Ingress)
	c.Unread = slices.Clone(r.Unread)
	c.Notes = slices.Clone(r.Notes)
	return &c
}
