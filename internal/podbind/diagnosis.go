package podbind

import "github.com/sandlot-go/sandlot/k8s"

// A Trouble is the kind of thing that keeps a pod from becoming ready.
type Trouble int

// The troubles.
const (
	NoTrouble Trouble = iota // nothing that the pod's status names
	Unschedulable
	ImagePull   // the image cannot be had
	Unstartable // the container cannot be created or configured
	Crashing    // the container ends again and again
	PodEnded    // phase Failed or Succeeded
)

// A Diagnosis is what a pod's status says of its trouble.
type Diagnosis struct {
	Trouble Trouble
	Reason  string // Kubernetes' own word, such as ImagePullBackOff
	Message string // Kubernetes' own text
}

var waitingTroubles = map[string]Trouble{
	"ErrImagePull":               ImagePull,
	"ImagePullBackOff":           ImagePull,
	"ImageInspectError":          ImagePull,
	"RegistryUnavailable":        ImagePull,
	"InvalidImageName":           ImagePull,
	"ErrImageNeverPull":          ImagePull,
	"SignatureValidationFailed":  ImagePull,
	"CreateContainerConfigError": Unstartable,
	"CreateContainerError":       Unstartable,
	"RunContainerError":          Unstartable,
	"PreCreateHookError":         Unstartable,
	"PostStartHookError":         Unstartable,
	"CrashLoopBackOff":           Crashing,
}

// Diagnose reads the status of a pod that does not become ready. That it could
// not be scheduled comes first: nothing else can be true then.
func Diagnose(pod k8s.Object) Diagnosis {
	if c, ok := pod.Condition("PodScheduled"); ok && c.False() {
		if c.Reason == "Unschedulable" {
			return Diagnosis{Unschedulable, c.Reason, c.Message}
		}
		return Diagnosis{NoTrouble, c.Reason, c.Message} // SchedulingGated and the like
	}
	if phase := pod.Text("status", "phase"); phase == "Failed" || phase == "Succeeded" {
		d := Diagnosis{PodEnded, pod.Text("status", "reason"), pod.Text("status", "message")}
		if d.Reason == "" {
			d.Reason = phase
		}
		return d
	}
	for _, set := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, v := range pod.List("status", set) {
			entry, _ := v.(map[string]any)
			waiting := k8s.Object(entry).Map("state", "waiting")
			if t, ok := waitingTroubles[waiting.Text("reason")]; ok {
				return Diagnosis{t, waiting.Text("reason"), waiting.Text("message")}
			}
		}
	}
	return Diagnosis{}
}

// DiagnoseSandbox reads from a Sandbox what it mirrors of its pod's scheduling,
// for a host that may not read pods.
func DiagnoseSandbox(sandbox k8s.Object) Diagnosis {
	if c, ok := sandbox.Condition("PodScheduled"); ok && c.False() && c.Reason == "Unschedulable" {
		return Diagnosis{Unschedulable, c.Reason, c.Message}
	}
	return Diagnosis{}
}
