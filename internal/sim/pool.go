package sim

import (
	"encoding/json"
	"slices"
	"strings"
)

// reconcilePool keeps the pool at its size.
func (w *world) reconcilePool(p place) {
	pool := w.get(pools, p)
	if pool == nil || dying(pool) {
		return
	}
	template := w.get(templates, place{p.namespace, text(pool, "spec", "sandboxTemplateRef", "name")})
	var members []object
	ready, ending := int64(0), int64(0)
	for _, sb := range w.children(sandboxes, p.namespace, uid(pool)) {
		if dying(sb) {
			ending++
			continue
		}
		if isTrue(sb, "Ready") {
			ready++
		}
		members = append(members, sb)
	}
	want, ok := integer(at(pool, "spec", "replicas"))
	if !ok {
		want = 1
	}
	have := int64(len(members))
	for ; template != nil && have+ending < want; have++ {
		w.createCustom(sandboxes, member(pool, template))
	}
	if have > want {
		slices.SortStableFunc(members, func(a, b object) int { // the unready and the youngest go first
			if ra, rb := isTrue(a, "Ready"), isTrue(b, "Ready"); ra != rb {
				return map[bool]int{true: 1, false: -1}[ra]
			}
			return strings.Compare(text(b, "metadata", "creationTimestamp"), text(a, "metadata", "creationTimestamp"))
		})
		for _, sb := range members[:have-want] {
			w.remove(sandboxes, sb, "")
		}
	}
	w.setStatus(pools, pool, object{
		"observedGeneration": generation(pool), "replicas": int64(len(members)), "readyReplicas": ready,
		"selector": poolLabel + "=" + hash(name(pool)),
	})
}

// hashOf stands for the controller's hash of a Go value: its values differ.
func hashOf(v any) string {
	data, err := json.Marshal(v)
	must(err)
	return hash(string(data))
}

// member is a new sandbox of a pool.
func member(pool, template object) object {
	spec := blueprint(template)
	hashes := map[string]string{
		poolLabel:         hash(name(pool)),
		templateHashLabel: hash(name(template)),
		podTemplateLabel:  hashOf(spec["podTemplate"]),
		blueprintLabel:    hashOf(spec),
	}
	set := need(spec, "podTemplate", "metadata", "labels")
	for k, v := range hashes {
		set[k] = v
	}
	if notes := need(spec, "podTemplate", "metadata", "annotations"); notes[evictNote] == nil {
		notes[evictNote] = "true"
	}
	secure(template, need(spec, "podTemplate", "spec"))
	hashes[launchLabel], hashes[createdByLabel] = "warm", "controller"
	sb := object{
		"metadata": object{
			"generateName": name(pool) + "-", "namespace": namespace(pool),
			"labels": untexts(hashes), "annotations": object{templateNote: name(template)},
		},
		"spec": spec,
	}
	own(sb, pool)
	return sb
}

// reconcileTemplate labels the template and keeps its network policy.
func (w *world) reconcileTemplate(p place) {
	t := w.get(templates, p)
	if t == nil || dying(t) {
		return
	}
	id := hash(name(t))
	t = w.edit(templates, t, func(t object) { need(t, "metadata", "labels")[templateHashLabel] = id })
	at := place{p.namespace, p.name + "-network-policy"}
	have := w.get(policies, at)
	if text(t, "spec", "networkPolicyManagement") == "Unmanaged" {
		if have != nil && ownedBy(have, uid(t)) {
			w.remove(policies, have, "")
		}
		return
	}
	spec := defaultPolicy()
	if own := sub(t, "spec", "networkPolicy"); own != nil {
		spec = clone(own)
	}
	spec["podSelector"] = object{"matchLabels": object{templateHashLabel: id}}
	spec["policyTypes"] = list{"Ingress", "Egress"}
	normalPolicy(spec)
	switch {
	case have == nil:
		o := object{"metadata": object{"name": at.name, "namespace": at.namespace}, "spec": spec}
		own(o, t)
		w.create(policies, o)
	case ownedBy(have, uid(t)):
		w.edit(policies, have, func(o object) { o["spec"] = spec })
	}
}

// normalPolicy makes a policy spec look as the API server gives it back.
func normalPolicy(spec object) {
	for _, side := range []string{"ingress", "egress"} {
		rules := items(spec, side)
		if len(rules) == 0 {
			delete(spec, side)
		}
		for _, r := range rules {
			rule, ok := r.(object)
			if !ok {
				continue
			}
			for _, k := range []string{"ports", "from", "to"} {
				if len(items(rule, k)) == 0 {
					delete(rule, k)
				}
			}
			for _, p := range items(rule, "ports") {
				if p, ok := p.(object); ok && p["protocol"] == nil {
					p["protocol"] = "TCP"
				}
			}
		}
	}
}

// defaultPolicy is what a template without a block of its own gets.
func defaultPolicy() object {
	return object{
		"ingress": list{object{"from": list{object{
			"namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": "agent-sandbox-system"}},
			"podSelector":       object{"matchLabels": object{"app": "sandbox-router"}},
		}}}},
		"egress": list{object{"to": list{
			object{"ipBlock": object{"cidr": "0.0.0.0/0", "except": list{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"}}},
			object{"ipBlock": object{"cidr": "::/0", "except": list{"fc00::/7", "fe80::/10"}}},
		}}},
	}
}
