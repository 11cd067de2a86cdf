package podbind

import "github.com/sandlot-go/sandlot/k8s"

// A Phase is what an object's status means for somebody who waits for it.
type Phase int

// The phases.
const (
	Waiting  Phase = iota // not yet, or not known: read again
	Ready                 // bound and ready
	Rejected              // will not become ready by itself: the request or the template is at fault
	Failed                // its pod has ended and is never started again: another claim may do better
	Ended                 // being deleted, expired or suspended
	Broken                // says ready and contradicts itself
)

// A State is the status of a claim or a Sandbox, read once.
type State struct {
	Phase   Phase
	Reason  string // of the Ready condition
	Message string // of the Ready condition, or what is contradictory

	Sandbox  string   // name of the Sandbox; may be there long before Ready
	PodIPs   []string // of the Sandbox
	FQDN     string   // of the Sandbox's Service
	Selector string   // of the Sandbox's pod

	// Observed reports whether a controller has seen the object. Without one
	// nothing will ever happen to it.
	Observed bool
}

const observedAnnotation = "agents.x-k8s.io/controller-first-observed-at"

// rejections are the reasons of a Ready=False that stay until the operator or
// the caller changes something. The list is closed: an unknown reason is waited
// out. The two NotFound reasons heal when the object appears, but a claim is
// not the place to wait for a rollout.
var rejections = map[string]bool{
	"WarmPoolNotFound":          true,
	"TemplateNotFound":          true,
	"InvalidMetadata":           true,
	"EnvVarsInjectionRejected":  true,
	"VolumeClaimTemplatesError": true,
}

// endings maps the reasons after which the pod behind an object is gone.
var endings = map[string]Phase{
	"PodFailed":        Failed,
	"PodSucceeded":     Failed,
	"ClaimExpired":     Ended,
	"SandboxExpired":   Ended,
	"SandboxSuspended": Ended,
}

// RejectionReasons returns the controller reasons that end a wait at once.
func RejectionReasons() []string {
	return []string{"EnvVarsInjectionRejected", "InvalidMetadata", "TemplateNotFound", "VolumeClaimTemplatesError", "WarmPoolNotFound"}
}

// ClaimState reads a SandboxClaim.
func ClaimState(claim k8s.Object) State {
	s := State{
		Sandbox:  claim.Text("status", "sandbox", "name"),
		PodIPs:   texts(claim.List("status", "sandbox", "podIPs")),
		FQDN:     claim.Text("status", "sandbox", "serviceFQDN"),
		Observed: claim.Annotations()[observedAnnotation] != "" || len(claim.List("status", "conditions")) > 0,
	}
	s.judge(claim)
	if s.Phase == Ready && s.Sandbox == "" {
		s.Phase, s.Message = Broken, "the claim is Ready but named no sandbox in status.sandbox.name"
	}
	return s
}

// SandboxState reads a Sandbox. A Suspended condition beside Ready=True is
// stale and not looked at.
func SandboxState(sandbox k8s.Object) State {
	s := State{
		Sandbox:  sandbox.Name(),
		PodIPs:   texts(sandbox.List("status", "podIPs")),
		FQDN:     sandbox.Text("status", "serviceFQDN"),
		Selector: sandbox.Text("status", "selector"),
		Observed: len(sandbox.List("status", "conditions")) > 0,
	}
	s.judge(sandbox)
	return s
}

// judge decides the phase from the Ready condition of o.
func (s *State) judge(o k8s.Object) {
	if o.Deleting() {
		s.Phase, s.Reason, s.Message = Ended, "Deleting", "metadata.deletionTimestamp is set"
		return
	}
	ready, ok := o.Condition("Ready")
	if !ok {
		return
	}
	s.Reason, s.Message = ready.Reason, ready.Message
	if ready.HasGeneration && ready.ObservedGeneration < o.Generation() {
		// The status of an older spec: right after a change the controller still
		// says what was true before it.
		return
	}
	switch {
	case ready.True():
		s.Phase = Ready
	case ready.False() && rejections[ready.Reason]:
		s.Phase = Rejected
	case ready.False():
		s.Phase = endings[ready.Reason]
	}
}

func texts(list []any) []string {
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok && s != "" {
			out = append(out, s)
		}
	}
	return out
}
