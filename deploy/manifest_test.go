package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
)

// namespace is where everything belongs that is of a namespace.
const namespace = "namzu-sandboxes"

// manifests returns the objects of each file, those of lists one by one.
func manifests(t testing.TB) map[string][]k8s.Object {
	t.Helper()
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("*.json: %q, %v", files, err)
	}
	all := map[string][]k8s.Object{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if all[file], err = parseManifest(data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	return all
}

func parseManifest(data []byte) ([]k8s.Object, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var o k8s.Object
	if err := decoder.Decode(&o); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is more than one JSON document")
	}
	if o.Text("kind") != "List" || o.Text("apiVersion") != "v1" {
		return []k8s.Object{o}, nil
	}
	var objects []k8s.Object
	for i, v := range o.List("items") {
		item, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d] is no object", i)
		}
		objects = append(objects, item)
	}
	return objects, nil
}

// one returns the only object of a file.
func one(t testing.TB, file string) k8s.Object {
	t.Helper()
	objects := manifests(t)[file]
	if len(objects) != 1 {
		t.Fatalf("%s holds %d objects", file, len(objects))
	}
	return objects[0]
}

// What each file holds. Other programs know the names.
var contents = map[string][]string{
	"namespace.json":                 {"v1 Namespace namzu-sandboxes"},
	"rbac-host.json":                 {"v1 ServiceAccount namzu-sandbox-host", "rbac.authorization.k8s.io/v1 Role namzu-sandbox-host", "rbac.authorization.k8s.io/v1 RoleBinding namzu-sandbox-host"},
	"rbac-claimant.json":             {"v1 ServiceAccount namzu-sandbox-claimant", "rbac.authorization.k8s.io/v1 Role namzu-sandbox-claimant", "rbac.authorization.k8s.io/v1 RoleBinding namzu-sandbox-claimant"},
	"rbac-watch.json":                {"rbac.authorization.k8s.io/v1 Role namzu-sandbox-host-watch", "rbac.authorization.k8s.io/v1 RoleBinding namzu-sandbox-host-watch"},
	"rbac-cluster-policies.json":     {"rbac.authorization.k8s.io/v1 ClusterRole namzu-sandbox-host-cluster-policies", "rbac.authorization.k8s.io/v1 ClusterRoleBinding namzu-sandbox-host-cluster-policies"},
	"rbac-per-sandbox.json":          {"rbac.authorization.k8s.io/v1 Role namzu-sandbox-host-per-sandbox", "rbac.authorization.k8s.io/v1 RoleBinding namzu-sandbox-host-per-sandbox", "rbac.authorization.k8s.io/v1 ClusterRole namzu-sandbox-host-fence", "rbac.authorization.k8s.io/v1 ClusterRoleBinding namzu-sandbox-host-fence"},
	"networkpolicy-baseline.json":    {"networking.k8s.io/v1 NetworkPolicy namzu-sandbox-baseline"},
	"networkpolicy-task-egress.json": {"networking.k8s.io/v1 NetworkPolicy task-egress"},
	"sandboxtemplate-task.json":      {"extensions.agents.x-k8s.io/v1beta1 SandboxTemplate task"},
	"sandboxwarmpool.json":           {"extensions.agents.x-k8s.io/v1beta1 SandboxWarmPool pool"},
	"fence.json":                     {"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy namzu-per-sandbox-egress", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding namzu-per-sandbox-egress-binding"},
}

var ofTheCluster = []string{"Namespace", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

func TestManifestsHoldWhatTheySay(t *testing.T) {
	all := manifests(t)
	if got, want := slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(contents)); !slices.Equal(got, want) {
		t.Errorf("the files are %q, want %q", got, want)
	}
	for file, objects := range all {
		var got []string
		for _, o := range objects {
			got = append(got, fmt.Sprintf("%s %s %s", o.Text("apiVersion"), o.Text("kind"), o.Name()))
			wanted := namespace
			if slices.Contains(ofTheCluster, o.Text("kind")) {
				wanted = ""
			}
			if o.Namespace() != wanted {
				t.Errorf("%s: %s %s is in namespace %q, want %q", file, o.Text("kind"), o.Name(), o.Namespace(), wanted)
			}
		}
		if !slices.Equal(got, contents[file]) {
			t.Errorf("%s holds %q, want %q", file, got, contents[file])
		}
	}
}

var mentioned = regexp.MustCompile("`([a-z-]+\\.json)`")

// The README names every file, in an order in which they can be applied, and
// its links lead somewhere.
func TestReadmeNamesTheManifests(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for line := range strings.Lines(string(text)) {
		if name := mentioned.FindStringSubmatch(line); name != nil && strings.HasPrefix(line, "| ") {
			order = append(order, name[1])
		}
	}
	if got, want := slices.Sorted(slices.Values(order)), slices.Sorted(maps.Keys(contents)); !slices.Equal(got, want) {
		t.Errorf("its table names %q, want %q", got, want)
	}
	for _, pair := range [][2]string{
		{"namespace.json", "rbac-host.json"}, {"rbac-host.json", "rbac-watch.json"}, {"networkpolicy-baseline.json", "sandboxwarmpool.json"},
		{"sandboxtemplate-task.json", "sandboxwarmpool.json"}, {"fence.json", "rbac-per-sandbox.json"},
	} {
		if slices.Index(order, pair[0]) > slices.Index(order, pair[1]) {
			t.Errorf("%s comes after %s", pair[0], pair[1])
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#\s]+)`).FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("the link to %s leads nowhere", m[1])
		}
	}
}
