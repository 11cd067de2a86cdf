package sim

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// discover answers what is not about objects.
func (c *Cluster) discover(t target, q url.Values) answer {
	if f := checkQuery(q); f != nil {
		return answer{failure: f}
	}
	if t.verb != "get" {
		return answer{failure: unmodelled("%s of %s", t.verb, t.path)}
	}
	ok := func(body object) answer { return answer{code: http.StatusOK, body: body} }
	segments := strings.Split(strings.Trim(t.path, "/"), "/")
	switch {
	case slices.Contains([]string{"/healthz", "/livez", "/readyz"}, t.path):
		return answer{code: http.StatusOK, plain: "ok"}
	case t.path == "/version" || t.path == "/version/":
		return ok(object{"major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "37", "minCompatibilityMajor": "1", "minCompatibilityMinor": "36",
			"gitVersion": "v1.37.2", "gitTreeState": "clean", "goVersion": "go1.26.8", "compiler": "gc", "platform": "linux/amd64"})
	case t.path == "/apis":
		groups := list{}
		for _, g := range c.groups() {
			group := c.group(g)
			delete(group, "kind")
			delete(group, "apiVersion")
			groups = append(groups, group)
		}
		return ok(object{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
	case segments[0] == "apis" && len(segments) == 2 && slices.Contains(c.groups(), segments[1]):
		return ok(c.group(segments[1]))
	case segments[0] == "apis" && len(segments) == 3:
		if l := c.resourceList(segments[1], segments[2]); l != nil {
			return ok(l)
		}
	case t.path == "/api/v1":
		return ok(c.resourceList("", "v1"))
	case segments[0] == "api" || segments[0] != "apis":
		return answer{failure: unmodelled("path %s", t.path)}
	}
	if len(segments) > 1 && slices.Contains(otherGroups, segments[1]) || segments[len(segments)-1] == "v1alpha1" {
		return answer{failure: unmodelled("discovery of %s", t.path)}
	}
	return answer{failure: notServed()}
}

// groups are those with a resource that is served.
func (c *Cluster) groups() (out []string) {
	for _, r := range resources {
		if r.group != "" && !slices.Contains(out, r.group) && !slices.Contains(c.cfg.Unserved, r.plural) {
			out = append(out, r.group)
		}
	}
	return out
}

func (c *Cluster) group(g string) object {
	version := func(v string) object { return object{"groupVersion": g + "/" + v, "version": v} }
	preferred := ""
	for _, r := range resources {
		if r.group == g {
			preferred = r.version
		}
	}
	versions := list{version(preferred)}
	if g == coreGroup || g == extensionGroup {
		versions = append(versions, version("v1alpha1"))
	}
	return object{"kind": "APIGroup", "apiVersion": "v1", "name": g, "versions": versions, "preferredVersion": version(preferred)}
}

// resourceList is nil for a group and version without resources.
func (c *Cluster) resourceList(group, version string) object {
	var out list
	add := func(r *resource, name, singular string, verbs ...any) object {
		o := object{"name": name, "singularName": singular, "namespaced": !r.cluster, "kind": r.kind, "verbs": list(verbs)}
		out = append(out, o)
		return o
	}
	for _, r := range resources {
		if r.group != group || r.version != version || slices.Contains(c.cfg.Unserved, r.plural) {
			continue
		}
		o := add(r, r.plural, r.singular, "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
		short := list{}
		for _, s := range r.shortNames {
			short = append(short, s)
		}
		if o["shortNames"] = short; len(short) == 0 {
			delete(o, "shortNames")
		}
		if r.hash != "" {
			o["storageVersionHash"] = r.hash
		}
		if r.status {
			add(r, r.plural+"/status", "", "get", "patch", "update")
		}
		if r == pools {
			scale := add(r, r.plural+"/scale", "", "get", "patch", "update")
			scale["group"], scale["version"], scale["kind"] = "autoscaling", "v1", "Scale"
		}
	}
	if out == nil {
		return nil
	}
	slices.SortStableFunc(out, func(a, b any) int {
		cut := func(v any) string { s, _, _ := strings.Cut(text(v, "name"), "/"); return s }
		return strings.Compare(cut(a), cut(b))
	})
	groupVersion := version
	if group != "" {
		groupVersion = group + "/" + version
	}
	return object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": out}
}
