package acquire

import (
	"errors"
	"net/http"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
	"github.com/sandlot-go/sandlot/probe"
)

// What to do after a POST that failed.
type postDecision int

const (
	postFatal postDecision = iota
	postAgain              // it had no effect and may have one later
	postLook               // it may have had an effect: look for the object
)

// afterPost decides what to do after a POST failed with err. A plain 500 is
// final: the server has answered, and what it says is worth more than another
// try. That the name exists may be a POST's own echo, when something on the way
// repeated it.
func afterPost(err error) postDecision {
	if _, odd := errors.AsType[*answerError](err); odd {
		return postLook
	}
	e, ok := errors.AsType[*k8s.APIError](err)
	if !ok {
		return postFatal
	}
	switch e.Kind {
	case k8s.Unreachable, k8s.TooManyRequests:
		if e.NotApplied {
			return postAgain
		}
		return postLook
	case k8s.Timeout:
		if e.NotApplied {
			return postFatal // the token callback or the dial used up the request's time
		}
		return postLook
	case k8s.ServerError:
		if e.Code == 500 && e.Reason != "ServerTimeout" {
			return postFatal
		}
		return postLook
	case k8s.Exists:
		return postLook
	case k8s.Protocol, k8s.TooLarge:
		if e.Code/100 == 2 {
			return postLook
		}
	}
	return postFatal
}

// notApplied reports whether a request that failed with err certainly had no
// effect.
func notApplied(err error) bool {
	e, ok := errors.AsType[*k8s.APIError](err)
	return ok && e.NotApplied
}

// pollAgain decides whether a look that failed with err is repeated; last is how
// the one before it failed, if it did. An answer that is no API server's is
// believed the second time in a row.
func pollAgain(err, last error) bool {
	if k8s.KindOf(err) == k8s.Protocol || isAnswerError(err) {
		return last == nil
	}
	return k8s.SafeToRetry(err)
}

func isAnswerError(err error) bool {
	_, ok := errors.AsType[*answerError](err)
	return ok
}

// A finding is what a failure means.
type finding struct {
	reason    Reason
	retryable bool
}

// classify finds the reason of a failure that was not the caller's. What the
// cluster said about the pod outranks what the polls met: on a saturated
// cluster both happen, and only one says what to do.
func classify(err error, d podbind.Diagnosis) finding {
	if e, ok := errors.AsType[*RejectedError](err); ok {
		if e.Reason == "PodFailed" || e.Reason == "PodSucceeded" {
			return finding{ReasonPodFailed, true}
		}
		return finding{ReasonClaimRejected, false}
	}
	if _, ok := errors.AsType[*NotReadyError](err); ok {
		if f, ok := troubles[d.Trouble]; ok {
			return f
		}
		if f := classifyAPI(err); f.reason != "" {
			return f
		}
		return finding{ReasonNotReady, true}
	}
	if _, ok := errors.AsType[*policy.Error](err); ok {
		return finding{ReasonPolicy, false}
	}
	switch err := err.(type) {
	case *LabelError:
		return finding{ReasonLabelNotObserved, true}
	case *addressError, *podbind.NoPodError:
		return finding{ReasonNoAddress, true}
	case *podbind.TemplateError:
		return finding{ReasonInvalidRequest, false}
	case *goneError:
		return finding{ReasonClaimDeleted, true}
	case *foreignError:
		return finding{ReasonConflict, true}
	case *probe.Error:
		return finding{ReasonProbe, err.Reason == probe.ReasonFailed}
	}
	if f := classifyAPI(err); f.reason != "" {
		return f
	}
	if errors.Is(err, errReadyTimeout) {
		return finding{ReasonNotReady, true}
	}
	return finding{ReasonProtocol, false}
}

var troubles = map[podbind.Trouble]finding{
	podbind.Unschedulable: {ReasonCapacity, true},
	podbind.ImagePull:     {ReasonImagePull, false},
	podbind.Unstartable:   {ReasonPodFailed, false},
	podbind.Crashing:      {ReasonPodFailed, false},
	podbind.PodEnded:      {ReasonPodFailed, true},
}

func classifyAPI(err error) finding {
	switch k8s.KindOf(err) {
	case k8s.Unreachable, k8s.TooManyRequests, k8s.ServerError:
		return finding{ReasonAPIUnreachable, true}
	case k8s.Timeout:
		return finding{ReasonAPITimeout, true}
	case k8s.Unauthorized, k8s.Forbidden, k8s.Credential:
		return finding{ReasonForbidden, false}
	case k8s.NotFound, k8s.Gone:
		return finding{ReasonClaimDeleted, true}
	case k8s.NotServed:
		return finding{ReasonNotServed, false}
	case k8s.Exists, k8s.Conflict:
		return finding{ReasonConflict, true}
	case k8s.Invalid, k8s.BadRequest, k8s.Status:
		return finding{ReasonInvalidRequest, false}
	case k8s.Redirect, k8s.TooLarge, k8s.Protocol:
		return finding{ReasonProtocol, false}
	}
	return finding{}
}

// notFoundIs refines what a 404 means: before the object is there, and where a
// namespace is what is missing, it is about something that the configuration
// names.
func notFoundIs(s Stage, err error, f finding) finding {
	e, ok := errors.AsType[*k8s.APIError](err)
	if !ok || e.Code != http.StatusNotFound {
		return f
	}
	if e.Kind == k8s.NotFound && s == StageTemplate || e.Details != nil && e.Details.Kind == "namespaces" {
		return finding{ReasonInvalidRequest, false}
	}
	return f
}
