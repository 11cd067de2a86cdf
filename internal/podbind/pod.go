package podbind

import (
	"maps"
	"slices"
	"strings"

	"github.com/sandlot-go/sandlot/k8s"
)

// A Pod is the one live pod behind a Sandbox.
type Pod struct {
	Name   string
	UID    string // also the token of the guest agent in it
	IP     string // "" until the network gave it one
	Labels map[string]string
	Object k8s.Object
}

// Live reports whether pod may still be used: it has a uid, is not being
// deleted and has not ended.
func Live(pod k8s.Object) bool {
	phase := pod.Text("status", "phase")
	return pod.UID() != "" && !pod.Deleting() && phase != "Succeeded" && phase != "Failed"
}

// IP returns the pod's address, "" while it has none.
func IP(pod k8s.Object) string {
	if ip := pod.Text("status", "podIP"); ip != "" {
		return ip
	}
	for _, v := range pod.List("status", "podIPs") {
		entry, _ := v.(map[string]any)
		if ip := k8s.Object(entry).Text("ip"); ip != "" {
			return ip
		}
	}
	return ""
}

func podOf(o k8s.Object) Pod {
	return Pod{Name: o.Name(), UID: o.UID(), IP: IP(o), Labels: o.Labels(), Object: o}
}

// belongs reports whether pod can be the Sandbox's: it has no controller, or
// that Sandbox is it.
func belongs(pod k8s.Object, sandbox string) bool {
	for _, v := range pod.List("metadata", "ownerReferences") {
		entry, _ := v.(map[string]any)
		ref := k8s.Object(entry)
		if is, _ := ref.Bool("controller"); is {
			return ref.Text("kind") == "Sandbox" && ref.Text("name") == sandbox
		}
	}
	return true
}

// MissingLabel returns the first label of want, in the order of the keys, that
// have lacks or has another value for.
func MissingLabel(have, want map[string]string) (key, value string, missing bool) {
	for k, v := range want {
		if got, ok := have[k]; (!ok || got != v) && (!missing || k < key) {
			key, value, missing = k, v, true
		}
	}
	return key, value, missing
}

// AdoptedLabels returns the labels that a pod has once the controller has made it
// a claim's: it takes those of the pool away, some time after the claim is
// Ready. See "a claim at a warm pool" in docs/cluster.md.
func AdoptedLabels(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	delete(out, "agents.x-k8s.io/warm-pool-sandbox")
	delete(out, "agents.x-k8s.io/created-by")
	return out
}

// FormatLabels writes labels as a selector would, sorted.
func FormatLabels(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for k, v := range labels {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
