package sim

import "time"

// Annotations, or labels, of a pod that say how it is to fare. They are set in a
// template's podTemplate.metadata, or later on a pod by [Cluster.Patch].
const (
	behaveKey      = "sim/behave"       // one of the words below
	readyDelayKey  = "sim/ready-delay"  // milliseconds or a duration until Ready, in place of Config.PodReady
	deleteDelayKey = "sim/delete-delay" // the least time that a deletion takes, in place of Config.PodDelete
	privilegedKey  = "sim/privileged"   // "true": the guest's programs keep this process's privileges
)

const (
	behaveUnschedulable = "unschedulable" // PodScheduled=False
	behavePending       = "pending"       // never scheduled, no condition
	behaveCrashLoop     = "crashloop"     // Running, CrashLoopBackOff
	behaveNotReady      = "notready"      // Running, never Ready; on a running pod: readiness lost until it is removed
	behaveNoIP          = "noip"          // Ready without an address
	behaveFailed        = "failed"        // runs, then ends in that phase
	behaveSucceeded     = "succeeded"
)

// waitingFaults keep the container waiting; the pod has an address all the same,
// as on a real node.
var waitingFaults = map[string]struct{ reason, message string }{
	"imagepull":    {"ErrImagePull", "failed to pull and unpack image: not found"},
	"invalidimage": {"InvalidImageName", "Failed to apply default image tag: couldn't parse image name"},
	"neverpull":    {"ErrImageNeverPull", "Container image is not present with pull policy of Never"},
	"configerror":  {"CreateContainerConfigError", `secret "none" not found`},
	"createerror":  {"CreateContainerError", "failed to create containerd container"},
}

// setting is a pod's own word: an annotation, else a label.
func setting(o object, key string) string {
	if v := note(o, key); v != "" {
		return v
	}
	return labels(o)[key]
}

// period reads a setting as a Go duration or as a number of milliseconds.
func period(o object, key string, otherwise time.Duration) time.Duration {
	v := setting(o, key)
	if d, err := time.ParseDuration(v); err == nil {
		return d
	}
	if d, err := time.ParseDuration(v + "ms"); err == nil {
		return d
	}
	return otherwise
}
