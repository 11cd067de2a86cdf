package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

const (
	nodeName = "sim-node"
	nodeIP   = "192.0.2.10"

	backOff     = time.Second            // from ErrImagePull to ImagePullBackOff
	finishAfter = 100 * time.Millisecond // how long a pod runs that is to fail or succeed
)

// A podState is what the kubelet knows of a pod beside its object.
type podState struct {
	ip        string
	scheduled time.Time // when it gets its node
	due       time.Time // when it may become ready
	began     time.Time // when its fault or its container began, by the server's clock
	seen      time.Time // the same, by the timers'
	guest     *guestRun
	launching bool
	broken    string // why there is no guest
	ending    bool
	finish    time.Time // when a pod ends that is to fail or succeed
	restarts  int64
	last      object // how the container ended before
}

func (w *world) podState(pod object) *podState {
	s := w.pods[uid(pod)]
	if s == nil {
		delay := period(pod, readyDelayKey, w.cfg.PodReady)
		s = &podState{began: w.now(), seen: time.Now(), scheduled: time.Now().Add(min(delay, w.cfg.PodReady) / 3), due: time.Now().Add(delay)}
		w.pods[uid(pod)] = s
	}
	return s
}

// reconcilePod is scheduler and kubelet in one.
func (w *world) reconcilePod(p place) {
	pod := w.get(pods, p)
	if pod == nil {
		return
	}
	s := w.podState(pod)
	switch {
	case dying(pod):
		if !s.ending {
			s.ending = true
			w.terminate(pod, s)
		}
		return
	case finished(pod):
		return
	}
	behave := setting(pod, behaveKey)
	if text(pod, "spec", "nodeName") == "" {
		if behave == behavePending || len(items(pod, "spec", "schedulingGates")) > 0 {
			return
		}
		if wait := time.Until(s.scheduled); wait > 0 {
			w.after(wait, podTask, p)
			return
		}
		if behave == behaveUnschedulable {
			w.edit(pods, pod, func(pod object) {
				setCondition(need(pod, "status"), object{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastProbeTime": nil,
					"message": "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."}, w.stamp())
			})
			return
		}
		bound := clone(pod)
		need(bound, "spec")["nodeName"] = nodeName
		pod = w.record(pods, pod, bound) // binding does not count as a change of the spec
	}
	status := w.podStatus(pod, s, behave)
	status["qosClass"] = at(pod, "status", "qosClass")
	w.setStatus(pods, pod, status)
}

// launch starts the pod's guest beside the loop.
func (w *world) launch(pod object, s *podState) {
	s.launching = true
	disk := w.diskOf(pod)
	ip := s.ip
	w.cluster.spawn(func() {
		run, err := w.cluster.startGuest(pod, ip, disk)
		w.cluster.mu.Lock()
		defer w.cluster.mu.Unlock()
		s.launching = false
		if err != nil {
			s.broken = err.Error()
		} else if w.cluster.closed || s.ending || w.pods[uid(pod)] != s {
			w.cluster.wg.Go(func() { run.stop() })
			return
		} else {
			s.guest, s.ip, s.began = run, run.ip, w.now()
		}
		w.after(0, podTask, placeOf(pod))
	})
}

// terminate ends a pod: the guest within its grace, then, not before the delay,
// the object.
func (w *world) terminate(pod object, s *podState) {
	grace := time.Duration(number(pod, "metadata", "deletionGracePeriodSeconds")) * time.Second
	delay := period(pod, deleteDelayKey, w.cfg.PodDelete)
	run := s.guest
	s.guest = nil
	w.cluster.spawn(func() {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		if run != nil {
			run.terminate(grace, w.cluster.done)
		}
		select {
		case <-timer.C:
		case <-w.cluster.done:
			return
		}
		w.cluster.mu.Lock()
		defer w.cluster.mu.Unlock()
		if have := w.get(pods, placeOf(pod)); have != nil && uid(have) == uid(pod) {
			w.record(pods, have, nil)
		}
	})
}

// forget cleans up after a pod that is gone, also one that went without grace.
func (w *world) forget(pod object) {
	var run *guestRun
	if s := w.pods[uid(pod)]; s != nil {
		run, s.guest, s.ending = s.guest, nil, true
		delete(w.pods, uid(pod))
	}
	w.cluster.spawn(func() {
		if run != nil {
			run.stop()
		}
		os.RemoveAll(w.cluster.podFolder(uid(pod)))
	})
}

// address is the next pod's. On the loopback interface, which other clusters
// share, the first is anywhere.
func (w *world) address() string {
	if w.cfg.Network == nil && w.nextIP == 0 {
		w.nextIP = rand.IntN(250 * 250)
	}
	w.nextIP++
	network := "127.67"
	if w.cfg.Network != nil {
		network = "10.244"
	}
	return fmt.Sprintf("%s.%d.%d", network, w.nextIP/250%250, w.nextIP%250+1)
}
