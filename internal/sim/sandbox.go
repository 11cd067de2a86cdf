package sim

import (
	"errors"
	"fmt"
	"time"
)

const (
	clusterDomain = "cluster.local"

	// slowExpiry is how late a sandbox may notice the end of its own lease.
	slowExpiry = 2 * time.Second
)

func (w *world) reconcileSandbox(t task) {
	sb := w.get(sandboxes, t.place)
	if sb == nil || dying(sb) {
		delete(w.retries, t)
		return
	}
	if wait := time.Until(w.births[uid(sb)]); wait > 0 {
		w.schedule(wait, t)
		return
	}
	remaining, bounded := w.remaining(text(sb, "spec", "shutdownTime"))
	if bounded && remaining <= 0 {
		w.expireSandbox(sb)
		return
	}
	status := fresh(sub(sb, "status"))
	err := w.reconcileChildren(sb, status)
	sb = w.get(sandboxes, t.place) // its annotations may have changed
	w.writeSandboxStatus(sb, status)
	if err != nil {
		w.retry(t)
	} else {
		delete(w.retries, t)
	}
	if bounded {
		w.schedule(max(remaining, slowExpiry), t)
	}
}

// reconcileChildren brings volumes, pod and Service about and computes status.
func (w *world) reconcileChildren(sb, status object) error {
	volErr := w.reconcileVolumes(sb)
	pod, podErr := w.reconcileSandboxPod(sb)
	svc, svcErr := w.reconcileService(sb)
	err := errors.Join(volErr, podErr, svcErr)

	delete(status, "podIPs")
	delete(status, "nodeName")
	if pod != nil {
		status["selector"] = nameHashLabel + "=" + hash(name(sb))
		var ips list
		for _, ip := range items(pod, "status", "podIPs") {
			ips = append(ips, at(ip, "ip"))
		}
		if len(ips) > 0 {
			status["podIPs"] = ips
		}
		if node := text(pod, "spec", "nodeName"); node != "" {
			status["nodeName"] = node
		}
	}
	delete(status, "service")
	delete(status, "serviceFQDN")
	if svc != nil {
		status["service"], status["serviceFQDN"] = name(svc), fqdn(svc)
	}
	w.sandboxConditions(sb, status, pod, svc, podErr, err)
	return err
}

func (w *world) writeSandboxStatus(sb, status object) {
	old := sub(sb, "status")
	if text(condition(status, "Ready"), "status") != "True" {
		// A node name alone waits for the next write while the sandbox starts.
		same := clone(status)
		if node := at(old, "nodeName"); node != nil {
			same["nodeName"] = node
		} else {
			delete(same, "nodeName")
		}
		if equal(old, same) {
			return
		}
	}
	w.setStatus(sandboxes, sb, status)
}

// expireSandbox marks the sandbox, then takes its children away, and itself if
// so asked.
func (w *world) expireSandbox(sb object) {
	status := fresh(sub(sb, "status"))
	marked := text(condition(status, "Ready"), "reason") == "SandboxExpired"
	setCondition(status, object{"type": "Ready", "status": "False", "reason": "SandboxExpired", "message": "Sandbox has expired", "observedGeneration": generation(sb)}, w.stamp())
	if !marked {
		dropCondition(status, "PodScheduled")
		w.setStatus(sandboxes, sb, status)
		return // the change brings it back
	}
	for _, r := range []*resource{pods, services} {
		for _, o := range w.children(r, namespace(sb), uid(sb)) {
			w.remove(r, o, "")
		}
	}
	if text(sb, "spec", "shutdownPolicy") == "Delete" {
		w.remove(sandboxes, sb, "")
		return
	}
	w.setStatus(sandboxes, sb, object{"conditions": status["conditions"]})
}

func (w *world) reconcileVolumes(sb object) error {
	for _, t := range items(sb, "spec", "volumeClaimTemplates") {
		id := text(t, "metadata", "name") + "-" + name(sb)
		if have := w.get(disks, place{namespace(sb), id}); have != nil {
			if err := foreign("PVC", have, sb); err != nil {
				return err
			}
			continue
		}
		meta := object{"name": id, "namespace": namespace(sb), "finalizers": list{diskProtection}}
		if notes := sub(t, "metadata", "annotations"); notes != nil {
			meta["annotations"] = clone(notes)
		}
		set := fresh(sub(t, "metadata", "labels"))
		set[nameHashLabel] = hash(name(sb))
		meta["labels"] = set
		disk := object{"metadata": meta, "spec": fresh(sub(t, "spec")), "status": object{"phase": "Pending"}}
		own(disk, sb)
		if _, f := w.create(disks, disk); f != nil {
			return errors.New(f.message)
		}
	}
	return nil
}

// foreign is the error for an object of the wanted name that is somebody else's.
func foreign(what string, o, sb object) error {
	switch ref := controller(o); {
	case ref == nil:
		return fmt.Errorf("cannot adopt unowned %s %q: missing required pool authorization label (%q) or sandbox tracking label (%q)",
			what, name(o), "agents.x-k8s.io/adoptable", nameHashLabel)
	case text(ref, "uid") != uid(sb):
		return fmt.Errorf("%s %q is owned by %s/%s (UID: %s), not by sandbox %q", what, name(o), text(ref, "kind"), text(ref, "name"), text(ref, "uid"), name(sb))
	}
	return nil
}

// reconcileSandboxPod returns the sandbox's pod, also one that is going away.
func (w *world) reconcileSandboxPod(sb object) (object, error) {
	pod := w.get(pods, placeOf(sb))
	if pod != nil {
		if err := foreign("pod", pod, sb); err != nil {
			return nil, err
		}
	}
	noted := func(value string) {
		w.edit(sandboxes, w.get(sandboxes, placeOf(sb)), func(sb object) { annotate(sb, podNameNote, value) })
	}
	if text(sb, "spec", "operatingMode") == "Suspended" {
		if pod == nil {
			noted("")
			return nil, nil
		}
		w.remove(pods, pod, "")
		return w.get(pods, placeOf(pod)), nil
	}
	if pod == nil {
		var f *failure
		if pod, f = w.create(pods, buildPod(sb)); f != nil {
			noted("")
			return nil, errors.New(f.message)
		}
	} else if wait := time.Until(w.dress[uid(sb)]); wait > 0 {
		w.after(wait, sandboxTask, placeOf(sb))
	} else {
		delete(w.dress, uid(sb))
		pod = w.edit(pods, pod, func(pod object) { redress(pod, sb) })
	}
	noted(name(pod))
	return pod, nil
}
