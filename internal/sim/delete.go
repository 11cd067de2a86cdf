package sim

import (
	"fmt"
	"slices"
	"time"
)

const (
	foreground = "foregroundDeletion"
	orphan     = "orphan"
)

// deletion are the options of a DELETE.
type deletion struct {
	uid, resourceVersion string
	propagation          string // "", Background, Foreground or Orphan
	grace                *int64
	dryRun               bool
}

// delete begins or ends an object's life. What it returns is the object if it is
// still there, and nil with a nil failure if it is gone.
func (w *world) delete(r *resource, o object, d deletion) (object, *failure) {
	where := details(r, name(o), r.kind)
	if d.uid != "" && d.uid != uid(o) {
		return nil, conflict(r.qualifiedKind(), where, name(o), fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", d.uid, uid(o)))
	}
	if have := text(o, "metadata", "resourceVersion"); d.resourceVersion != "" && d.resourceVersion != have {
		return nil, conflict(r.qualifiedKind(), where, name(o), fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", d.resourceVersion, have))
	}
	if d.dryRun {
		return nil, nil
	}
	next := clone(o)
	meta := need(next, "metadata")
	mark := map[string]string{"Foreground": foreground, "Orphan": orphan}[d.propagation]
	if mark != "" && !has(o, mark) {
		meta["finalizers"] = append(items(meta, "finalizers"), mark)
	}
	grace := int64(0)
	if r == pods {
		grace = number(o, "spec", "terminationGracePeriodSeconds")
		if d.grace != nil {
			grace = *d.grace
		}
	}
	waits := len(items(meta, "finalizers")) > 0 || r == pods && grace > 0
	if !waits {
		w.record(r, o, nil)
		return nil, nil
	}
	if !dying(o) {
		meta["deletionTimestamp"] = w.now().Add(time.Duration(grace) * time.Second).UTC().Format(time.RFC3339)
		meta["deletionGracePeriodSeconds"] = grace
		if r.generation {
			meta["generation"] = generation(o) + 1
		}
	}
	if equal(o, next) {
		return o, nil
	}
	return w.record(r, o, next), nil
}

// remove is what a controller does: the very object, if it is not already on
// its way.
func (w *world) remove(r *resource, o object, propagation string) {
	if have := w.get(r, placeOf(o)); have != nil && uid(have) == uid(o) && !dying(have) {
		w.delete(r, have, deletion{propagation: propagation})
	}
}

// A dependent is an object that names another as an owner.
type dependent struct {
	resource *resource
	object   object
}

func (w *world) dependents(ns, id string) (out []dependent) {
	for _, r := range collected {
		for _, o := range w.where(r, ns, func(o object) bool {
			return slices.ContainsFunc(items(o, "metadata", "ownerReferences"), func(ref any) bool { return text(ref, "uid") == id })
		}) {
			out = append(out, dependent{r, o})
		}
	}
	return out
}

// collect is the garbage collector's look at one object: it goes when all its
// owners are gone, and the finalizers of foreground and orphaning deletion are
// served.
func (w *world) collect(r *resource, o object) {
	switch {
	case dying(o) && has(o, foreground):
		w.collectForeground(r, o)
		return
	case dying(o) && has(o, orphan):
		for _, d := range w.dependents(namespace(o), uid(o)) {
			w.edit(d.resource, d.object, func(d object) {
				refs := slices.DeleteFunc(items(d, "metadata", "ownerReferences"), func(ref any) bool { return text(ref, "uid") == uid(o) })
				need(d, "metadata")["ownerReferences"] = refs
				if len(refs) == 0 {
					delete(need(d, "metadata"), "ownerReferences")
				}
			})
		}
		w.finalize(r, o, orphan)
		return
	case dying(o):
		return
	}
	refs := items(o, "metadata", "ownerReferences")
	if len(refs) == 0 {
		return
	}
	for _, ref := range refs {
		owner := referenced(ref)
		if owner == nil {
			return
		}
		if have := w.get(owner, place{namespace(o), text(ref, "name")}); have != nil && uid(have) == text(ref, "uid") {
			return
		}
	}
	w.remove(r, o, "Background")
}

// collectForeground deletes dependents first; the object goes when no blocking
// one is left.
func (w *world) collectForeground(r *resource, o object) {
	blocked := false
	for _, d := range w.dependents(namespace(o), uid(o)) {
		for _, ref := range items(d.object, "metadata", "ownerReferences") {
			blocked = blocked || text(ref, "uid") == uid(o) && at(ref, "blockOwnerDeletion") == true
		}
		propagation := ""
		if len(w.dependents(namespace(o), uid(d.object))) > 0 {
			propagation = "Foreground"
		}
		w.remove(d.resource, d.object, propagation)
	}
	if !blocked {
		w.finalize(r, o, foreground)
	}
}

// finalize takes a finalizer away, if the object is still there.
func (w *world) finalize(r *resource, o object, finalizer string) {
	have := w.get(r, placeOf(o))
	if have == nil || uid(have) != uid(o) {
		return
	}
	w.edit(r, have, func(o object) {
		left := slices.DeleteFunc(items(o, "metadata", "finalizers"), func(f any) bool { return f == finalizer })
		need(o, "metadata")["finalizers"] = left
		if len(left) == 0 {
			delete(need(o, "metadata"), "finalizers")
		}
	})
}
