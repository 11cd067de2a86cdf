package sim

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// A snapshot is what a list that comes in parts goes on from; the real
	// server's are gone with etcd's compaction.
	snapshotLife = 5 * time.Minute
	maxSnapshots = 100
)

type snapshot struct {
	version  uint64
	resource *resource
	taken    time.Time
	objects  []object // of the namespace, in order
	ns       string
}

// get answers GET of one object.
func (c *Cluster) get(k *call) answer {
	if f := checkQuery(k.query, "resourceVersion"); f != nil {
		return answer{failure: f}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.world.notNewer(k); f != nil {
		return answer{failure: f}
	}
	o := c.world.get(k.resource, place{k.namespace, k.name})
	if o == nil {
		return answer{failure: notFound(k.resource, k.name)}
	}
	return answer{code: http.StatusOK, body: o}
}

// notNewer refuses a resource version that has not come yet.
func (w *world) notNewer(k *call) *failure {
	s := k.query.Get("resourceVersion")
	if s == "" {
		return nil
	}
	v, err := strconv.ParseUint(s, 10, 64)
	switch {
	case err != nil:
		return badRequest("invalid resource version: resourceVersion: Invalid value: %q: %v", s, err)
	case v > w.version:
		return tooNew(v, w.version)
	}
	return nil
}

// A filter is what a list or a watch asks for.
type filter struct {
	resource *resource
	ns       string
	labels   selector
	fields   fieldSelector
}

func (k *call) filter() (filter, *failure) {
	f := filter{resource: k.resource, ns: k.namespace}
	var err error
	if f.labels, err = parseSelector(k.query.Get("labelSelector")); err != nil {
		return f, badRequest("%v", err)
	}
	var wrong *failure
	f.fields, wrong = parseFieldSelector(k.resource, k.query.Get("fieldSelector"))
	return f, wrong
}

func (f filter) takes(o object) bool {
	return o != nil && (f.ns == "" || namespace(o) == f.ns) && f.labels.matches(labels(o)) && f.fields.matches(f.resource, o)
}

// A token continues a list: behind a key, in the state of a version or, with a
// negative one, in the latest.
type token struct {
	API     string `json:"v"`
	Version int64  `json:"rv"`
	Start   string `json:"start"`
}

func (t token) encode() string {
	data, err := json.Marshal(t)
	must(err)
	return base64.RawURLEncoding.EncodeToString(data)
}

func parseToken(s string) (token, *failure) {
	var t token
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err == nil && (t.API != "meta.k8s.io/v1" || t.Start == "" || t.Version == 0) {
		return t, unmodelled("continue token %q", data)
	}
	if err != nil {
		return t, badRequest("invalid continue token: continue key is not valid: %v", err)
	}
	t.Start = "/" + strings.TrimPrefix(t.Start, "/")
	return t, nil
}

// list answers GET of a collection, whole or in parts.
func (c *Cluster) list(k *call) answer {
	fail := func(f *failure) answer { return answer{failure: f} }
	if f := checkQuery(k.query, "labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch", "timeoutSeconds"); f != nil {
		return fail(f)
	}
	switch m := k.query.Get("resourceVersionMatch"); {
	case m != "" && m != "NotOlderThan":
		return fail(unmodelled("resourceVersionMatch=%s", m))
	case m != "" && k.query.Get("resourceVersion") == "":
		return fail(invalid("ListOptions.meta.k8s.io", object{"group": "meta.k8s.io", "kind": "ListOptions"}, "",
			[]cause{{"resourceVersionMatch", "FieldValueForbidden", "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"}}))
	}
	want, f := k.filter()
	if f != nil {
		return fail(f)
	}
	limit := 0
	if s := k.query.Get("limit"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fail(badRequest("%v", err))
		}
		limit = int(min(n, 1<<30))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.world
	from := snapshot{version: w.version, resource: k.resource, taken: time.Now(), ns: k.namespace, objects: w.all(k.resource, k.namespace)}
	start := ""
	if s := k.query.Get("continue"); s != "" {
		t, f := parseToken(s)
		if f != nil {
			return fail(f)
		}
		if v := k.query.Get("resourceVersion"); v != "" && v != "0" {
			return fail(badRequest("specifying resource version is not allowed when using continue"))
		}
		start = t.Start
		if t.Version > 0 {
			if from, f = w.snapshot(k, t); f != nil {
				return fail(f)
			}
		}
	} else if f := w.notNewer(k); f != nil {
		return fail(f)
	}
	return answer{code: http.StatusOK, body: w.page(from, want, start, limit)}
}

// snapshot finds the state that a token goes on from.
func (w *world) snapshot(k *call, t token) (snapshot, *failure) {
	for _, s := range w.snapshots {
		if int64(s.version) == t.Version && s.resource == k.resource && s.ns == k.namespace && time.Since(s.taken) < snapshotLife {
			return s, nil
		}
	}
	return snapshot{}, expired(token{t.API, -1, strings.TrimPrefix(t.Start, "/")}.encode()) // without the slash, as the real one
}

// page is a list object with at most limit of what is wanted from start on.
func (w *world) page(from snapshot, want filter, start string, limit int) object {
	var chosen, rest list
	last := ""
	for _, o := range from.objects {
		key := "/" + name(o)
		if want.ns == "" && !want.resource.cluster {
			key = "/" + placeOf(o).String()
		}
		switch {
		case key < start || !want.takes(o):
		case limit > 0 && len(chosen) == limit:
			rest = append(rest, o)
		default:
			chosen, last = append(chosen, item(want.resource, o)), key
		}
	}
	meta := object{"resourceVersion": strconv.FormatUint(from.version, 10)}
	if want.resource.custom {
		meta["continue"] = ""
	}
	if len(rest) > 0 {
		meta["continue"] = token{"meta.k8s.io/v1", int64(from.version), last + "\x00"}.encode()
		if len(want.labels) == 0 && len(want.fields) == 0 {
			meta["remainingItemCount"] = int64(len(rest))
		}
		w.keep(from)
	}
	if chosen == nil {
		chosen = list{}
	}
	return object{"apiVersion": want.resource.apiVersion(), "kind": want.resource.kind + "List", "metadata": meta, "items": chosen}
}

// item is an object in a list: those of built-in kinds do not say what they are.
func item(r *resource, o object) object {
	if r.custom {
		return o
	}
	bare := make(object, len(o))
	for k, v := range o {
		if k != "apiVersion" && k != "kind" {
			bare[k] = v
		}
	}
	return bare
}

// keep remembers a snapshot, once.
func (w *world) keep(s snapshot) {
	for _, have := range w.snapshots {
		if have.version == s.version && have.resource == s.resource && have.ns == s.ns {
			return
		}
	}
	if len(w.snapshots) == maxSnapshots {
		w.snapshots = w.snapshots[1:]
	}
	w.snapshots = append(w.snapshots, s)
}
