package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
)

// A right is one verb on one resource of one group.
type right struct{ group, resource, verb string }

func (r right) String() string {
	group := r.group
	if group == "" {
		group = "core"
	}
	return fmt.Sprintf("%s %s of %s", r.verb, r.resource, group)
}

// rights returns what a Role or ClusterRole grants.
func rights(t testing.TB, role k8s.Object) map[right]bool {
	t.Helper()
	out := map[right]bool{}
	for _, v := range role.List("rules") {
		rule := k8s.Object(v.(map[string]any))
		for _, group := range rule.List("apiGroups") {
			for _, resource := range rule.List("resources") {
				for _, verb := range rule.List("verbs") {
					out[right{group.(string), resource.(string), verb.(string)}] = true
				}
			}
		}
		for field := range rule {
			if !slices.Contains([]string{"apiGroups", "resources", "verbs"}, field) {
				t.Errorf("%s %s has a rule with %s", role.Text("kind"), role.Name(), field)
			}
		}
	}
	return out
}

// roles returns every Role and ClusterRole by file and object, such as
// "rbac-host.json Role namzu-sandbox-host".
func roles(t testing.TB) map[string]k8s.Object {
	t.Helper()
	out := map[string]k8s.Object{}
	for file, objects := range manifests(t) {
		for _, o := range objects {
			if kind := o.Text("kind"); kind == "Role" || kind == "ClusterRole" {
				out[fmt.Sprintf("%s %s %s", file, kind, o.Name())] = o
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("there are no roles")
	}
	return out
}

func difference(a, b map[right]bool) []string {
	var out []string
	for r := range a {
		if !b[r] {
			out = append(out, r.String())
		}
	}
	slices.Sort(out)
	return out
}

var (
	code  = regexp.MustCompile("`([^`]+)`")
	words = regexp.MustCompile(`[a-z]+`)
)

// tableRows returns the cells of a table below a heading of docs/rbac.md. An
// empty cell in one of the first columns means the one above it.
func tableRows(t testing.TB, title string, columns, inherited int) [][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/rbac.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows [][]string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != columns {
			t.Fatalf("docs/rbac.md: %q has %d cells, want %d", line, len(cells), columns)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
			if cells[i] == "" && i < inherited && len(rows) > 0 {
				cells[i] = rows[len(rows)-1][i]
			}
		}
		rows = append(rows, cells)
	}
	if !found || len(rows) < 3 {
		t.Fatalf("docs/rbac.md has no table below %q", title)
	}
	return rows[1:]
}

// names returns what a cell has in backquotes.
func names(cell string) []string {
	var out []string
	for _, m := range code.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// rightsOf reads group, resources and verbs of a row. A group that is neither
// "core" nor in backquotes is any.
func rightsOf(group, resources, verbs string) []right {
	g := "*"
	if group == "core" {
		g = ""
	} else if quoted := names(group); len(quoted) == 1 {
		g = quoted[0]
	}
	var out []right
	for _, resource := range names(resources) {
		for _, verb := range words.FindAllString(verbs, -1) {
			out = append(out, right{g, resource, verb})
		}
	}
	return out
}

// The manifests grant exactly what the document says, and nothing that the
// document's first table does not ask for.
func TestRolesAreAsDocumented(t *testing.T) {
	documented := map[string]map[right]bool{}
	for _, row := range tableRows(t, "By manifest", 5, 2) {
		file, object := names(row[0]), row[1]
		if len(file) != 1 {
			t.Fatalf("docs/rbac.md: %q names no manifest", row[0])
		}
		kind, name, _ := strings.Cut(object, " ")
		key := fmt.Sprintf("%s %s %s", file[0], kind, strings.Trim(name, "`"))
		if documented[key] == nil {
			documented[key] = map[right]bool{}
		}
		for _, r := range rightsOf(row[2], row[3], row[4]) {
			documented[key][r] = true
		}
	}
	granted := map[right]bool{}
	for key, role := range roles(t) {
		has := rights(t, role)
		if extra, missing := difference(has, documented[key]), difference(documented[key], has); extra != nil || missing != nil {
			t.Errorf("%s grants %q beyond docs/rbac.md, and lacks %q", key, extra, missing)
		}
		maps.Copy(granted, has)
		delete(documented, key)
	}
	for key := range documented {
		t.Errorf("docs/rbac.md has %s, which is not there", key)
	}

	needed := map[right]bool{}
	for _, row := range tableRows(t, "By feature", 4, 1) {
		for _, r := range rightsOf(row[1], row[2], row[3]) {
			matched := false
			for g := range granted {
				if g.resource == r.resource && g.verb == r.verb && (r.group == "*" || g.group == r.group) {
					needed[g], matched = true, true
				}
			}
			if !matched {
				t.Errorf("docs/rbac.md: %s needs %v, and no manifest grants it", row[0], r)
			}
		}
	}
	if unneeded := difference(granted, needed); unneeded != nil {
		t.Errorf("no feature in docs/rbac.md needs %q", unneeded)
	}
}

// No role grants more than a host has any business with.
func TestRolesGrantNoMore(t *testing.T) {
	for key, role := range roles(t) {
		for r := range rights(t, role) {
			switch {
			case strings.ContainsAny(r.group+r.resource+r.verb, "*"):
				t.Errorf("%s has a wildcard: %v", key, r)
			case strings.Contains(r.resource, "/"), r.resource == "secrets", r.verb == "deletecollection", r.verb == "escalate", r.verb == "bind", r.verb == "impersonate":
				t.Errorf("%s grants %v", key, r)
			case r.resource == "pods" && r.verb != "get" && r.verb != "list":
				t.Errorf("%s grants %v", key, r)
			case strings.Contains(r.resource, "polic") && r.verb != "get" && r.verb != "list" && key != "rbac-per-sandbox.json Role namzu-sandbox-host-per-sandbox":
				t.Errorf("%s grants %v", key, r)
			case role.Text("kind") == "ClusterRole" && r.verb != "get" && r.verb != "list":
				t.Errorf("%s grants %v in every namespace", key, r)
			}
		}
	}
	host, claimant := rights(t, roles(t)["rbac-host.json Role namzu-sandbox-host"]), rights(t, roles(t)["rbac-claimant.json Role namzu-sandbox-claimant"])
	if extra := difference(claimant, host); extra != nil || len(claimant) >= len(host) {
		t.Errorf("a claimant may do what a host may not: %q", extra)
	}
	for _, r := range []right{{"agents.x-k8s.io", "sandboxes", "create"}, {"extensions.agents.x-k8s.io", "sandboxtemplates", "get"}} {
		if claimant[r] {
			t.Errorf("a claimant may %v", r)
		}
	}
}

// Every role is bound, to an account that is there, by a binding of its own kind
// and name.
func TestRolesAreBound(t *testing.T) {
	accounts, bound := map[string]bool{}, map[string]bool{}
	for _, objects := range manifests(t) {
		for _, o := range objects {
			if o.Text("kind") == "ServiceAccount" {
				accounts[o.Name()] = true
			}
		}
	}
	for file, objects := range manifests(t) {
		for _, o := range objects {
			kind, isBinding := strings.CutSuffix(o.Text("kind"), "Binding")
			if !isBinding || !strings.HasSuffix(kind, "Role") {
				continue
			}
			ref := o.Map("roleRef")
			if ref.Text("apiGroup") != "rbac.authorization.k8s.io" || ref.Text("kind") != kind || ref.Text("name") != o.Name() {
				t.Errorf("%s: %s %s refers to %v", file, o.Text("kind"), o.Name(), ref)
			}
			bound[fmt.Sprintf("%s %s %s", file, kind, o.Name())] = true
			for _, v := range o.List("subjects") {
				s := k8s.Object(v.(map[string]any))
				if s.Text("kind") != "ServiceAccount" || s.Text("namespace") != namespace || !accounts[s.Text("name")] {
					t.Errorf("%s: %s is bound to %v", file, o.Name(), s)
				}
			}
			if len(o.List("subjects")) != 1 {
				t.Errorf("%s: %s has %d subjects", file, o.Name(), len(o.List("subjects")))
			}
		}
	}
	for key := range roles(t) {
		if !bound[key] {
			t.Errorf("%s is not bound", key)
		}
	}
}
