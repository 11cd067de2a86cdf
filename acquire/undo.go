package acquire

import (
	"context"
	"errors"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
)

// undo is every way out of a create but the good one: it asks who ended it,
// looks why the pod did not start while there still is a pod, deletes what was
// made before the caller hears of the failure, and names the failure.
func (a *attempt) undo(err error) error {
	if err == nil {
		return nil
	}
	var d podbind.Diagnosis
	if _, late := errors.AsType[*NotReadyError](err); late && a.caller.Err() == nil {
		d = a.diagnose()
	}
	if a.agent != nil {
		a.agent.Close()
	}
	var cleanup error
	if a.started {
		cleanup = a.delete()
	}
	if a.caller.Err() != nil {
		return context.Cause(a.caller)
	}
	f := notFoundIs(a.stage, err, classify(err, d))
	e := &Error{
		Stage: a.stage, Reason: f.reason, Retryable: f.retryable,
		Namespace: a.b.client.Namespace(), Kind: a.resource.Kind,
		Sandbox: a.state.Sandbox, Pod: a.podRef.Name,
		PodReason: d.Reason, PodMessage: d.Message,
		Cleanup: cleanup, Err: err,
	}
	if a.stage != StageTemplate {
		e.Object = a.name
	}
	if api, ok := errors.AsType[*k8s.APIError](err); ok {
		e.RetryAfter = api.RetryAfter
	}
	if a.state.Phase != podbind.Ready {
		e.ControllerReason, e.ControllerMessage = a.state.Reason, a.state.Message
	}
	return e
}

// diagnose looks once at the pod that did not become ready.
func (a *attempt) diagnose() podbind.Diagnosis {
	name := a.state.Sandbox
	if name == "" {
		return podbind.Diagnosis{}
	}
	ctx, cancel := context.WithTimeout(a.caller, diagnosisGrace)
	defer cancel()
	pod, err := a.b.client.Get(ctx, k8s.Pods, name)
	if err == nil {
		a.podRef.Name = pod.Name()
		return podbind.Diagnose(pod)
	}
	if sandbox, err := a.b.client.Get(ctx, k8s.Sandboxes, name); err == nil {
		return podbind.DiagnoseSandbox(sandbox)
	}
	return podbind.Diagnosis{}
}

// delete takes back what the create made, within a budget of its own and
// whatever has become of the caller. What it does not manage, the reaper does.
func (a *attempt) delete() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.caller), cleanupGrace)
	defer cancel()
	o := orphan{resource: a.resource, name: a.name, uid: a.uid, until: a.expiry}
	err := o.delete(ctx, a.b.client)
	switch {
	case err != nil:
		a.b.reaper.add(o, err)
	case a.ambiguous && a.uid == "":
		// The POST was never answered and its object was not there just now. It
		// may arrive yet.
		o.recheck = true
		a.b.reaper.add(o, nil)
	}
	return err
}
