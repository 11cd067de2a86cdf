package sim

func finished(pod object) bool {
	phase := text(pod, "status", "phase")
	return phase == "Failed" || phase == "Succeeded"
}

// sandboxConditions are Suspended, Finished, PodScheduled and Ready, which is
// what the controller's words are about.
func (w *world) sandboxConditions(sb, status, pod, svc object, podErr, err error) {
	set := func(kind, value, reason, message string) {
		setCondition(status, object{"type": kind, "status": value, "reason": reason, "message": message, "observedGeneration": generation(sb)}, w.stamp())
	}
	suspend := text(sb, "spec", "operatingMode") == "Suspended"
	switch {
	case !suspend:
		set("Suspended", "False", "NotSuspended", "Sandbox is not suspended")
	case pod == nil && podErr != nil:
		set("Suspended", "Unknown", "PodStateUnknown", "Pod state is unknown. Sandbox suspension cannot be confirmed")
	case pod == nil:
		set("Suspended", "True", "PodTerminated", "Pod has been terminated. Sandbox is suspended")
	default:
		set("Suspended", "False", "PodTerminating", "Pod is terminating. Sandbox is suspending")
	}

	reason, message := "DependenciesNotReady", "Pod does not exist"
	switch phase := text(pod, "status", "phase"); phase {
	case "":
	case "Succeeded":
		reason, message = "PodSucceeded", "Pod completed successfully"
	case "Failed":
		reason, message = "PodFailed", "Pod failed"
	default:
		message = "Pod exists with phase: " + phase
	}
	if finished(pod) {
		set("Finished", "True", reason, message)
	} else {
		dropCondition(status, "Finished")
	}
	w.schedulingCondition(status, pod, podErr, set)

	ready := false
	if text(pod, "status", "phase") == "Running" {
		switch message = "Pod is Running but not Ready"; {
		case !isTrue(pod, "Ready"):
		case len(items(pod, "status", "podIPs")) == 0:
			message = "Pod is Ready but has no podIPs yet"
		default:
			message, ready = "Pod is Ready", true
		}
	}
	wanted := at(sb, "spec", "service")
	if !finished(pod) && (wanted == true || wanted == nil && svc != nil) {
		if svc != nil {
			message += "; Service Exists"
		} else {
			message, ready = message+"; Service does not exist", false
		}
	}
	switch {
	case err != nil:
		set("Ready", "False", "ReconcilerError", "Error seen: "+err.Error())
	case suspend && pod != nil:
		set("Ready", "False", "SandboxSuspended", "Sandbox is suspending")
	case suspend:
		set("Ready", "False", "SandboxSuspended", "Sandbox is suspended")
	case ready:
		set("Ready", "True", "DependenciesReady", message)
	default:
		set("Ready", "False", reason, message)
	}
}

// schedulingCondition mirrors the pod's PodScheduled.
func (w *world) schedulingCondition(status, pod object, podErr error, set func(kind, value, reason, message string)) {
	switch {
	case pod == nil && podErr != nil:
		set("PodScheduled", "Unknown", "PodSchedulingUnknown", "Pod state is unknown. Pod scheduling cannot be determined")
		return
	case pod == nil:
		dropCondition(status, "PodScheduled")
		return
	}
	theirs := condition(sub(pod, "status"), "PodScheduled")
	if theirs == nil {
		set("PodScheduled", "Unknown", "PodSchedulingUnknown", "Pod has not reported a PodScheduled condition yet")
		return
	}
	reason := text(theirs, "reason")
	switch {
	case reason != "":
	case text(theirs, "status") == "True":
		reason = "PodScheduled"
	default:
		reason = "PodSchedulingUnknown"
	}
	set("PodScheduled", text(theirs, "status"), reason, text(theirs, "message"))
}
