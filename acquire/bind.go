package acquire

import (
	"context"
	"errors"
	"time"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
)

// bind waits until the object is ready. The answer to the POST is the first
// look; the next one comes when binds of this cluster usually are done.
func (a *attempt) bind(object k8s.Object) (podbind.State, error) {
	a.enter(StageBind)
	a.b.verifier.Prefetch(a.ctx) // what is judged later is read while the claim binds
	posted := time.Now()
	ready, err := a.judge(object)
	if err != nil || ready {
		return a.state, err
	}
	w := a.watch(object)
	defer w.close()
	var lastErr error // of the last read; a good one forgets it
	failures := 0     // in a row
	seen := time.Duration(0)
	for looks := 1; ; looks++ {
		if err := w.wait(a.b.pace.delay(looks, a.b.cfg.PollInterval)); err != nil {
			return a.state, a.timedOut("", err, lastErr)
		}
		object, err := w.look()
		if err == nil {
			err = a.sameObject(object)
		}
		if err == nil {
			lastErr, failures = nil, 0
			ready, err := a.judge(object)
			if err != nil {
				return a.state, err
			}
			if ready {
				a.learn(looks, seen, time.Since(posted))
				return a.state, nil
			}
			seen = time.Since(posted)
			continue
		}
		if a.ctx.Err() != nil {
			return a.state, a.timedOut("", context.Cause(a.ctx), lastErr)
		}
		if !pollAgain(err, lastErr) {
			return a.state, err
		}
		pause, again := k8s.Backoff{}.Wait(failures, err, a.remaining())
		if !again {
			return a.state, err
		}
		lastErr, failures = err, failures+1
		if err := a.sleep(pause); err != nil {
			return a.state, a.timedOut("", err, lastErr)
		}
	}
}

// judge reads a status and reports whether it is ready, or why it never will be.
func (a *attempt) judge(object k8s.Object) (ready bool, err error) {
	s := a.read(object)
	if s.Sandbox == "" {
		s.Sandbox = a.state.Sandbox // published once is worth a diagnosis
	}
	a.state = s
	switch s.Phase {
	case podbind.Ready:
		return true, nil
	case podbind.Rejected, podbind.Failed:
		err := &RejectedError{Reason: s.Reason, Message: s.Message}
		if s.Reason == "InvalidMetadata" {
			err.PodLabels = a.labels
		}
		return false, err
	case podbind.Ended:
		return false, &goneError{a.resource.Kind, a.name, "its status says " + s.Reason}
	case podbind.Broken:
		return false, errors.New(s.Message)
	}
	return false, nil
}

// learn teaches the pace how long a warm bind takes. A cold start is named like
// its claim and says nothing of the next warm one.
func (a *attempt) learn(looks int, notYet, ready time.Duration) {
	if a.resource.Kind == k8s.SandboxClaims.Kind && a.state.Sandbox != a.name {
		a.b.pace.learn(looks, notYet, ready)
	}
}

// timedOut turns the end of the budget into what was waited for and how the last
// read of it failed; everything else is returned as it is.
func (a *attempt) timedOut(waited string, err, last error) error {
	if !errors.Is(err, errReadyTimeout) {
		return err
	}
	if e, ok := errors.AsType[*k8s.ExhaustedError](err); ok {
		last = e.Last
	}
	if waited == "" && !a.state.Observed && a.resource.Kind == k8s.SandboxClaims.Kind {
		waited = "no controller has looked at it"
	}
	return &NotReadyError{Timeout: a.b.cfg.ReadyTimeout, Waited: waited, Err: last}
}
