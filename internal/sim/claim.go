package sim

import (
	"errors"
	"slices"
	"strings"
	"time"
)

const (
	claimLabel        = "agents.x-k8s.io/claim-uid"
	launchLabel       = "agents.x-k8s.io/launch-type"
	poolLabel         = "agents.x-k8s.io/warm-pool-sandbox"
	nameHashLabel     = "agents.x-k8s.io/sandbox-name-hash"
	templateHashLabel = "agents.x-k8s.io/sandbox-template-ref-hash"
	podTemplateLabel  = "agents.x-k8s.io/sandbox-pod-template-hash"
	blueprintLabel    = "agents.x-k8s.io/sandbox-template-hash"
	createdByLabel    = "agents.x-k8s.io/created-by"

	observedNote    = "agents.x-k8s.io/controller-first-observed-at"
	firstReadyNote  = "agents.x-k8s.io/claim-first-ready-at"
	assignedNote    = "agents.x-k8s.io/sandbox-name"
	templateNote    = "agents.x-k8s.io/sandbox-template-ref"
	podNameNote     = "agents.x-k8s.io/pod-name"
	labelsNote      = "agents.x-k8s.io/propagated-labels"
	annotationsNote = "agents.x-k8s.io/propagated-annotations"
	evictNote       = "cluster-autoscaler.kubernetes.io/safe-to-evict"

	// How long a claim waits for a pool member without an address, counted from
	// its creation stamp, and how often it looks.
	memberGrace = 2 * time.Second
	memberRetry = 500 * time.Millisecond

	claimExpired = "Claim expired. Sandbox cleanup initiated."
)

// A refusal becomes the claim's Ready=False with a reason of its own. It is not
// repeated by itself: a change of what was missing brings the claim back.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

// errWaiting leaves the claim's status alone for a while.
var errWaiting = errors.New("waiting for pool members")

func (w *world) observeClaim(p place) {
	if c := w.get(claims, p); c != nil && !dying(c) && note(c, observedNote) == "" {
		w.edit(claims, c, func(c object) { annotate(c, observedNote, w.now().UTC().Format(time.RFC3339Nano)) })
	}
}

func (w *world) noteReady(p place) {
	if c := w.get(claims, p); c != nil && !dying(c) && note(c, firstReadyNote) == "" {
		w.edit(claims, c, func(c object) { annotate(c, firstReadyNote, w.now().UTC().Format(time.RFC3339Nano)) })
	}
}

func (w *world) reconcileClaim(t task) {
	claim := w.get(claims, t.place)
	if claim == nil || dying(claim) {
		delete(w.retries, t)
		return
	}
	if wait := time.Until(w.births[uid(claim)]); wait > 0 {
		w.schedule(wait, t)
		return
	}
	w.observeClaim(t.place)
	claim = w.get(claims, t.place)
	status := fresh(sub(claim, "status"))
	remaining, bounded := w.claimRemaining(claim, status)
	expired := bounded && remaining <= 0
	if expired && text(condition(status, "Ready"), "reason") != "ClaimExpired" {
		w.refuse(claim, status, "ClaimExpired", claimExpired)
		need(status, "sandbox")
		w.setStatus(claims, claim, status)
		return // the change brings it back
	}
	switch policy := text(claim, "spec", "lifecycle", "shutdownPolicy"); {
	case expired && policy == "Delete":
		w.remove(claims, claim, "")
		return
	case expired && policy == "DeleteForeground":
		w.remove(claims, claim, "Foreground")
		return
	}
	var sb object
	var err error
	if expired {
		sb, err = w.dropSandbox(claim, status)
	} else {
		sb, err = w.bind(claim)
		claim = w.get(claims, t.place) // binding may have rewritten it
	}
	if errors.Is(err, errWaiting) {
		w.schedule(min(memberRetry, memberGrace-w.claimAge(claim)), t)
		return
	}
	wasReady := text(condition(status, "Ready"), "status") == "True"
	w.claimStatus(claim, status, sb, err, expired)
	claim = w.setStatus(claims, claim, status)
	if (wasReady || isTrue(claim, "Ready")) && note(claim, firstReadyNote) == "" {
		w.after(reaction/2, readyTask, t.place)
	}
	if _, refused := errors.AsType[*refusal](err); err == nil || refused {
		delete(w.retries, t)
	} else {
		w.retry(t)
	}
	if remaining, bounded = w.claimRemaining(claim, status); bounded && !expired {
		w.schedule(remaining, t)
	}
}

// fresh is a copy to be changed, also of nothing.
func fresh(o object) object {
	if o == nil {
		return object{}
	}
	return clone(o)
}

// claimAge goes by the stamp, which has no fraction of a second.
func (w *world) claimAge(claim object) time.Duration {
	d, _ := w.remaining(text(claim, "metadata", "creationTimestamp"))
	return -d
}

// claimRemaining is the time to the claim's end, by its stamp or by its finished
// pod.
func (w *world) claimRemaining(claim, status object) (time.Duration, bool) {
	d, bounded := w.remaining(text(claim, "spec", "lifecycle", "shutdownTime"))
	ttl, has := integer(at(claim, "spec", "lifecycle", "ttlSecondsAfterFinished"))
	if f := condition(status, "Finished"); has && text(f, "status") == "True" {
		if left, ok := w.remaining(text(f, "lastTransitionTime")); ok {
			if left += time.Duration(ttl) * time.Second; !bounded || left < d {
				return left, true
			}
		}
	}
	return d, bounded
}

func (w *world) refuse(claim, status object, reason, message string) {
	setCondition(status, object{"type": "Ready", "status": "False", "reason": reason, "message": message, "observedGeneration": generation(claim)}, w.stamp())
}

// claimStatus is what the claim says of its sandbox, or of why it has none.
func (w *world) claimStatus(claim, status, sb object, err error, expired bool) {
	theirs := sub(sb, "status")
	why, refused := errors.AsType[*refusal](err)
	switch {
	case refused:
		w.refuse(claim, status, why.reason, why.message)
	case err != nil:
		w.refuse(claim, status, "ReconcilerError", "Error seen: "+err.Error())
	case expired:
		w.refuse(claim, status, "ClaimExpired", claimExpired)
	case sb == nil:
		w.refuse(claim, status, "SandboxMissing", "Sandbox does not exist")
	case text(condition(theirs, "Ready"), "reason") == "SandboxExpired":
		w.refuse(claim, status, "SandboxExpired", "Underlying Sandbox resource has expired independently of the Claim.")
	case condition(theirs, "Ready") == nil:
		w.refuse(claim, status, "SandboxNotReady", "Sandbox is not ready")
	default: // the sandbox's own word, its transition time included
		ready := clone(condition(theirs, "Ready"))
		ready["observedGeneration"] = generation(claim)
		setCondition(status, ready, w.stamp())
	}
	bound := need(status, "sandbox")
	if sb != nil {
		if f := condition(theirs, "Finished"); f != nil {
			setCondition(status, clone(f), w.stamp())
		} else {
			dropCondition(status, "Finished")
		}
		bound["name"] = name(sb)
		delete(bound, "podIPs")
		if ips := items(theirs, "podIPs"); len(ips) > 0 {
			bound["podIPs"] = clone(ips)
		}
		if fqdn := text(theirs, "serviceFQDN"); w.cfg.ServiceFQDN && fqdn != "" {
			bound["serviceFQDN"] = fqdn
		}
	} else if err == nil {
		status["sandbox"] = object{}
	}
	if sb == nil && !expired {
		dropCondition(status, "Finished")
	}
	slices.SortFunc(items(status, "conditions"), func(a, b any) int { return strings.Compare(text(a, "type"), text(b, "type")) })
}

// dropSandbox takes the sandbox of an expired claim that is itself kept.
func (w *world) dropSandbox(claim, status object) (object, error) {
	id := text(status, "sandbox", "name")
	if id == "" {
		id = name(claim)
	}
	sb := w.get(sandboxes, place{namespace(claim), id})
	if sb == nil {
		return nil, nil
	}
	if !ownedBy(sb, uid(claim)) {
		return nil, &refusal{"ClaimExpired", "Claim expired. sandbox not owned by this claim: sandbox " + quoted(id) + " is not owned by claim " + quoted(name(claim)) + "; deletion skipped."}
	}
	w.remove(sandboxes, sb, "")
	return w.get(sandboxes, placeOf(sb)), nil
}
