package sim

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A target is what a request is about.
type target struct {
	verb string // get, list, watch, create, update, patch, delete, deletecollection
	path string

	// Of a request for objects; plural stays "" for all others.
	group, version, plural string
	namespace, name        string
	subresource            string
	resource               *resource // nil where the server has none such
}

// ruled is what an access rule calls the resource.
func (t target) ruled() string {
	if t.subresource != "" {
		return t.plural + "/" + t.subresource
	}
	return t.plural
}

// parseTarget reads method and path as the API server does: an escaped slash in
// a name is a slash.
func parseTarget(method string, u *url.URL) (target, *failure) {
	t := target{path: u.Path, verb: map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[method]}
	if t.verb == "" {
		return t, unmodelled("method %s", method)
	}
	segments := strings.Split(strings.Trim(u.Path, "/"), "/")
	if slices.Contains(segments, "") && u.Path != "/" {
		return t, unmodelled("empty segment in the path %s", u.Path)
	}
	switch {
	case segments[0] == "api" && len(segments) > 2:
		t.version, segments = segments[1], segments[2:]
	case segments[0] == "apis" && len(segments) > 3:
		t.group, t.version, segments = segments[1], segments[2], segments[3:]
	default:
		return t, nil
	}
	if segments[0] == "namespaces" && len(segments) > 2 {
		t.namespace, segments = segments[1], segments[2:]
	}
	t.plural, segments = segments[0], segments[1:]
	if len(segments) > 0 {
		t.name, segments = segments[0], segments[1:]
	}
	if len(segments) > 0 {
		t.subresource, segments = segments[0], segments[1:]
	}
	if len(segments) > 0 {
		return t, unmodelled("path %s", u.Path)
	}
	if t.name == "" {
		switch t.verb {
		case "get":
			t.verb = "list"
			if w := u.Query().Get("watch"); w == "1" || w == "true" {
				t.verb = "watch"
			}
		case "delete":
			t.verb = "deletecollection"
		}
	}
	for _, r := range resources {
		if r.group == t.group && r.version == t.version && r.plural == t.plural {
			t.resource = r
		}
	}
	return t, nil
}

// served finds out why there is no resource, or that there is one.
func (t target) served(unserved []string) *failure {
	if t.resource != nil && !slices.Contains(unserved, t.plural) {
		everywhere := t.namespace == "" && (t.verb == "list" || t.verb == "watch")
		if t.resource.cluster == (t.namespace != "") && !everywhere {
			return unmodelled("scope of %s in path %s", t.plural, t.path)
		}
		return nil
	}
	if t.resource == nil && slices.Contains(otherGroups, t.group) {
		return unmodelled("resource %s of group %q, version %s", t.plural, t.group, t.version)
	}
	if t.version == "v1alpha1" && (t.group == coreGroup || t.group == extensionGroup) {
		return unmodelled("deprecated version %s/%s", t.group, t.version)
	}
	return notServed()
}

// checkQuery refuses parameters whose meaning here nobody looked up.
func checkQuery(q url.Values, known ...string) *failure {
	for k, v := range q {
		if !slices.Contains(known, k) {
			return unmodelled("query parameter %s=%s", k, v)
		}
		if len(v) > 1 {
			return unmodelled("query parameter %s given %d times", k, len(v))
		}
	}
	return nil
}
