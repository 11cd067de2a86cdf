package acquire

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Stage names the step of a create. The order is the order of the steps.
type Stage string

// The stages.
const (
	StageOptions  Stage = "options"  // nothing was sent
	StageTemplate Stage = "template" // the SandboxTemplate is read (without a pool only)
	StagePost     Stage = "post"     // the claim or Sandbox is created
	StageBind     Stage = "bind"     // it becomes ready
	StagePod      Stage = "pod"      // its pod is live, has its labels and an address
	StageVerify   Stage = "verify"   // the network policies that select the pod are judged
	StageProbe    Stage = "probe"    // the guest shows that it is deprivileged
)

// A Reason is the machine-readable cause of a failed create.
type Reason string

// The reasons. Retryable says whether a later create of the same kind can
// succeed without anybody changing anything.
const (
	ReasonAPIUnreachable   Reason = "api-unreachable"    // retryable: the API server did not answer, or with 429 or 5xx
	ReasonAPITimeout       Reason = "api-timeout"        // retryable: a request ran into its own bound
	ReasonForbidden        Reason = "forbidden"          // 401 or 403
	ReasonClaimRejected    Reason = "claim-rejected"     // the controller will never bind it
	ReasonCapacity         Reason = "capacity"           // retryable: the pod cannot be scheduled
	ReasonImagePull        Reason = "image-pull"         // the image cannot be had
	ReasonNotReady         Reason = "not-ready"          // retryable: time ran out and nothing says why
	ReasonPodFailed        Reason = "pod-failed"         // the pod ended, crashes, or cannot be started
	ReasonLabelNotObserved Reason = "label-not-observed" // retryable: a required label did not reach the pod
	ReasonInvalidRequest   Reason = "invalid-request"    // the API server or this package refuses what was asked for
	ReasonNotServed        Reason = "not-served"         // the cluster has no agent-sandbox of a known version
	ReasonProtocol         Reason = "protocol"           // an answer was not what an API server gives
	ReasonConflict         Reason = "conflict"           // another object has the name
	ReasonClaimDeleted     Reason = "claim-deleted"      // retryable: somebody else deleted, suspended or let expire
	ReasonNoAddress        Reason = "no-address"         // retryable: the pod is not there or has no usable address
	ReasonPolicy           Reason = "policy"             // the network policies do not close the pod as configured
	ReasonProbe            Reason = "probe"              // the guest is privileged, or did not show that it is not
	ReasonClosed           Reason = "closed"             // the Backend was closed
)

// An Error is a create that failed. Nothing of it is left in the cluster,
// unless Cleanup says so.
type Error struct {
	Stage     Stage
	Reason    Reason
	Retryable bool // a later create may succeed without anybody changing anything

	// RetryAfter is how long the API server asked to be left alone; 0 when it
	// did not.
	RetryAfter time.Duration

	Namespace string
	Kind      string // SandboxClaim or Sandbox
	Object    string // its name; "" when nothing was sent
	Sandbox   string // name of the bound Sandbox, as far as known
	Pod       string // name of its pod, as far as known

	// ControllerReason and ControllerMessage are those of the Ready condition
	// that was seen last; PodReason and PodMessage are what the pod's status
	// says of its trouble.
	ControllerReason, ControllerMessage string
	PodReason, PodMessage               string

	// Cleanup is why the object could not be deleted within the create; the
	// Backend goes on trying. Nil when nothing is left.
	Cleanup error

	Err error // the failure itself; may be nil
}

func (e *Error) Unwrap() error { return e.Err }

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "acquire: %s at stage %s", e.Reason, e.Stage)
	if e.Object != "" {
		fmt.Fprintf(&b, ": %s %s in namespace %s", e.Kind, e.Object, e.Namespace)
	}
	if e.Sandbox != "" && e.Sandbox != e.Object {
		fmt.Fprintf(&b, ", bound to Sandbox %s", e.Sandbox)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.ControllerReason != "" || e.ControllerMessage != "" {
		fmt.Fprintf(&b, "; the controller says %s", joinWords(e.ControllerReason, e.ControllerMessage))
	}
	if e.PodReason != "" || e.PodMessage != "" {
		fmt.Fprintf(&b, "; the pod says %s", joinWords(e.PodReason, e.PodMessage))
	}
	if advice := advices[e.Reason]; advice != "" {
		b.WriteString("; " + advice)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; the API server asks to wait %v", e.RetryAfter)
	}
	if e.Cleanup != nil {
		fmt.Fprintf(&b, "; its deletion failed and is being repeated: %v", e.Cleanup)
	}
	return b.String()
}

func joinWords(reason, message string) string {
	const most = 1024
	if len(message) > most {
		message = message[:most] + "..."
	}
	if reason == "" || message == "" {
		return fmt.Sprintf("%q", reason+message)
	}
	return fmt.Sprintf("%s: %q", reason, message)
}

// advices tell what to do next, where the failure itself does not.
var advices = map[Reason]string{
	ReasonForbidden:        "see docs/rbac.md for what the host's account needs",
	ReasonClaimRejected:    "the wait was not continued: change the pool, the template or the request",
	ReasonCapacity:         "add nodes or lower the template's requests, or try again later",
	ReasonImagePull:        "check the template's image and its pull secrets",
	ReasonLabelNotObserved: "check that the label's domain is in allowed-label-domains of the ConfigMap agent-sandbox-config",
	ReasonNotServed:        "install agent-sandbox with its extensions, v1beta1, and check the server's URL",
	ReasonNoAddress:        "check the template's Service and the pod network",
}

// A RejectedError is a claim or Sandbox whose status says that it will not
// become ready by itself.
type RejectedError struct {
	Reason  string // the controller's
	Message string // the controller's

	// PodLabels are the pod labels that were asked for, where the controller
	// refused the claim's metadata: one of them is the usual cause.
	PodLabels map[string]string
}

func (e *RejectedError) Error() string {
	if len(e.PodLabels) > 0 {
		return "the controller refused the claim's pod labels " + formatLabels(e.PodLabels) +
			"; their domain must be in allowed-label-domains of the ConfigMap agent-sandbox-config"
	}
	return "the controller will not make it ready"
}

// A NotReadyError is a wait that ran out of time. The *Error around it names the
// object.
type NotReadyError struct {
	Timeout time.Duration
	Waited  string // for what; "" for readiness
	Err     error  // the failure of the last read, if it failed
}

func (e *NotReadyError) Unwrap() error { return e.Err }

func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("it never became Ready (%dms)", e.Timeout.Milliseconds())
	if e.Waited != "" {
		text = fmt.Sprintf("%s within %dms", e.Waited, e.Timeout.Milliseconds())
	}
	if e.Err != nil {
		text += "; the last read failed: " + e.Err.Error()
	}
	return text
}

// A LostError reports that the sandbox behind a handle is gone, or cannot be
// told from another one any more. It is final.
type LostError struct {
	Operation string // what was asked of the handle; "" from Err
	Sandbox   string
	Why       string
	Err       error
}

func (e *LostError) Unwrap() error { return e.Err }

func (e *LostError) Error() string {
	text := "acquire: sandbox " + e.Sandbox + " is lost: " + e.Why
	if e.Operation != "" {
		text = "acquire: cannot " + e.Operation + " in sandbox " + e.Sandbox + ", it is lost: " + e.Why
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text + "; create another one"
}

// A ReleasedError reports an operation on a sandbox that was given back.
type ReleasedError struct{ Operation, Sandbox string }

func (e *ReleasedError) Error() string {
	return "acquire: cannot " + e.Operation + " in sandbox " + e.Sandbox + ", it was released"
}

// ErrClosed is the cause of what ends because its Backend was closed.
var ErrClosed = errors.New("acquire: the backend is closed")

// errReadyTimeout is the cause of a create's own budget.
var errReadyTimeout = errors.New("acquire: the ready timeout has passed")
