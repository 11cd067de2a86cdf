package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// bind finds the claim's sandbox, takes one from the pool, or makes one.
func (w *world) bind(claim object) (object, error) {
	if err := w.checkClaimMetadata(claim); err != nil {
		return nil, err
	}
	sb, err := w.bound(claim)
	claim = w.get(claims, placeOf(claim))
	if err == nil && sb == nil && len(items(claim, "spec", "env"))+len(items(claim, "spec", "volumeClaimTemplates")) == 0 {
		sb, err = w.adopt(claim)
		claim = w.get(claims, placeOf(claim))
	}
	if err != nil {
		return nil, err
	}
	template, missing := w.templateOf(claim)
	switch {
	case sb == nil && missing != nil:
		return nil, missing
	case sb == nil:
		return w.coldStart(claim, template)
	case missing != nil:
		if len(sub(claim, "spec", "additionalPodMetadata", "labels"))+len(sub(claim, "spec", "additionalPodMetadata", "annotations")) > 0 {
			return nil, fmt.Errorf("failed to get template for metadata propagation: %w", missing)
		}
		return sb, nil
	}
	next := clone(sb)
	if err := dressSandbox(next, claim, template); err != nil {
		return nil, err
	}
	return w.update(sandboxes, sb, next), nil
}

// bound is the sandbox that the claim has: by its status, its note or its name.
func (w *world) bound(claim object) (object, error) {
	ns, id := namespace(claim), uid(claim)
	if n := text(claim, "status", "sandbox", "name"); n != "" {
		if sb := w.get(sandboxes, place{ns, n}); sb != nil && ownedBy(sb, id) {
			return sb, nil
		}
	}
	if n := note(claim, assignedNote); n != "" {
		sb := w.get(sandboxes, place{ns, n})
		if sb != nil && ownedBy(sb, id) {
			return sb, nil
		}
		if sb != nil && adoptable(claim, sb) {
			sb, err := w.transfer(claim, sb)
			if err != nil {
				err = fmt.Errorf("failed to complete adoption of %q: %w", n, err)
			}
			return sb, err
		}
		w.edit(claims, claim, func(c object) { annotate(c, assignedNote, "") })
	}
	sb := w.get(sandboxes, placeOf(claim))
	if sb != nil && !ownedBy(sb, id) {
		return nil, fmt.Errorf("sandbox %q is not controlled by claim %q. Please use a different claim name or delete the sandbox manually", name(sb), name(claim))
	}
	return sb, nil
}

func poolOf(claim object) string { return text(claim, "spec", "warmPoolRef", "name") }

// adoptable reports whether a sandbox is a living member of the claim's pool.
func adoptable(claim, sb object) bool {
	ref := controller(sb)
	return !dying(sb) && text(ref, "kind") == pools.kind && text(ref, "name") == poolOf(claim) && labels(sb)[poolLabel] != ""
}

// candidate is a Ready member, else one with an address; the oldest first.
func (w *world) candidate(claim object) (best object, pending int) {
	members := w.where(sandboxes, namespace(claim), func(sb object) bool { return adoptable(claim, sb) })
	slices.SortStableFunc(members, func(a, b object) int {
		return strings.Compare(text(a, "metadata", "creationTimestamp"), text(b, "metadata", "creationTimestamp"))
	})
	for _, sb := range members {
		switch {
		case len(items(sb, "status", "podIPs")) == 0:
			pending++
		case best == nil || !isTrue(best, "Ready") && isTrue(sb, "Ready"):
			best = sb
		}
	}
	return best, pending
}

func (w *world) adopt(claim object) (object, error) {
	sb, pending := w.candidate(claim)
	if sb == nil {
		if pending > 0 && w.claimAge(claim) < memberGrace {
			return nil, errWaiting
		}
		return nil, nil
	}
	// The controller writes the whole typed claim here, which cuts the stamp to
	// seconds and leaves an empty additionalPodMetadata behind.
	claim = w.edit(claims, claim, func(c object) {
		annotate(c, assignedNote, name(sb))
		need(c, "spec", "additionalPodMetadata")
		if t, err := time.Parse(time.RFC3339, text(c, "spec", "lifecycle", "shutdownTime")); err == nil {
			need(c, "spec", "lifecycle")["shutdownTime"] = t.UTC().Format(time.RFC3339)
		}
	})
	return w.transfer(claim, sb)
}

// transfer makes a pool member the claim's.
func (w *world) transfer(claim, sb object) (object, error) {
	next := clone(sb)
	own(next, claim)
	set := need(next, "metadata", "labels")
	for _, l := range []string{poolLabel, podTemplateLabel, blueprintLabel, createdByLabel} {
		delete(set, l)
	}
	set[launchLabel], set[claimLabel] = "warm", uid(claim)
	if by := labels(claim)[createdByLabel]; by != "" {
		set[createdByLabel] = by
	}
	annotate(next, podNameNote, name(sb))
	if template, err := w.templateOf(claim); err == nil {
		if err := dressSandbox(next, claim, template); err != nil {
			return nil, err
		}
	} else {
		meta := need(next, "spec", "podTemplate", "metadata")
		need(meta, "labels")[claimLabel] = uid(claim)
		if err := addMetadata(meta, claim); err != nil {
			return nil, err
		}
	}
	w.dress[uid(sb)] = time.Now().Add(w.cfg.LabelDelay)
	w.after(w.cfg.LabelDelay, sandboxTask, placeOf(sb))
	return w.update(sandboxes, sb, next), nil
}

// dressSandbox gives a sandbox the labels that it has as this claim's.
func dressSandbox(sb, claim, template object) error {
	meta := fresh(sub(template, "spec", "podTemplate", "metadata"))
	set := need(meta, "labels")
	set[claimLabel], set[templateHashLabel] = uid(claim), hash(name(template))
	mine := need(sb, "metadata", "labels")
	mine[templateHashLabel] = hash(name(template))
	if by := labels(claim)[createdByLabel]; by != "" {
		set[createdByLabel], mine[createdByLabel] = by, by
	} else {
		delete(set, createdByLabel)
		delete(mine, createdByLabel)
	}
	if err := addMetadata(meta, claim); err != nil {
		return err
	}
	need(sb, "spec", "podTemplate")["metadata"] = meta
	return nil
}

// addMetadata adds the claim's labels and annotations to a pod template's
// metadata.
func addMetadata(meta, claim object) error {
	for _, kind := range []string{"label", "annotation"} {
		wanted := sub(claim, "spec", "additionalPodMetadata", kind+"s")
		for _, k := range slices.Sorted(maps.Keys(wanted)) {
			set := need(meta, kind+"s")
			if have, ok := set[k]; ok && have != wanted[k] {
				return fmt.Errorf("metadata override conflict: %s %q is defined in template with value %q, but claim requests %q", kind, k, have, wanted[k])
			}
			set[k] = wanted[k]
		}
	}
	return nil
}

// templateOf is the template of the claim's pool; its errors are refusals.
func (w *world) templateOf(claim object) (object, error) {
	pool := w.get(pools, place{namespace(claim), poolOf(claim)})
	if pool == nil {
		return nil, &refusal{"WarmPoolNotFound", fmt.Sprintf("SandboxWarmPool %q not found", poolOf(claim))}
	}
	n := text(pool, "spec", "sandboxTemplateRef", "name")
	template := w.get(templates, place{namespace(claim), n})
	if template == nil {
		return nil, &refusal{"TemplateNotFound", fmt.Sprintf("SandboxTemplate %q not found", n)}
	}
	return template, nil
}
