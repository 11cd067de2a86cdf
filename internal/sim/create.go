package sim

import (
	"fmt"
	"net/http"
	"strings"
)

// admit makes an object what the server would keep: unknown fields pruned,
// defaults filled in. It checks content and metadata, not whether there is room.
func (w *world) admit(r *resource, o object, strict bool) (unknown []string, f *failure) {
	if f := checkMetadataTypes(o); f != nil {
		return nil, f
	}
	var causes []cause
	if s := w.schema(r); s != nil && r.custom {
		unknown = s.prune(o)
		if strict && len(unknown) > 0 {
			return unknown, &failure{message: strictError(unknown)}
		}
		s.fill(o)
		causes = s.check(o, "")
	}
	if kind := text(o, "kind"); kind != r.kind {
		causes = append(causes, invalidValue("kind", quoted(kind), "must be "+r.kind))
	}
	causes = append(checkMetadata(o), uncheckedRules(r, causes)...)
	if len(causes) == 0 {
		return unknown, nil
	}
	qualified, kind := r.qualifiedKind(), r.kind
	if claimed := text(o, "kind"); claimed != r.kind {
		qualified, kind = strings.Replace(qualified, r.kind, claimed, 1), claimed
	}
	return unknown, invalid(qualified, details(r, name(o), kind), name(o), causes)
}

// uncheckedRules adds what the server says of a kind whose schema has rules in
// CEL when it does not come to them.
func uncheckedRules(r *resource, causes []cause) []cause {
	for _, c := range causes {
		if r == sandboxes && contains([]string{"FieldValueRequired", "FieldValueTypeInvalid", "FieldValueNotSupported"}, c.reason) {
			return append(causes, invalidValue("<nil>", "null", "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		}
	}
	return causes
}

func strictError(unknown []string) string {
	quotes := make([]string, len(unknown))
	for i, path := range unknown {
		quotes[i] = fmt.Sprintf("unknown field %q", path)
	}
	return "strict decoding error: " + strings.Join(quotes, ", ")
}

// validation reads the parameter fieldValidation.
func (k *call) validation() (strict, warn bool, f *failure) {
	switch v := k.query.Get("fieldValidation"); v {
	case "Strict":
		return true, false, nil
	case "", "Warn":
		return false, true, nil
	case "Ignore":
		return false, false, nil
	default:
		return false, false, unmodelled("fieldValidation=%s", v)
	}
}

func (k *call) dryRun() (bool, *failure) {
	switch v := k.query.Get("dryRun"); v {
	case "":
		return false, nil
	case "All":
		return true, nil
	default:
		return false, unmodelled("dryRun=%s", v)
	}
}

func (c *Cluster) create(k *call) answer {
	o, dry, f := k.readObject()
	if f != nil {
		return answer{failure: f}
	}
	strict, warn, f := k.validation()
	if f != nil {
		return answer{failure: f}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w, r := c.world, k.resource
	unknown, f := w.admit(r, o, strict)
	switch {
	case f != nil && f.code == 0: // the strict error, which each verb words in its own way
		f = badRequest("%s in version %q cannot be handled as a %s: %s", r.kind, r.version, r.kind, f.message)
	case w.get(namespaces, place{"", k.namespace}) == nil:
		f = notFound(namespaces, k.namespace)
	}
	if f != nil {
		return answer{failure: f}
	}
	if warn {
		for _, path := range unknown {
			k.warned = append(k.warned, fmt.Sprintf("unknown field %q", path))
		}
	}
	if r.status {
		delete(o, "status")
	}
	if dry {
		setDefault(need(o, "metadata"), "name", text(o, "metadata", "generateName")+suffix())
		if w.get(r, placeOf(o)) != nil {
			return answer{failure: exists(r, name(o))}
		}
		w.seed(r, o)
		return answer{code: http.StatusCreated, body: o}
	}
	if o, f = w.create(r, o); f != nil {
		return answer{failure: f}
	}
	return answer{code: http.StatusCreated, body: o}
}

// readObject reads the body of a POST.
func (k *call) readObject() (o object, dry bool, f *failure) {
	if f := checkQuery(k.query, "fieldValidation", "fieldManager", "dryRun"); f != nil {
		return nil, false, f
	}
	if dry, f = k.dryRun(); f != nil {
		return nil, false, f
	}
	if k.resource.readOnly {
		return nil, false, unmodelled("creating %s through the API", k.plural)
	}
	if k.name != "" {
		return nil, false, unmodelled("POST to an object")
	}
	switch k.kind {
	case "application/json", "":
	case "application/yaml", "application/vnd.kubernetes.protobuf":
		return nil, false, unmodelled("POST with content type %q", k.kind)
	default:
		return nil, false, unsupportedMediaType("application/json, application/yaml, application/vnd.kubernetes.protobuf")
	}
	v, err := decode(k.body)
	if err != nil {
		return nil, false, badRequest("the object provided is unrecognized (must be of type %s): couldn't get version/kind; json parse error: %v (%s)", k.resource.kind, err, k.body)
	}
	o, ok := v.(object)
	if ok && text(o, "kind") == "" {
		return nil, false, badRequest("the object provided is unrecognized (must be of type %s): Object 'Kind' is missing in '%s' (%s)", k.resource.kind, k.body, k.body)
	}
	if !ok || text(o, "apiVersion") == "" {
		return nil, false, unmodelled("POST of something without apiVersion")
	}
	if have := text(o, "apiVersion"); have != k.resource.apiVersion() {
		return nil, false, badRequest("the API version in the data (%s) does not match the expected API version (%s)", have, k.resource.apiVersion())
	}
	if ns := namespace(o); ns != "" && ns != k.namespace {
		return nil, false, badRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if at(o, "metadata", "resourceVersion") != nil {
		return nil, false, unmodelled("POST of an object with a resourceVersion")
	}
	if meta, ok := o["metadata"]; ok && sub(o, "metadata") == nil {
		return nil, false, unmodelled("POST with metadata %v", meta)
	}
	need(o, "metadata")["namespace"] = k.namespace
	return o, dry, nil
}
