package sim

import (
	"os"
	"path/filepath"
	"time"
)

const diskProtection = "kubernetes.io/pvc-protection"

// diskOf is the uid of the volume claim that is the pod's workspace, or "".
func (w *world) diskOf(pod object) string {
	for _, v := range items(pod, "spec", "volumes") {
		if n := text(v, "persistentVolumeClaim", "claimName"); n != "" {
			if disk := w.get(disks, place{namespace(pod), n}); disk != nil {
				return uid(disk)
			}
		}
	}
	return ""
}

// reconcileDisk binds a volume claim, and lets go of a deleted one that no pod
// uses.
func (w *world) reconcileDisk(p place) {
	disk := w.get(disks, p)
	if disk == nil {
		return
	}
	if !dying(disk) {
		w.setStatus(disks, disk, object{"phase": "Bound", "accessModes": at(disk, "spec", "accessModes"), "capacity": at(disk, "spec", "resources", "requests")})
		return
	}
	for _, pod := range w.all(pods, p.namespace) {
		for _, v := range items(pod, "spec", "volumes") {
			if text(v, "persistentVolumeClaim", "claimName") == p.name {
				w.after(50*time.Millisecond, diskTask, p)
				return
			}
		}
	}
	w.finalize(disks, disk, diskProtection)
	id := uid(disk)
	w.cluster.spawn(func() { os.RemoveAll(filepath.Join(w.cluster.root, "disks", id)) })
}
