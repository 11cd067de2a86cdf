package sim

import (
	"maps"
	"slices"
	"strings"
)

// podMetadata is what a sandbox gives its pod, reserved keys left out.
func podMetadata(sb object) (set, notes map[string]string) {
	set = texts(sub(sb, "spec", "podTemplate", "metadata", "labels"))
	notes = texts(sub(sb, "spec", "podTemplate", "metadata", "annotations"))
	maps.DeleteFunc(set, func(k, _ string) bool { return reserved(k) })
	maps.DeleteFunc(notes, func(k, _ string) bool { return reserved(k) })
	return set, notes
}

// systemLabels are those that the controller itself keeps on the pod; "" is
// absent.
func systemLabels(sb object) map[string]string {
	l := map[string]string{nameHashLabel: hash(name(sb)), poolLabel: "", templateHashLabel: "", createdByLabel: ""}
	if ref := controller(sb); strings.HasPrefix(text(ref, "apiVersion"), extensionGroup+"/") {
		l[templateHashLabel] = labels(sb)[templateHashLabel]
		if text(ref, "kind") == pools.kind {
			l[poolLabel] = labels(sb)[poolLabel]
		}
	}
	if by := labels(sb)[createdByLabel]; by != "" {
		if !slices.Contains([]string{"go-client", "python-client", "controller"}, by) {
			by = "unknown"
		}
		l[createdByLabel] = by
	}
	return l
}

func joined(m map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ",") }

func buildPod(sb object) object {
	set, notes := podMetadata(sb)
	propagated, propagatedNotes := joined(set), joined(notes)
	for k, v := range systemLabels(sb) {
		if v != "" {
			set[k] = v
		}
	}
	for k, v := range map[string]string{labelsNote: propagated, annotationsNote: propagatedNotes} {
		if v != "" {
			notes[k] = v
		}
	}
	meta := object{"name": name(sb), "namespace": namespace(sb), "labels": untexts(set)}
	if len(notes) > 0 {
		meta["annotations"] = untexts(notes)
	}
	spec := fresh(sub(sb, "spec", "podTemplate", "spec"))
	claimed := make(map[string]bool)
	var added list
	for _, t := range items(sb, "spec", "volumeClaimTemplates") {
		n := text(t, "metadata", "name")
		claimed[n] = true
		added = append(added, object{"name": n, "persistentVolumeClaim": object{"claimName": n + "-" + name(sb)}})
	}
	volumes := slices.DeleteFunc(items(spec, "volumes"), func(v any) bool { return claimed[text(v, "name")] })
	if volumes = append(volumes, added...); len(volumes) > 0 {
		spec["volumes"] = volumes
	}
	defaultPodSpec(spec)
	pod := object{"metadata": meta, "spec": spec, "status": object{"phase": "Pending", "qosClass": qosClass(spec)}}
	own(pod, sb)
	return pod
}

// redress brings a standing pod's labels and annotations in line.
func redress(pod, sb object) {
	set, notes := podMetadata(sb)
	propagated, propagatedNotes := joined(set), joined(notes)
	have := need(pod, "metadata", "labels")
	changed := realign(have, set, note(pod, labelsNote))
	for k, v := range systemLabels(sb) {
		if v == "" && have[k] != nil {
			delete(have, k)
			changed = true
		} else if v != "" && have[k] != v {
			have[k] = v
			changed = true
		}
	}
	mine := need(pod, "metadata", "annotations")
	changed = realign(mine, notes, note(pod, annotationsNote)) || changed
	for k, v := range map[string]string{labelsNote: propagated, annotationsNote: propagatedNotes} {
		if old, ok := mine[k]; changed && !ok || ok && old != v || !ok && v != "" {
			mine[k] = v
		}
	}
	if len(mine) == 0 {
		delete(need(pod, "metadata"), "annotations")
	}
}

// realign sets what is wanted and takes away what was propagated before and is
// wanted no more.
func realign(have object, want map[string]string, before string) (changed bool) {
	for _, k := range strings.Split(before, ",") {
		if _, ok := want[k]; !ok && k != "" && !reserved(k) && have[k] != nil {
			delete(have, k)
			changed = true
		}
	}
	for k, v := range want {
		if have[k] != v {
			have[k] = v
			changed = true
		}
	}
	return changed
}

// defaultPodSpec fills in what the API server does.
func defaultPodSpec(spec object) {
	setDefault(spec, "restartPolicy", "Always")
	setDefault(spec, "terminationGracePeriodSeconds", int64(30))
	setDefault(spec, "dnsPolicy", "ClusterFirst")
	setDefault(spec, "serviceAccountName", "default")
	spec["serviceAccount"] = spec["serviceAccountName"]
	setDefault(spec, "securityContext", object{})
	setDefault(spec, "schedulerName", "default-scheduler")
	setDefault(spec, "priority", int64(0))
	setDefault(spec, "enableServiceLinks", true)
	setDefault(spec, "preemptionPolicy", "PreemptLowerPriority")
	tolerations := items(spec, "tolerations")
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		if !slices.ContainsFunc(tolerations, func(t any) bool {
			return text(t, "key") == key || text(t, "key") == "" && text(t, "operator") == "Exists"
		}) {
			tolerations = append(tolerations, object{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)})
		}
	}
	spec["tolerations"] = tolerations
	for _, kind := range []string{"initContainers", "containers"} {
		for _, c := range items(spec, kind) {
			defaultContainer(c.(object))
		}
	}
	if spec["automountServiceAccountToken"] != false {
		mountToken(spec)
	}
}

func setDefault(o object, key string, v any) {
	if o[key] == nil {
		o[key] = v
	}
}

func defaultContainer(c object) {
	setDefault(c, "resources", object{})
	setDefault(c, "terminationMessagePath", "/dev/termination-log")
	setDefault(c, "terminationMessagePolicy", "File")
	pull := "IfNotPresent"
	image := text(c, "image")
	if base := image[strings.LastIndex(image, "/")+1:]; strings.HasSuffix(base, ":latest") || !strings.ContainsAny(base, ":@") {
		pull = "Always"
	}
	setDefault(c, "imagePullPolicy", pull)
	for _, p := range items(c, "ports") {
		setDefault(p.(object), "protocol", "TCP")
	}
	for _, v := range items(c, "env") {
		if ref := sub(v, "valueFrom", "fieldRef"); ref != nil {
			setDefault(ref, "apiVersion", "v1")
		}
	}
	for _, p := range []string{"readinessProbe", "livenessProbe", "startupProbe"} {
		if probe := sub(c, p); probe != nil {
			for k, v := range map[string]int64{"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3} {
				setDefault(probe, k, v)
			}
		}
	}
}

// mountToken is what the service account admission plugin adds.
func mountToken(spec object) {
	volume := "kube-api-access-" + suffix()
	spec["volumes"] = append(items(spec, "volumes"), object{"name": volume, "projected": object{"defaultMode": int64(420), "sources": list{
		object{"serviceAccountToken": object{"expirationSeconds": int64(3607), "path": "token"}},
		object{"configMap": object{"name": "kube-root-ca.crt", "items": list{object{"key": "ca.crt", "path": "ca.crt"}}}},
		object{"downwardAPI": object{"items": list{object{"path": "namespace", "fieldRef": object{"apiVersion": "v1", "fieldPath": "metadata.namespace"}}}}},
	}}})
	for _, kind := range []string{"initContainers", "containers"} {
		for _, c := range items(spec, kind) {
			c := c.(object)
			c["volumeMounts"] = append(items(c, "volumeMounts"), object{"name": volume, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"})
		}
	}
}

// qosClass follows the containers' requests and limits.
func qosClass(spec object) string {
	some, guaranteed := false, true
	for _, kind := range []string{"initContainers", "containers"} {
		for _, c := range items(spec, kind) {
			limits, requests := sub(c, "resources", "limits"), sub(c, "resources", "requests")
			for _, k := range []string{"cpu", "memory"} {
				some = some || limits[k] != nil || requests[k] != nil
				guaranteed = guaranteed && limits[k] != nil && (requests[k] == nil || equal(requests[k], limits[k]))
			}
		}
	}
	switch {
	case !some:
		return "BestEffort"
	case guaranteed:
		return "Guaranteed"
	}
	return "Burstable"
}
