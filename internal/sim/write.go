package sim

import (
	"fmt"
	"net/http"
)

// patch answers PATCH, on an object or on its status.
func (c *Cluster) patch(k *call) answer {
	fail := func(f *failure) answer { return answer{failure: f} }
	if f := checkQuery(k.query, "fieldValidation", "fieldManager", "dryRun"); f != nil {
		return fail(f)
	}
	strict, warn, f := k.validation()
	if f != nil {
		return fail(f)
	}
	dry, f := k.dryRun()
	if f != nil {
		return fail(f)
	}
	apply, f := k.patcher()
	if f != nil {
		return fail(f)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w, r := c.world, k.resource
	old := w.get(r, place{k.namespace, k.name})
	if old == nil {
		return fail(notFound(r, k.name))
	}
	next, f := apply(clone(old))
	if f != nil {
		return fail(f)
	}
	whole := clone(next)
	unknown, f := w.admit(r, next, strict)
	switch {
	case f != nil && f.code == 0:
		return fail(invalid("", object{}, "", []cause{invalidValue("patch", quoted(string(marshal(whole))), f.message)}))
	case f != nil:
		return fail(f)
	}
	if f := k.checkUpdate(old, next); f != nil {
		return fail(f)
	}
	if warn {
		for _, path := range unknown {
			k.warned = append(k.warned, fmt.Sprintf("unknown field %q", path))
		}
	}
	next = k.separate(old, next)
	if dry {
		return answer{code: http.StatusOK, body: next}
	}
	return answer{code: http.StatusOK, body: w.update(r, old, next)}
}

// patcher reads the body and returns what it does to an object.
func (k *call) patcher() (func(object) (object, *failure), *failure) {
	if k.resource.readOnly {
		return nil, unmodelled("patching %s through the API", k.plural)
	}
	if k.name == "" {
		return nil, unmodelled("PATCH of a collection")
	}
	result := func(v any) (object, *failure) {
		o, ok := v.(object)
		if !ok || sub(o, "metadata") == nil {
			return nil, unmodelled("a patch that leaves no object with metadata")
		}
		return o, nil
	}
	switch k.kind {
	case "application/merge-patch+json":
		v, err := decode(k.body)
		patch, ok := v.(object)
		switch {
		case err != nil:
			return nil, badRequest("invalid JSON patch")
		case !ok:
			return nil, badRequest("error decoding patch: json: cannot unmarshal %s into Go value of type map[string]interface {}", jsonKind(v))
		}
		return func(o object) (object, *failure) { return result(mergePatch(o, patch)) }, nil
	case "application/json-patch+json":
		ops, err := parseJSONPatch(k.body)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		return func(o object) (object, *failure) {
			v, err := jsonPatch(o, ops)
			if err != nil {
				return nil, &failure{code: http.StatusUnprocessableEntity, reason: "Invalid", details: object{},
					message: "the server rejected our request due to an error in our request"}
			}
			return result(v)
		}, nil
	case "application/apply-patch+yaml", "application/apply-patch+cbor":
		return nil, unmodelled("server-side apply")
	}
	return nil, unsupportedMediaType("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
}

// checkUpdate refuses what an update may not change.
func (k *call) checkUpdate(old, next object) *failure {
	r := k.resource
	switch {
	case name(next) != name(old):
		return badRequest("the name of the object (%s) does not match the name on the URL (%s)", name(next), name(old))
	case namespace(next) != namespace(old):
		return badRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if have := text(old, "metadata", "resourceVersion"); text(next, "metadata", "resourceVersion") != have && at(next, "metadata", "resourceVersion") != nil {
		return conflict(r.qualified(), details(r, name(old), r.plural), name(old), "the object has been modified; please apply your changes to the latest version and try again")
	}
	var causes []cause
	for _, field := range []string{"uid", "creationTimestamp"} {
		if v := text(next, "metadata", field); v != "" && v != text(old, "metadata", field) {
			wrong := invalidValue("metadata."+field, quoted(v), "field is immutable")
			causes = append(causes, wrong, wrong) // the server checks it in two places
		}
	}
	if causes != nil {
		return invalid(r.qualifiedKind(), details(r, name(old), r.kind), name(old), causes)
	}
	if r == sandboxes && !equal(at(old, "spec", "volumeClaimTemplates"), at(next, "spec", "volumeClaimTemplates")) {
		return invalid(r.qualifiedKind(), details(r, name(old), r.kind), name(old), []cause{{"spec", "FieldValueInvalid", "Invalid value: volumeClaimTemplates is immutable"}})
	}
	return nil
}

// separate keeps status and the rest apart: each is changed in its own place
// only. What the server alone writes stays as it is.
func (k *call) separate(old, next object) object {
	if k.subresource == "status" {
		status, has := next["status"]
		next = clone(old)
		if has {
			next["status"] = status
		} else {
			delete(next, "status")
		}
		return next
	}
	if k.resource.status {
		if status, has := old["status"]; has {
			next["status"] = deepCopy(status)
		} else {
			delete(next, "status")
		}
	}
	meta := need(next, "metadata")
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		if v := at(old, "metadata", field); v != nil {
			meta[field] = v
		} else {
			delete(meta, field)
		}
	}
	next["apiVersion"], next["kind"] = old["apiVersion"], old["kind"]
	return next
}

// delete answers DELETE of one object.
func (c *Cluster) delete(k *call) answer {
	d, f := k.deletion()
	if f != nil {
		return answer{failure: f}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.world.get(k.resource, place{k.namespace, k.name})
	if o == nil {
		return answer{failure: notFound(k.resource, k.name)}
	}
	left, f := c.world.delete(k.resource, o, d)
	switch {
	case f != nil:
		return answer{failure: f}
	case left != nil:
		return answer{code: http.StatusOK, body: left}
	case k.resource == pods:
		last := clone(o)
		meta := need(last, "metadata")
		meta["deletionGracePeriodSeconds"] = int64(0)
		setDefault(meta, "deletionTimestamp", c.world.stamp())
		return answer{code: http.StatusOK, body: last}
	case k.resource.returned:
		return answer{code: http.StatusOK, body: o}
	}
	return answer{code: http.StatusOK, body: success(k.resource, o)}
}

// deletion reads the options, of which the body's hide those of the query.
func (k *call) deletion() (deletion, *failure) {
	var d deletion
	if f := checkQuery(k.query, "propagationPolicy", "gracePeriodSeconds", "dryRun"); f != nil {
		return d, f
	}
	if k.resource == namespaces {
		return d, unmodelled("deleting a namespace")
	}
	options := object{}
	for _, field := range []string{"propagationPolicy", "gracePeriodSeconds"} {
		if k.query.Has(field) {
			options[field] = k.query.Get(field)
			if v, err := decode([]byte(k.query.Get(field))); err == nil && field == "gracePeriodSeconds" {
				options[field] = v
			}
		}
	}
	if k.query.Has("dryRun") {
		options["dryRun"] = list{k.query.Get("dryRun")}
	}
	if len(k.body) > 0 {
		v, err := decode(k.body)
		var ok bool
		if options, ok = v.(object); err != nil || !ok {
			return d, unmodelled("options of a DELETE that are no JSON object (%v)", err)
		}
		if k.kind != "application/json" && k.kind != "" {
			return d, unmodelled("DELETE with content type %q", k.kind)
		}
	}
	for field, v := range options {
		switch field {
		case "apiVersion", "kind":
		case "propagationPolicy":
			d.propagation, _ = v.(string)
			if known := []string{"Foreground", "Background", "Orphan"}; !contains(known, d.propagation) {
				return d, invalid("DeleteOptions.meta.k8s.io", object{"group": "meta.k8s.io", "kind": "DeleteOptions"}, "",
					[]cause{unsupported("propagationPolicy", quoted(d.propagation), append(known, "nil"))})
			}
		case "preconditions":
			d.uid, d.resourceVersion = text(v, "uid"), text(v, "resourceVersion")
		case "gracePeriodSeconds":
			n, ok := integer(v)
			if !ok || n < 0 {
				return d, unmodelled("gracePeriodSeconds %v", v)
			}
			d.grace = &n
		case "dryRun":
			if !equal(v, list{"All"}) {
				return d, unmodelled("dryRun %v", v)
			}
			d.dryRun = true
		default:
			return d, unmodelled("option %s of a DELETE", field)
		}
	}
	return d, nil
}
