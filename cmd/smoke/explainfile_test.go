package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// Files that are not certainly objects of a cluster get one line and exit code 2.
func TestExplainRefusesFiles(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), "long.json")
	if f, err := os.Create(long); err != nil {
		t.Fatal(err)
	} else if err := f.Truncate(maxManifest + 1); err != nil {
		t.Fatal(err)
	} else {
		f.Close()
	}
	for _, c := range []struct {
		sentence string
		args     string // of which a FILE is the text
		text     string
		words    string
	}{
		{"a file that is not there", "-f /nowhere/x.json -labels a=b", "", "-f /nowhere/x.json: no such file"},
		{"a folder", "-f / -labels a=b", "", "-f /: "},
		{"more than is ever read", "-f " + long + " -labels a=b", "", "more than 67108864 bytes"},
		{"nothing", "-f FILE", " \n", "is empty"},
		{"YAML", "-f FILE", "apiVersion: v1\nkind: Pod\n", "is not JSON, in line 1|-o json"},
		{"a mistake further down", "-f FILE", "{\n\"kind\": \"Pod\"\n}\n{\n\"kind\" 1\n}", "is not JSON, in line 5"},
		{"a document that was cut", "-f FILE", `{"kind":"Pod"`, "ends in the middle"},
		{"a text", "-f FILE", `"Pod"`, "document 1 is a string"},
		{"a number behind a policy", "-f FILE", closedPolicy + " 7", "document 2 is a number"},
		{"null in an array", "-f FILE", "[" + closedPolicy + ",null]", "document 1[1] is null"},
		{"an object without a kind", "-f FILE", `{"metadata":{"name":"x"},"spec":{}}`, "document 1 has no kind"},
		{"no object at all", "-f FILE", `{}`, "document 1 has no kind"},
		{"a kind that is a number", "-f FILE", `{"kind":7}`, "kind that is no name"},
		{"an empty kind", "-f FILE", `{"kind":""}`, "kind that is no name"},
		{"a list without items", "-f FILE", `{"kind":"NetworkPolicyList"}`, "document 1 is a NetworkPolicyList, and its items are no list"},
		{"a list whose items are an object", "-f FILE", `{"kind":"List","items":{}}`, "its items are no list"},
		{"an item without a kind, in a list of any", "-f FILE", `{"kind":"List","items":[{"metadata":{}}]}`, "document 1.items[0] has no kind"},
		{"an item that is no object", "-f FILE", `{"kind":"NetworkPolicyList","items":[true]}`, "items[0] is a boolean"},
		{"one page of a list", "-f FILE", `{"kind":"NetworkPolicyList","metadata":{"continue":"x"},"items":[]}`, "one page of a longer"},
		{"a list without its kind", "-f FILE", `{"items":[` + closedPolicy + `]}`, "document 1 has no kind"},
		{"lists in lists", "-f FILE", strings.Repeat("[", 100) + strings.Repeat("]", 100), "a list in a list"},
		{"a refusal of a server", "-f FILE", `{"kind":"Status","status":"Failure","message":"networkpolicies is\nforbidden"}`, "when it refuses: networkpolicies is forbidden"},
		{"a recorded refusal", "-f FILE", `{"request":{},"response":{"status":403,"body":{"kind":"Status"}}}`, "recorded answer with status 403"},
		{"a recorded answer without a body", "-f FILE", `{"response":{"status":200}}`, "whose body is null"},
		{"a recorded answer that is not JSON", "-f FILE", `{"response":{"body":"404 page not found"}}`, "whose body is not JSON"},
		{"no pod", "-f FILE", closedPolicy, "which pod?|-labels"},
		{"a pod that is not in the files", "-f FILE -pod other", closedPolicy + taskPod, "no Pod other"},
		{"a pod of another namespace", "-f FILE -namespace other", closedPolicy + taskPod, "which pod?|of namespace other"},
		{"two pods", "-f FILE", taskPod + hostPod, "have 2 Pods, such as lab/h1 and lab/t1|-pod"},
		{"a pod in two states", "-f FILE", taskPod + strings.Replace(taskPod, `"task"`, `"other"`, 1), "Pod t1 twice"},
		{"a pod whose labels are no texts", "-f FILE", strings.Replace(taskPod, `"task"`, `7`, 1), "labels that are no texts"},
		{"a pod whose labels are a list", "-f FILE", strings.Replace(taskPod, `{"sandbox.namzu.ai/template":"task"}`, `[]`, 1), "labels that are no texts"},
		{"policies of two namespaces", "-f FILE -labels a=b", closedPolicy + strings.Replace(closedPolicy, `"lab"`, `"bar"`, 1), "namespaces bar and lab|-namespace"},
		{"exceptions that are none", "-f FILE -policy public-internet -except 10.0.0.0", closedPolicy + taskPod, "is no CIDR"},
		{"hosts that are none", "-f FILE -policy static -engine cilium -hosts *.example", closedPolicy + taskPod, "*.example"},
		{"no hosts", "-f FILE -policy static -engine cilium", closedPolicy + taskPod, "allowedHosts is empty"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			args := []string{"explain"}
			for _, arg := range strings.Fields(c.args) {
				if arg == "FILE" {
					arg = manifestFile(t, c.text)
				}
				args = append(args, arg)
			}
			r := smoke(t, args...)
			r.expect(t, exitUsage, strings.Split(c.words, "|")...)
			if r.stdout != "" || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("want one line on standard error\n%v", r)
			}
		})
	}
}

// Whatever a file holds, it is read the same in every form, and what is read
// can be judged.
func FuzzParseManifest(f *testing.F) {
	for _, seed := range []string{
		closedPolicy, openPolicy + ciliumNames, "[" + taskPod + "," + hostPod + "]",
		`{"kind":"NetworkPolicyList","items":[{"metadata":{"name":"a"}},{"kind":"Other"}]}`,
		`{"request":{},"response":{"status":200,"body":{"kind":"List","items":[{"kind":"Pod"}]}}}`,
		`{"response":{"body":"{\"kind\":\"Pod\"}"}}`, `{"before":{"metadata":{}},"after":{"kind":"Pod","metadata":{}}}`, "[[[[[[[[[[[]]]]]]]]]]]", "apiVersion: v1", `{"kind":"List"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, err := parseManifest(data)
		if err != nil {
			if objects != nil || err.Error() == "" {
				t.Fatalf("%q: %d objects and %v", data, len(objects), err)
			}
			return
		}
		for _, o := range objects {
			if kind, ok := o["kind"].(string); (!ok || kind == "") && o.Map("metadata") == nil || strings.HasSuffix(kind, "List") || kind == "Status" {
				t.Errorf("%q: %v is taken for an object", data, o)
			}
		}
		if _, err := policy.Explain(objects, policy.Question{Pod: policy.Pod{Namespace: "lab", Labels: map[string]string{"a": "b"}}, Engine: policy.Cilium}); err != nil {
			t.Errorf("%q: %v", data, err)
		}
		known := objects[:0:0]
		for _, o := range objects {
			if o["kind"] != nil {
				known = append(known, o)
			}
		}
		for _, form := range []any{known, map[string]any{"kind": "List", "items": known}} {
			if len(known) == 0 {
				break
			}
			again, err := parseManifest([]byte(asJSON(form)))
			if err != nil || asJSON(again) != asJSON(known) {
				t.Errorf("%q: read again it is %s, %v", data, asJSON(again), err)
			}
		}
	})
}

// The pod that has an address is known only if it is certain.
func TestPodAt(t *testing.T) {
	var task, host k8s.Object
	for text, o := range map[string]*k8s.Object{taskPod: &task, hostPod: &host} {
		if err := json.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
	}
	onNode := host.Clone()
	onNode["spec"] = map[string]any{"hostNetwork": true}
	twin := task.Clone()
	twin["status"] = host["status"]
	for _, c := range []struct {
		sentence string
		pods     []k8s.Object
		addr     string
		want     map[string]string
	}{
		{"the pod with that address", []k8s.Object{task, host}, "10.0.0.2", map[string]string{"role": "host"}},
		{"with it as the second one", []k8s.Object{task, host}, "2001:db8::2", map[string]string{"role": "host"}},
		{"with it in IPv6", []k8s.Object{task, host}, "::ffff:10.0.0.2", map[string]string{"role": "host"}},
		{"nobody", []k8s.Object{task, host}, "10.0.0.3", nil},
		{"a node rather than a pod", []k8s.Object{onNode}, "10.0.0.2", nil},
		{"one of two that differ", []k8s.Object{host, twin}, "10.0.0.2", nil},
	} {
		o, err := parseExplain([]string{"-f", "x", "-from", c.addr})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if peer := podAt(c.pods, o.from, nil); peer != nil {
			got = peer.Labels
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.sentence, got, c.want)
		}
	}
}
