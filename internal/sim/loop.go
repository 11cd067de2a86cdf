package sim

import "time"

const (
	// reaction is how long the controllers take to answer a change: from the
	// write to the watch event to what follows from it.
	reaction = 10 * time.Millisecond

	// What a failed look at an object waits before the next.
	firstRetry, lastRetry = 5 * time.Millisecond, 10 * time.Second
)

// after puts a task on the agenda.
func (w *world) after(d time.Duration, kind string, p place) {
	w.schedule(d, task{kind: kind, place: p})
}

func (w *world) schedule(d time.Duration, t task) {
	if w.tasks.add(t, time.Now().Add(max(d, 0))) {
		w.cluster.wake()
	}
}

// retry puts a task on the agenda again, later each time.
func (w *world) retry(t task) {
	w.schedule(min(firstRetry<<min(w.retries[t], 20), lastRetry), t)
	w.retries[t]++
}

// run works off at most limit tasks that are due and returns the time until the
// next one; ok is false when there is none.
func (w *world) run(limit int) (wait time.Duration, ok bool) {
	for ; ; limit-- {
		e, found := w.tasks.next()
		if !found {
			return 0, false
		}
		if wait := time.Until(e.at); wait > 0 {
			return wait, true
		}
		if limit == 0 {
			return 0, true
		}
		w.tasks.take(e.task)
		if w.paused && e.task.ofController() {
			w.held = append(w.held, e.task)
		} else {
			w.do(e.task)
		}
	}
}

func (w *world) do(t task) {
	switch t.kind {
	case observeTask:
		w.observeClaim(t.place)
	case claimTask:
		w.reconcileClaim(t)
	case readyTask:
		w.noteReady(t.place)
	case sandboxTask:
		w.reconcileSandbox(t)
	case poolTask:
		w.reconcilePool(t.place)
	case templateTask:
		w.reconcileTemplate(t.place)
	case podTask:
		w.reconcilePod(t.place)
	case diskTask:
		w.reconcileDisk(t.place)
	case collectTask:
		if o := w.get(t.resource, t.place); o != nil {
			w.collect(t.resource, o)
		}
	}
}

// notice turns a change into the tasks that follow from it.
func (w *world) notice(r *resource, old, now object) {
	o := now
	if o == nil {
		o = old
	}
	p := placeOf(o)
	switch r {
	case claims:
		w.noticeClaim(p, old, now)
	case sandboxes:
		w.noticeSandbox(p, old, now)
	case pools:
		w.after(reaction, poolTask, p)
		if old == nil || now == nil || generation(old) != generation(now) {
			w.wakeWaiting(p)
		}
	case templates:
		w.after(reaction, templateTask, p)
		for _, pool := range w.all(pools, p.namespace) {
			if text(pool, "spec", "sandboxTemplateRef", "name") == p.name {
				w.after(reaction, poolTask, placeOf(pool))
				if old == nil {
					w.wakeWaiting(placeOf(pool))
				}
			}
		}
	case pods:
		w.noticePod(p, old, now)
	case services, policies:
		w.wakeOwner(o)
		w.publish()
	case disks:
		w.after(0, diskTask, p)
	}
	w.noticeGarbage(r, p, old, now)
}

func (w *world) noticeClaim(p place, old, now object) {
	switch {
	case old == nil:
		w.births[uid(now)] = time.Now().Add(w.cfg.Bind)
		w.after(w.cfg.Bind/6, observeTask, p)
		w.after(w.cfg.Bind, claimTask, p)
	case now == nil:
		delete(w.births, uid(old))
	default:
		w.after(reaction, claimTask, p)
	}
}

func (w *world) noticeSandbox(p place, old, now object) {
	switch {
	case now == nil:
		delete(w.births, uid(old))
		delete(w.dress, uid(old))
	case old == nil && controller(now) == nil:
		w.births[uid(now)] = time.Now().Add(w.cfg.Bind)
		w.after(w.cfg.Bind, sandboxTask, p)
	default:
		w.after(reaction, sandboxTask, p)
	}
	w.wakeOwner(old)
	w.wakeOwner(now)
	if (old == nil || now == nil) && w.get(claims, p) != nil { // a claim of its name may wait for it, or for its end
		w.after(reaction, claimTask, p)
	}
	if now != nil && labels(now)[poolLabel] != "" && len(items(now, "status", "podIPs")) > 0 && len(items(old, "status", "podIPs")) == 0 {
		w.wakeWaiting(place{p.namespace, text(controller(now), "name")})
	}
}

func (w *world) noticePod(p place, old, now object) {
	if now == nil {
		w.forget(old)
		w.wakeOwner(old)
		w.after(reaction, sandboxTask, p) // a sandbox of its name may wait for its end
	} else {
		w.after(0, podTask, p)
		w.wakeOwner(now)
	}
	w.publish()
}

// wakeOwner has the controller of an object look at the owner.
func (w *world) wakeOwner(o object) {
	ref := controller(o)
	p := place{namespace(o), text(ref, "name")}
	switch text(ref, "kind") {
	case claims.kind:
		w.after(reaction, claimTask, p)
	case pools.kind:
		w.after(reaction, poolTask, p)
	case sandboxes.kind:
		w.after(reaction, sandboxTask, p)
	case templates.kind:
		w.after(reaction, templateTask, p)
	}
}

// wakeWaiting has the claims looked at that wait for something of a pool.
func (w *world) wakeWaiting(pool place) {
	for _, c := range w.all(claims, pool.namespace) {
		if text(c, "spec", "warmPoolRef", "name") == pool.name && text(c, "status", "sandbox", "name") == "" {
			w.after(reaction, claimTask, placeOf(c))
		}
	}
}

func (w *world) noticeGarbage(r *resource, p place, old, now object) {
	if now == nil {
		for _, d := range w.dependents(p.namespace, uid(old)) {
			w.schedule(reaction, task{collectTask, d.resource, placeOf(d.object)})
		}
	} else if dying(now) || old == nil && len(items(now, "metadata", "ownerReferences")) > 0 {
		w.schedule(reaction, task{collectTask, r, p})
	}
	if now == nil || dying(now) {
		o := now
		if o == nil {
			o = old
		}
		for _, ref := range items(o, "metadata", "ownerReferences") {
			if owner := referenced(ref); owner != nil {
				w.schedule(reaction, task{collectTask, owner, place{p.namespace, text(ref, "name")}})
			}
		}
	}
}
