package acquire

import (
	"errors"
	"fmt"

	"github.com/sandlot-go/sandlot/internal/podbind"
)

// pod finds the one live pod behind the binding and waits until it has every
// required label and an address. Labels reach an adopted pod some time after
// its claim is ready, and no policy selects it by them before.
func (a *attempt) pod(state podbind.State) (podbind.Pod, string, error) {
	a.enter(StagePod)
	var missing error
	for n := 1; ; n++ {
		pod, err := podbind.Read(a.ctx, a.b.client, state.Sandbox, state.Selector)
		_, none := errors.AsType[*podbind.NoPodError](err)
		switch {
		case err == nil:
			a.podRef = pod
			host := podbind.Host(a.b.cfg.AgentAddress, state, pod)
			if missing = a.missing(pod, host); missing == nil {
				return pod, host, podbind.CheckHost(host)
			}
		case a.ctx.Err() != nil:
			return pod, "", a.late(err, missing)
		case none:
			missing = err
		default:
			return pod, "", err
		}
		if err := a.sleep(a.b.pace.delay(n+1, a.b.cfg.PollInterval)); err != nil {
			return pod, "", a.late(err, missing)
		}
		if none {
			// The sandbox may have been replaced under the claim.
			if state, err = a.rebind(); err != nil {
				return pod, "", a.late(err, missing)
			}
		}
	}
}

// missing says what the pod still lacks.
func (a *attempt) missing(pod podbind.Pod, host string) error {
	if key, value, lacks := podbind.MissingLabel(pod.Labels, a.labels); lacks {
		return &LabelError{Key: key, Value: value, Pod: pod.Name, Namespace: a.b.client.Namespace(), Observed: pod.Labels}
	}
	if host == "" {
		return &addressError{pod: pod.Name, mode: a.b.cfg.AgentAddress}
	}
	return nil
}

// rebind reads the object again and returns what it is bound to now.
func (a *attempt) rebind() (podbind.State, error) {
	object, err := a.get(a.resource, a.name)
	if err != nil {
		return a.state, err
	}
	if err := a.sameObject(object); err != nil {
		return a.state, err
	}
	_, err = a.judge(object)
	if a.state.Sandbox == "" {
		a.state.Sandbox = a.name
	}
	return a.state, err
}

// late prefers what the pod lacked to the clock that ran out over it.
func (a *attempt) late(err, missing error) error {
	if errors.Is(err, errReadyTimeout) && missing != nil {
		return missing
	}
	return a.timedOut("its pod was not read", err, nil)
}

// A LabelError is a label that was asked for and did not reach the pod in time.
// Nobody has spoken to the guest.
type LabelError struct {
	Key, Value     string
	Pod, Namespace string
	Observed       map[string]string // the pod's labels
}

func (e *LabelError) Error() string {
	return fmt.Sprintf("label %s=%s was not observed on pod %s in namespace %s, which has %s", e.Key, e.Value, e.Pod, e.Namespace, podbind.FormatLabels(e.Observed))
}

// An addressError is a pod without an address that the mode accepts.
type addressError struct {
	pod  string
	mode AddressMode
}

func (e *addressError) Error() string {
	if e.mode == ByPodIP {
		return fmt.Sprintf("pod %s has no status.podIP", e.pod)
	}
	return fmt.Sprintf("neither a serviceFQDN nor a pod IP is known for pod %s", e.pod)
}
