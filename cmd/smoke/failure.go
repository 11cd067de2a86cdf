package main

import (
	"context"
	"errors"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/probe"
	"github.com/sandlot-go/sandlot/transport"
)

// A failure is why a run is not ok, in words for a program and for a person.
type failure struct {
	Stage     string `json:"stage"`  // of a create its stage, else the step
	Reason    string `json:"reason"` // one word
	Retryable bool   `json:"retryable"`
	Message   string `json:"message"`
	Next      string `json:"next,omitempty"` // what to do, where the message does not say it

	step string
}

// explain puts a step's error into words.
func explain(step string, err error) *failure {
	f := &failure{Stage: step, Message: err.Error(), step: step}
	f.Reason, f.Retryable = classify(err)
	if e, ok := errors.AsType[*acquire.Error](err); ok {
		f.Stage, f.Reason, f.Retryable = string(e.Stage), string(e.Reason), e.Retryable
	}
	f.Next = advise(step, f.Reason, err)
	return f
}

// classify finds one word for an error, and whether the same run may go well
// later without anybody changing anything.
func classify(err error) (reason string, retryable bool) {
	if is[*interruptedError](err) {
		return "interrupted", true
	}
	if is[*wrongError](err) {
		return "wrong-result", false
	}
	if e, ok := errors.AsType[*leakError](err); ok {
		return "leak", e.deleting
	}
	if is[*configError](err) {
		return "configuration", false
	}
	if is[*acquire.LostError](err) {
		return "lost", true
	}
	if e, ok := errors.AsType[*probe.Error](err); ok {
		return string(e.Reason), e.Reason == probe.ReasonFailed
	}
	if kind := k8s.KindOf(err); kind != "" {
		return string(kind), k8s.SafeToRetry(err)
	}
	if reason, retryable := classifyGuest(err); reason != "" {
		return reason, retryable
	}
	if is[*budgetError](err) || errors.Is(err, context.DeadlineExceeded) {
		return "timeout", true
	}
	return "failed", false
}

// classifyGuest is classify for what a guest, or the way to it, has done.
func classifyGuest(err error) (reason string, retryable bool) {
	for _, c := range []struct {
		reason    string
		retryable bool
		is        bool
	}{
		{"exit", false, is[*transport.ExitError](err)},
		{"start", false, is[*transport.StartError](err)},
		{"file", false, is[*transport.FileError](err)},
		{"protocol", false, is[*transport.ProtocolError](err)},
		{"unauthorized", false, is[*transport.UnauthorizedError](err)},
		{"unresolvable", false, is[*transport.UnresolvableError](err)},
		{"unreachable", true, is[*transport.DialError](err)},
		{"retiring", true, is[*transport.RetiringError](err)},
		{"lost", true, is[*transport.LostError](err)},
	} {
		if c.is {
			return c.reason, c.retryable
		}
	}
	return "", false
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// advise says what to do next where the error's own text does not.
func advise(step, reason string, err error) string {
	unreachable := is[*transport.DialError](err)
	if e, ok := errors.AsType[*probe.Error](err); ok && e.Reason == probe.ReasonFailed && step == stepAcquire {
		unreachable = true // the probe is the first to dial, and its own clock may end before the dialling does
	}
	unresolvable := is[*transport.UnresolvableError](err)
	switch {
	case unresolvable:
		return "Service names are resolved by the cluster's DNS only: use -agent-address pod-ip, or run smoke inside the cluster."
	case unreachable:
		return "The guest must be reachable from here: run smoke where the pod network is routed, in a pod whose labels the network policy admits" +
			" (namzu.ai/component=host in the stock manifests), or try the other -agent-address."
	case step == stepRenew && reason == string(k8s.Forbidden):
		return "The account cannot renew what it creates, so every sandbox would end with its TTL. docs/rbac.md lists the rules that are needed."
	case step == stepRelease && reason == string(k8s.Forbidden):
		return "The account cannot delete what it creates, so every sandbox would stay until its TTL. docs/rbac.md lists the rules that are needed."
	case step != stepConnect:
		return ""
	}
	return connectAdvice[k8s.Kind(reason)]
}

var connectAdvice = map[k8s.Kind]string{
	k8s.Unreachable:  "Check the server's URL, that it can be reached from here, and that -ca is the CA of this cluster.",
	k8s.Timeout:      "Check the server's URL, and that no firewall on the way drops packets.",
	k8s.Unauthorized: "The server does not know the token: it may have expired, or be another cluster's.",
	k8s.Forbidden:    "The token is good but its account lacks rights in this namespace: name another one with -namespace, or grant the rules in docs/rbac.md.",
	k8s.NotFound:     "Name what exists with -pool, -template and -namespace, or use -direct to do without a pool.",
	k8s.NotServed:    "Install agent-sandbox with its extensions (v1beta1) in the cluster, and check that -server has no extra path.",
	k8s.Credential:   "Check -token-file or -token-cmd.",
	k8s.Protocol:     "Check that the URL is the API server's and not a proxy's or a dashboard's.",
	k8s.Redirect:     "Check that the URL is the API server's own: it answers with a redirect.",
}

// A configError is a file, a program or a combination of names that the run
// cannot start from.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return e.err }
