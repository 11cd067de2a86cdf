package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Get is an administrator's view of an object in the cluster's namespace, or of
// a cluster-scoped one; nil if there is none. The copy's numbers are int64 and
// float64.
func (c *Cluster) Get(resource, name string) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := byPlural(resource)
	if r == nil {
		return nil
	}
	if o := c.world.get(r, c.placeIn(r, nil, name)); o != nil {
		return clone(o)
	}
	return nil
}

// List is Get of all of a kind, by name.
func (c *Cluster) List(resource string) []map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := byPlural(resource)
	if r == nil {
		return nil
	}
	var out []map[string]any
	ns := c.cfg.Namespace
	if r.cluster {
		ns = ""
	}
	for _, o := range c.world.all(r, ns) {
		out = append(out, clone(o))
	}
	return out
}

// placeIn is where an administrator's object is.
func (c *Cluster) placeIn(r *resource, o object, name string) place {
	switch {
	case r.cluster:
		return place{"", name}
	case namespace(o) != "":
		return place{namespace(o), name}
	}
	return place{c.cfg.Namespace, name}
}

// Apply creates an object or replaces one, as an administrator would: without
// faults and without an entry in the log. It is validated like anybody's.
func (c *Cluster) Apply(resource string, o map[string]any) error {
	r := byPlural(resource)
	if r == nil {
		return fmt.Errorf("sim: resource %q is not modelled", resource)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apply(r, o)
}

func (c *Cluster) apply(r *resource, o map[string]any) error {
	next, err := normal(o)
	if err != nil {
		return fmt.Errorf("sim: %s: %w", r.plural, err)
	}
	p := c.placeIn(r, next, name(next))
	if meta := need(next, "metadata"); !r.cluster {
		meta["namespace"] = p.namespace
	}
	setDefault(next, "apiVersion", r.apiVersion())
	setDefault(next, "kind", r.kind)
	old := c.world.get(r, p)
	if _, f := c.world.admit(r, next, true); f != nil {
		return fmt.Errorf("sim: apply %s %s: %s", r.plural, p, f.message)
	}
	switch r {
	case policies:
		normalPolicy(need(next, "spec"))
	case pods:
		defaultPodSpec(need(next, "spec"))
		setDefault(next, "status", object{"phase": "Pending", "qosClass": qosClass(sub(next, "spec"))})
	}
	if old == nil {
		if _, f := c.world.create(r, next); f != nil {
			return fmt.Errorf("sim: apply %s %s: %s", r.plural, p, f.message)
		}
		return nil
	}
	meta := need(next, "metadata")
	for _, k := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers"} {
		if v := at(old, "metadata", k); v != nil && meta[k] == nil {
			meta[k] = deepCopy(v)
		}
	}
	if old["status"] != nil && next["status"] == nil {
		next["status"] = deepCopy(old["status"])
	}
	c.world.update(r, old, next)
	return nil
}

// Patch merges into an object, its status included, as an administrator would.
func (c *Cluster) Patch(resource, name string, merge map[string]any) error {
	r := byPlural(resource)
	if r == nil {
		return fmt.Errorf("sim: resource %q is not modelled", resource)
	}
	patch, err := normal(merge)
	if err != nil {
		return fmt.Errorf("sim: patch %s %s: %w", resource, name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.world.get(r, c.placeIn(r, nil, name))
	if old == nil {
		return fmt.Errorf("sim: patch %s: %s", resource, notFound(r, name).message)
	}
	next, _ := mergePatch(clone(old), patch).(object)
	if _, f := c.world.admit(r, next, true); f != nil {
		return fmt.Errorf("sim: patch %s %s: %s", resource, name, f.message)
	}
	c.world.update(r, old, next)
	return nil
}

// Delete deletes an object as an administrator would.
func (c *Cluster) Delete(resource, name string) error {
	r := byPlural(resource)
	if r == nil {
		return fmt.Errorf("sim: resource %q is not modelled", resource)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.world.get(r, c.placeIn(r, nil, name))
	if o == nil {
		return fmt.Errorf("sim: delete %s: %s", resource, notFound(r, name).message)
	}
	c.world.delete(r, o, deletion{})
	return nil
}

// Pause stops the agent-sandbox controller; the API server, the garbage
// collector and the pods go on.
func (c *Cluster) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world.paused = true
}

// Resume has the controller go on, with all that has come up meanwhile.
func (c *Cluster) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world.paused = false
	for _, t := range c.world.held {
		c.world.schedule(0, t)
	}
	c.world.held = nil
}

// Compact forgets the past: continue tokens are answered 410, and so are
// watches from a resource version before now.
func (c *Cluster) Compact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world.changes, c.world.snapshots, c.world.floor = nil, nil, c.world.version
}

// WaitReady waits until every pool is as full as it is meant to be. It fails at
// once when the guest of a pod could not be started.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for {
		c.mu.Lock()
		missing, broken := c.world.missing(), c.world.broken()
		changed := c.world.changed
		c.mu.Unlock()
		switch {
		case len(missing) == 0:
			return nil
		case broken != "":
			return fmt.Errorf("sim: a guest could not be started: %s", broken)
		}
		select {
		case <-changed:
		case <-c.done:
			return fmt.Errorf("sim: the cluster is closed")
		case <-ctx.Done():
			return fmt.Errorf("sim: pools are not full (%v): %w", missing, context.Cause(ctx))
		}
	}
}

// missing says which pools lack how many members.
func (w *world) missing() []string {
	short := make(map[string]string)
	for _, pool := range w.all(pools, "") {
		want, ready := number(pool, "spec", "replicas"), number(pool, "status", "readyReplicas")
		if ready < want || number(pool, "status", "observedGeneration") < generation(pool) {
			short[placeOf(pool).String()] = fmt.Sprintf("%s: %d of %d", placeOf(pool), ready, want)
		}
	}
	return slices.Sorted(maps.Values(short))
}

// broken says why a guest could not be started, if one could not.
func (w *world) broken() string {
	for _, s := range w.pods {
		if s.broken != "" {
			return s.broken
		}
	}
	return ""
}
