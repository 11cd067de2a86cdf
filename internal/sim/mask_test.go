package sim_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recorded reads a file of the recorded answers, down to a path.
func recorded(t testing.TB, file string, path ...string) any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "fixtures", file+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if v = at(v, path...); v == nil {
		t.Fatalf("%s has no %v", file, path)
	}
	return v
}

// masks are what differs from run to run. The recorded hashes of names are
// those of names that were replaced, and those of templates hash other bytes.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`), "<time>"},
	{regexp.MustCompile(`^(10\.244|192\.0\.2)\.\d+(\.\d+)?$`), "<pod-ip>"},
	{regexp.MustCompile(`^(pool|owned|nosvc|p-[a-z0-9-]+|kube-api-access)-[a-z0-9]{5}$`), "$1-<suffix>"},
	{regexp.MustCompile(`\b(pool|p-[a-z0-9-]+)-[bcdfghjklmnpqrstvwxz24-9]{5}\.sandbox-rig`), "$1-<suffix>.sandbox-rig"},
	{regexp.MustCompile(`adoption of "owned-[a-z0-9]{5}"`), `adoption of "owned-<suffix>"`},
	{regexp.MustCompile(`sandbox-name-hash=[0-9a-f]{8}`), "sandbox-name-hash=<hash>"},
	{regexp.MustCompile(`(sim|rig)-node`), "<node>"},
	{regexp.MustCompile(`sandbox-nobody`), "sandbox-host"},
	{regexp.MustCompile(`current: \d+`), "current: <rv>"},
	{regexp.MustCompile(`too old resource version: 1 \(\d+\)`), "too old resource version: 1 (<rv>)"},
}

var maskedKeys = map[string]string{
	"resourceVersion":                           "<rv>",
	"agents.x-k8s.io/sandbox-name-hash":         "<hash>",
	"agents.x-k8s.io/sandbox-pod-template-hash": "<hash>",
	"agents.x-k8s.io/sandbox-template-hash":     "<hash>",
}

// droppedKeys: the controller stamps the first Ready in a write of its own, at a
// time that varies, and kubectl's note is kubectl's.
var droppedKeys = map[string]bool{
	"agents.x-k8s.io/claim-first-ready-at":             true,
	"kubectl.kubernetes.io/last-applied-configuration": true,
}

// mask returns v as JSON with indents and with what differs replaced.
func mask(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(masked(plain)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func masked(v any) any {
	switch v := v.(type) {
	case object:
		for k, e := range v {
			if droppedKeys[k] {
				delete(v, k)
			} else if with, ok := maskedKeys[k]; ok {
				v[k] = with
			} else {
				v[k] = masked(e)
			}
		}
		if notes, ok := v["annotations"].(object); ok && len(notes) == 0 {
			delete(v, "annotations")
		}
	case []any:
		for i, e := range v {
			v[i] = masked(e)
		}
	case string:
		for _, m := range masks {
			v = m.pattern.ReplaceAllString(v, m.with)
		}
		return v
	}
	return v
}

// firstDifference is the first line in which two masked values differ, with what
// is around it.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range w {
		if i >= len(g) || g[i] != w[i] {
			have := "(nothing)"
			if i < len(g) {
				have = strings.Join(g[max(0, i-2):min(len(g), i+3)], "\n")
			}
			return "got\n" + have + "\nwant\n" + strings.Join(w[max(0, i-2):min(len(w), i+3)], "\n")
		}
	}
	return "got more than wanted: " + strings.Join(g[len(w):], "\n")
}
