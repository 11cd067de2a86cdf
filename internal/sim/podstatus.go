package sim

import "time"

// podStatus is the status that a bound pod should have now.
func (w *world) podStatus(pod object, s *podState, behave string) object {
	p := placeOf(pod)
	if f, ok := waitingFaults[behave]; ok {
		if s.ip == "" {
			s.ip = w.address()
		}
		if behave == "imagepull" {
			if wait := backOff - time.Since(s.seen); wait > 0 {
				w.after(wait, podTask, p)
			} else {
				f.reason, f.message = "ImagePullBackOff", "Back-off pulling image"
			}
		}
		return w.composePod(pod, s, "Pending", false, object{"waiting": object{"reason": f.reason, "message": f.message}})
	}
	if behave != behaveCrashLoop && s.guest == nil && !s.launching && s.broken == "" {
		w.launch(pod, s)
	}
	if s.broken != "" {
		return w.composePod(pod, s, "Pending", false, object{"waiting": object{"reason": "CreateContainerError", "message": s.broken}})
	}
	wait := time.Until(s.due)
	if wait > 0 {
		w.after(wait, podTask, p)
	}
	if wait > 0 || s.guest == nil && s.restarts == 0 && behave != behaveCrashLoop { // the guest's start brings it back
		return withoutIP(w.composePod(pod, s, "Pending", false, object{"waiting": object{"reason": "ContainerCreating"}}))
	}
	if behave == behaveCrashLoop {
		if s.ip == "" {
			s.ip = w.address()
		}
		s.restarts, s.last = 3, object{"exitCode": int64(1), "reason": "Error", "startedAt": utc(s.began), "finishedAt": utc(s.began)}
		return w.composePod(pod, s, "Running", false, object{"waiting": object{"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}})
	}
	status := w.composePod(pod, s, "Running", behave != behaveNotReady && s.guest != nil, object{"running": object{"startedAt": utc(s.began)}})
	switch behave {
	case behaveNoIP:
		return withoutIP(status)
	case behaveFailed, behaveSucceeded:
		if s.finish.IsZero() && text(pod, "status", "phase") != "Running" {
			s.finish = time.Now().Add(finishAfter)
		}
		if wait := time.Until(s.finish); wait > 0 {
			w.after(wait, podTask, p)
			return status
		}
		return w.finishPod(pod, s, behave)
	}
	return status
}

func (w *world) finishPod(pod object, s *podState, behave string) object {
	code, phase, reason := int64(1), "Failed", "Error"
	if behave == behaveSucceeded {
		code, phase, reason = 0, "Succeeded", "Completed"
	}
	if run := s.guest; run != nil {
		w.cluster.spawn(func() { run.stop() })
	}
	s.guest = nil
	return w.composePod(pod, s, phase, false, object{"terminated": object{"exitCode": code, "reason": reason, "startedAt": utc(s.began), "finishedAt": w.stamp()}})
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func withoutIP(status object) object {
	delete(status, "podIP")
	delete(status, "podIPs")
	return status
}

func (w *world) composePod(pod object, s *podState, phase string, ready bool, state object) object {
	status := fresh(sub(pod, "status"))
	set := func(kind string, ok bool, reason string) {
		c := object{"type": kind, "status": "True", "lastProbeTime": nil}
		if !ok {
			c["status"], c["reason"] = "False", reason
		}
		setCondition(status, c, w.stamp())
	}
	why := "ContainersNotReady"
	if phase == "Failed" || phase == "Succeeded" {
		why = "PodFailed"
		if phase == "Succeeded" {
			why = "PodCompleted"
		}
	}
	set("PodReadyToStartContainers", true, "")
	set("Initialized", true, "")
	set("Ready", ready, why)
	set("ContainersReady", ready, why)
	set("PodScheduled", true, "")
	var containers list
	for _, c := range items(pod, "spec", "containers") {
		last := object{}
		if s.last != nil {
			last["terminated"] = clone(s.last)
		}
		containers = append(containers, object{
			"name": at(c, "name"), "image": at(c, "image"), "imageID": "", "ready": ready, "started": state["running"] != nil,
			"restartCount": s.restarts, "state": state, "lastState": last,
		})
	}
	started := text(pod, "status", "startTime")
	if started == "" {
		started = w.stamp()
	}
	out := object{
		"phase": phase, "conditions": status["conditions"], "containerStatuses": containers, "startTime": started,
		"hostIP": nodeIP, "hostIPs": list{object{"ip": nodeIP}},
	}
	if s.ip != "" {
		out["podIP"], out["podIPs"] = s.ip, list{object{"ip": s.ip}}
	}
	return out
}
