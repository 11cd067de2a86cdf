package policy

import (
	"errors"
	"fmt"
)

// ErrReleased is returned by [Narrower.Set] after [Narrower.Close]: the sandbox was given back.
var ErrReleased = errors.New("policy: the sandbox was given back; its network policy goes with it and is not changed any more")

// ErrClosed is returned by a [Verifier] after [Verifier.Close].
var ErrClosed = errors.New("policy: the verifier is closed")

// ConfigReason says which part of a configuration was refused.
type ConfigReason string

// The reasons of a [ConfigError].
const (
	UnenforceablePolicy  ConfigReason = "unenforceable-policy"  // the engine cannot enforce the kind
	InvalidPolicy        ConfigReason = "invalid-policy"        // a value of the policy or its narrowing
	NarrowingUnsupported ConfigReason = "narrowing-unsupported" // narrowing of a kind that has no hosts
	InvalidProfile       ConfigReason = "invalid-profile"
	InvalidPerSandbox    ConfigReason = "invalid-per-sandbox"
	WorkspacePerSandbox  ConfigReason = "workspace-per-sandbox" // policies of single sandboxes are for tasks
	InvalidConfig        ConfigReason = "invalid-config"        // anything outside Egress
)

// A ConfigError is a configuration that is refused before any request is sent. One answer of a Resolver can cause it later.
type ConfigError struct {
	Reason  ConfigReason
	Field   string // path below Egress, such as ciliumNarrowing.ports; below Config for InvalidConfig
	Value   string // what was found there, when it is a text
	Kind    Kind   // of the policy, for UnenforceablePolicy and NarrowingUnsupported
	Engine  Engine // same
	Problem string
}

func (e *ConfigError) Error() string {
	switch e.Reason {
	case UnenforceablePolicy:
		return fmt.Sprintf("policy: egress policy %s needs engine cilium, and the engine is %s: a NetworkPolicy cannot name hosts", e.Kind, e.Engine)
	case NarrowingUnsupported:
		return fmt.Sprintf("policy: egress.ciliumNarrowing needs engine cilium and a policy of hosts, not %s with engine %s", e.Kind, e.Engine)
	case WorkspacePerSandbox:
		return "policy: egress.perSandbox is for sandboxes of tasks; a workspace keeps the policy it was made with"
	}
	field := e.Field
	if e.Reason == InvalidPerSandbox {
		field = "perSandbox." + field
	}
	if e.Reason != InvalidConfig {
		field = "egress." + field
	}
	if e.Value != "" {
		return fmt.Sprintf("policy: %s %.100q %s", field, e.Value, e.Problem)
	}
	return fmt.Sprintf("policy: %s %s", field, e.Problem)
}

func invalidPolicy(field, problem string) error {
	return &ConfigError{Reason: InvalidPolicy, Field: field, Problem: problem}
}

func invalidConfig(field, value, problem string) error {
	return &ConfigError{Reason: InvalidConfig, Field: field, Value: value, Problem: problem}
}

// A HostError is an entry of a host list that cannot be enforced. Nothing was written.
type HostError struct {
	Host    string      // in canonical form
	Problem HostProblem // what is wrong with it
	Field   string      // the setting that the entry does not go with, for HostSuffixWithTLS
}

func (e *HostError) Error() string {
	if e.Problem == HostSuffixWithTLS {
		return fmt.Sprintf("policy: allowed host %.100q means many names, and egress.%s.tlsServerNames can hold one name only; list exact hosts or turn it off. Nothing was written", e.Host, e.Field)
	}
	return fmt.Sprintf("policy: allowed host %.100q %s. Nothing was written", e.Host, e.Problem.text())
}

// An OwnerUIDError is a sandbox whose owner object has no UID, so that a policy could not be tied to its life.
type OwnerUIDError struct{ Name, Namespace string }

func (e *OwnerUIDError) Error() string {
	return fmt.Sprintf("policy: %s in namespace %s has no uid; a policy of its own would outlive it", e.Name, e.Namespace)
}

// FenceProblem says why the admission policy that fences a host's writes does not count.
type FenceProblem string

// The problems of a fence.
const (
	FenceMissing     FenceProblem = "missing"
	FenceUnreadable  FenceProblem = "unreadable"  // 401 or 403
	FenceIneffective FenceProblem = "ineffective" // it is there and refuses nothing
)

// A FenceError is returned by [Narrower.Set] when the fence is not proved to stand. Nothing was written.
type FenceError struct {
	Problem FenceProblem
	Kind    string // ValidatingAdmissionPolicy or ValidatingAdmissionPolicyBinding
	Name    string
	Path    string
	Detail  string // for FenceIneffective
	Err     error  // for FenceUnreadable
}

func (e *FenceError) Error() string {
	switch e.Problem {
	case FenceMissing:
		return fmt.Sprintf("policy: %s %s is missing (%s); apply the admission policy and its binding before sandboxes get policies of their own. Nothing was written", e.Kind, e.Name, e.Path)
	case FenceUnreadable:
		return fmt.Sprintf("policy: %s %s cannot be read (%s): %v; bind a ClusterRole with get on %s, a namespaced Role is not enough. Nothing was written",
			e.Kind, e.Name, e.Path, e.Err, "validatingadmissionpolicies and validatingadmissionpolicybindings of admissionregistration.k8s.io")
	}
	return fmt.Sprintf("policy: %s %s (%s) refuses nothing: %s. Nothing was written", e.Kind, e.Name, e.Path, e.Detail)
}

func (e *FenceError) Unwrap() error { return e.Err }
