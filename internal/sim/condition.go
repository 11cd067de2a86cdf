package sim

// condition is the status's entry of the kind, or nil.
func condition(status object, kind string) object {
	for _, c := range items(status, "conditions") {
		if text(c, "type") == kind {
			return c.(object)
		}
	}
	return nil
}

func isTrue(o object, kind string) bool {
	return text(condition(sub(o, "status"), kind), "status") == "True"
}

// setCondition replaces or appends a condition of a status that is not shared
// yet. lastTransitionTime moves only when the status does; a new condition may
// bring its own.
func setCondition(status, c object, now string) {
	if c["lastTransitionTime"] == nil {
		c["lastTransitionTime"] = now
	}
	conditions := items(status, "conditions")
	for i, old := range conditions {
		if text(old, "type") != text(c, "type") {
			continue
		}
		if text(old, "status") == text(c, "status") {
			c["lastTransitionTime"] = at(old, "lastTransitionTime")
		}
		conditions[i] = c
		return
	}
	status["conditions"] = append(conditions, c)
}

func dropCondition(status object, kind string) {
	kept := list{}
	for _, c := range items(status, "conditions") {
		if text(c, "type") != kind {
			kept = append(kept, c)
		}
	}
	status["conditions"] = kept
}
