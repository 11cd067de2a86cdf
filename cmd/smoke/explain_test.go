package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// The recordings are those of a real API server and controller; their README
// says how they were made.
const (
	recordedPolicy = "../../testdata/fixtures/networkpolicy.json"
	recordedPod    = "../../testdata/fixtures/pod-adopted.json"
)

// A policy of every direction for pods of a template, and a pod of it.
const (
	closedPolicy = `{"kind":"NetworkPolicy","metadata":{"name":"closed","namespace":"lab"},"spec":{"podSelector":{"matchLabels":{"sandbox.namzu.ai/template":"task"}},"policyTypes":["Ingress","Egress"],` +
		`"ingress":[{"from":[{"podSelector":{"matchLabels":{"role":"host"}}}],"ports":[{"port":"agent"}]}]}}`
	openPolicy  = `{"kind":"NetworkPolicy","metadata":{"name":"open","namespace":"lab"},"spec":{"podSelector":{},"policyTypes":["Ingress","Egress"],"ingress":[{}],"egress":[{"to":[{"ipBlock":{"cidr":"192.0.2.0/24"}}]}]}}`
	ciliumNames = `{"kind":"CiliumNetworkPolicy","metadata":{"name":"names","namespace":"lab"},"spec":{"endpointSelector":{},"egress":[{"toFQDNs":[{"matchName":"git.example"}]}]}}`
	taskPod     = `{"kind":"Pod","metadata":{"name":"t1","namespace":"lab","labels":{"sandbox.namzu.ai/template":"task"}},"spec":{"containers":[{"name":"a","ports":[{"name":"agent","containerPort":1024}]}]},"status":{"podIP":"10.0.0.1"}}`
	hostPod     = `{"kind":"Pod","metadata":{"name":"h1","namespace":"lab","labels":{"role":"host"}},"spec":{"containers":[{"name":"h"}]},"status":{"podIP":"10.0.0.2","podIPs":[{"ip":"10.0.0.2"},{"ip":"2001:db8::2"}]}}`
)

// manifestFile writes a file for -f.
func manifestFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policies.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// decodeExplanation reads the one document on standard output, strictly.
func decodeExplanation(t testing.TB, r ran) explanation {
	t.Helper()
	var x explanation
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&x); err != nil {
		t.Fatalf("standard output is not the document: %v\n%v", err, r)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("standard output holds more than one document\n%v", r)
	}
	if x.OK != (r.code == exitOK) {
		t.Errorf("ok is %t with exit code %d", x.OK, r.code)
	}
	var keys struct {
		Egress, Ingress struct {
			Verdict  string
			Examined []map[string]any
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &keys); err != nil {
		t.Fatal(err)
	}
	for _, side := range [][]map[string]any{keys.Egress.Examined, keys.Ingress.Examined} {
		if side == nil {
			t.Errorf("examined is no list\n%v", r)
		}
		for _, examined := range side {
			for _, key := range []string{"kind", "name", "verdict", "detail", "rule", "peer"} {
				if _, there := examined[key]; !there {
					t.Errorf("%v has no key %s", examined, key)
				}
			}
		}
	}
	return x
}

// Why the policy that the controller makes for pooled pods widens deny-all, in
// one line, from what a real server stored.
func TestExplainRecordedPolicy(t *testing.T) {
	t.Parallel()
	const why = "open: NetworkPolicy/task-network-policy (egress[0]: to[0] ipBlock 0.0.0.0/0 except 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 169.254.0.0/16 " +
		"admits 168.63.129.16 (a cloud's host agent) on every port, which is not allowed; the sandbox controller makes this policy for pods of pools: " +
		"give the SandboxTemplate a networkPolicy block, or set its networkPolicyManagement to Unmanaged) lets out more than is configured; asked is deny-all"
	const labels = "agents.x-k8s.io/sandbox-name-hash=3472ba4f,agents.x-k8s.io/sandbox-template-ref-hash=f448886c,rig=task"
	for _, args := range [][]string{{"-f", recordedPod}, {"-labels", labels}} {
		r := smoke(t, append([]string{"explain", "-f", recordedPolicy}, args...)...)
		r.expect(t, exitFailed)
		if first, _, _ := strings.Cut(r.stdout, "\n"); first != "egress   "+why {
			t.Errorf("the first line is\n%s\nwant\n%s", first, "egress   "+why)
		}
		x := decodeExplanation(t, smoke(t, append([]string{"explain", "-json", "-f", recordedPolicy}, args...)...))
		if x.Egress.Text != why || x.Egress.Verdict != policy.Open || x.Ingress.Verdict != policy.Closed || x.Pod.Namespace != "sandbox-rig" {
			t.Errorf("the document is %+v", x)
		}
		if e := x.Egress.Examined; len(e) != 1 || e[0].Name != "task-network-policy" || e[0].Verdict != policy.WidensEgress || e[0].Rule != "egress[0]" || !strings.HasPrefix(e[0].Peer, "to[0] ipBlock 0.0.0.0/0") {
			t.Errorf("examined is %+v", e)
		}
	}
	// Of one that was created directly the policy knows nothing.
	smoke(t, "explain", "-f", recordedPolicy, "-labels", "sandbox.namzu.ai/template=task").expect(t, exitFailed,
		"egress   open: no policy that selects the pod denies egress", "ingress  open: no policy that selects the pod denies ingress", "egress   1 that do not select the pod")
	// But every kind that is as wide as it is.
	smoke(t, "explain", "-f", recordedPolicy, "-labels", labels, "-policy", "allow-all").expect(t, exitOK, "closed: what is let out is within allow-all")
}

func TestExplainFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sentence string
		file     string
		args     string
		code     int
		words    string // separated by |
	}{
		{"a pod of a file, held against deny-all", closedPolicy + taskPod, "", exitOK, "egress   closed: what is let out is within deny-all|ingress  closed|for Pod t1 of namespace lab|ports agent 1024/TCP"},
		{"and against a policy that allows nothing", closedPolicy + taskPod, "-policy no-network", exitOK, "within no-network"},
		{"two policies, one of which opens both", "[" + closedPolicy + "," + openPolicy + "," + taskPod + "]", "", exitFailed, "egress   open: NetworkPolicy/open (egress[0]|ingress  open: NetworkPolicy/open (ingress[0]"},
		{"which is within what another one allows", openPolicy + taskPod, "-policy public-internet -from 192.0.2.1", exitFailed, "egress   closed: what is let out is within public-internet|ingress  open"},
		{"but for what that excepts", openPolicy + taskPod, "-policy public-internet -except 192.0.2.128/25", exitFailed, "admits 192.0.2.128|asked is public-internet"},
		{"a destination that is admitted", openPolicy + taskPod, "-to 192.0.2.7:443/tcp", exitFailed, "NetworkPolicy/open egress[0] to[0] ipBlock 192.0.2.0/24 admits 192.0.2.7 on TCP 443"},
		{"one that is not, though the agent's port is open", openPolicy + taskPod, "-to 198.51.100.7:443", exitOK, "egress   closed: NetworkPolicy/open isolates the pod"},
		{"an address of IPv6", openPolicy + taskPod, "-to [2001:db8::1]:53/UDP", exitOK, "2001:db8::1 on UDP 53"},
		{"a source, though more is let out than by deny-all", closedPolicy + openPolicy + taskPod, "-from 10.9.9.9", exitFailed, "ingress  open: NetworkPolicy/open ingress[0] every peer admits 10.9.9.9"},
		{"both, of which one is open", openPolicy + taskPod, "-to 198.51.100.7:443 -from 10.9.9.9", exitFailed, "egress   closed|ingress  open"},
		{"a source that may be the pod that is admitted", closedPolicy + taskPod, "-from 10.0.0.2", exitFailed, "ingress  unknown|if it is the address of such a pod"},
		{"the very pod, known by the files", closedPolicy + taskPod + hostPod, "-pod t1 -from 2001:db8::2", exitFailed, "ingress  open: NetworkPolicy/closed ingress[0] from[0] podSelector {role=host} admits"},
		{"another pod, known by the files", closedPolicy + taskPod + hostPod, "-pod h1 -from 10.0.0.1", exitFailed, "ingress  open: no policy of type Ingress selects the pod"},
		{"a source that certainly is no pod", closedPolicy + taskPod, "-from 10.0.0.2 -outside", exitOK, "ingress  closed"},
		{"a port by name, which labels alone do not tell", closedPolicy, "-labels sandbox.namzu.ai/template=task", exitFailed, `ingress  unknown|port "agent" is a name|its ports are not known`},
		{"labels instead of the pod's own", closedPolicy + taskPod, "-labels tier=gold", exitFailed, "no policy that selects the pod denies egress"},
		{"no labels at all", closedPolicy, "-labels=", exitFailed, "with labels (none)"},
		{"another agent port", openPolicy + taskPod, "-agent-port 9 -policy public-internet", exitFailed, "opens agent port 9"},
		{"an empty list of policies closes nothing", `{"kind":"NetworkPolicyList","items":[]}`, "-labels a=b", exitFailed, "of namespace default|no policy that selects the pod denies egress"},
		{"an array of none closes nothing either", `[]`, "-labels a=b", exitFailed, "no policy that selects the pod denies egress"},
		{"a list whose items have no kind", `{"kind":"NetworkPolicyList","items":[` + strings.Replace(closedPolicy, `"kind":"NetworkPolicy",`, "", 1) + `,null]}`, "-labels a=b", exitUsage, "document 1.items[1] is null"},
		{"a recorded answer", `{"request":{"method":"GET"},"response":{"status":200,"body":{"kind":"List","items":[` + closedPolicy + `,` + taskPod + `]}}}`, "", exitOK, "egress   closed|for Pod t1"},
		{"a recorded answer whose body is a text", `{"response":{"body":` + quote(closedPolicy) + `}}` + taskPod, "", exitOK, "egress   closed"},
		{"a policy of another namespace is not the pod's", closedPolicy, "-labels sandbox.namzu.ai/template=task -namespace other", exitFailed, "open: no policy|not judged: 1 NetworkPolicy of another namespace"},
		{"what is no policy is said", closedPolicy + taskPod + `{"kind":"Service","metadata":{"name":"s"}}`, "", exitOK, "not judged: 1 Service"},
		{"labels of a namespace are taken from the files", `{"kind":"NetworkPolicy","metadata":{"name":"team"},"spec":{"podSelector":{},"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"team":"x"}}}]}]}}{"kind":"Namespace","metadata":{"name":"lab","labels":{"team":"y"}}}` + taskPod,
			"-from 10.9.9.9 -policy allow-all", exitFailed, "egress   closed|ingress  unknown"},
		{"so that what depends on them is known", `{"kind":"NetworkPolicy","metadata":{"name":"team"},"spec":{"podSelector":{},"policyTypes":["Ingress","Egress"],"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"team":"x"}}}]}]}}{"kind":"Namespace","metadata":{"name":"lab","labels":{"team":"y"}}}` + taskPod, "", exitOK, "ingress  closed"},
		{"and otherwise is not", `{"kind":"NetworkPolicy","metadata":{"name":"team"},"spec":{"podSelector":{},"policyTypes":["Ingress","Egress"],"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"team":"x"}}}]}]}}` + taskPod, "", exitFailed, "ingress  unknown|may admit the other sandboxes"},
		{"a pod on its node's network is out of reach of policies", closedPolicy + strings.Replace(taskPod, `"spec":{`, `"spec":{"hostNetwork":true,`, 1), "", exitFailed, "unknown: the pod uses its node's network"},
		{"a policy that cannot be read is not let pass", `{"kind":"NetworkPolicy","metadata":{"name":"bad"},"spec":7}` + closedPolicy + taskPod, "", exitFailed, "unknown: NetworkPolicy/bad (spec is not an object) cannot be judged"},
		{"Cilium's policies count with its engine only", ciliumNames + closedPolicy + taskPod, "", exitOK, "not judged: 1 CiliumNetworkPolicy (engine core)|-engine cilium"},
		{"and then widen", ciliumNames + closedPolicy + taskPod, "-engine cilium", exitFailed, "open: CiliumNetworkPolicy/names (egress[0]"},
		{"unless the name is allowed", ciliumNames + closedPolicy + taskPod, "-engine cilium -policy static -hosts git.example,.x.example", exitOK, "within static"},
		{"a destination by the name it was looked up by", ciliumNames + taskPod, "-engine cilium -to 192.0.2.1:443 -to-name GIT.example -outside", exitFailed, "admits GIT.example (192.0.2.1) on TCP 443"},
		{"or by another", ciliumNames + taskPod, "-engine cilium -to 192.0.2.1:443 -to-name hub.example", exitOK, "closed"},
		{"or by none that is known", ciliumNames + taskPod, "-engine cilium -to 192.0.2.1:443", exitFailed, "unknown|what such a name resolves to"},
		{"nothing in a policy moves the cursor", strings.Replace(openPolicy, `"name":"open"`, `"name":"o\u001b[2Jp\nen"`, 1) + taskPod, "", exitFailed, "o [2Jp en"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"explain", "-f", manifestFile(t, c.file)}, strings.Fields(c.args)...)
			r := smoke(t, args...)
			r.expect(t, c.code, strings.Split(c.words, "|")...)
			if strings.Contains(r.stdout+r.stderr, "\x1b") || c.code == exitUsage && (r.stdout != "" || strings.Count(r.stderr, "\n") != 1) {
				t.Errorf("the output is not as it should be\n%v", r)
			}
			if c.code != exitUsage {
				decodeExplanation(t, smoke(t, append(args, "-json")...))
			}
		})
	}
}

func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// The command answers what package policy answers, whatever form the objects
// come in.
func TestExplainAsThePackageDoes(t *testing.T) {
	t.Parallel()
	cases := 0
	for _, file := range []string{"policy-union.json", "policy-ingress.json"} {
		raw, err := os.ReadFile(filepath.Join("../../policy/testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var content struct {
			Cases []struct {
				ID    string
				Input struct {
					Engine       string
					PodLabels    map[string]string
					Core, Cilium []any
				}
			}
		}
		if err := json.Unmarshal(raw, &content); err != nil {
			t.Fatal(err)
		}
		for _, c := range content.Cases {
			objects := append(objectsOf(c.Input.Core, "NetworkPolicy"), objectsOf(c.Input.Cilium, "CiliumNetworkPolicy")...)
			want, err := policy.Explain(objects, policy.Question{Pod: policy.Pod{Namespace: "lab-7", Labels: c.Input.PodLabels}, Engine: policy.Engine(c.Input.Engine)})
			if err != nil {
				t.Fatalf("%s: %v", c.ID, err)
			}
			var labels []string
			for key, value := range c.Input.PodLabels {
				labels = append(labels, key+"="+value)
			}
			args := []string{"explain", "-json", "-namespace", "lab-7", "-labels", strings.Join(labels, ",")}
			if c.Input.Engine != "" {
				args = append(args, "-engine", c.Input.Engine)
			}
			for _, text := range []string{asJSON(objects), asJSON(map[string]any{"kind": "List", "items": objects}), "\n" + asJSON(map[string]any{"response": map[string]any{"body": map[string]any{"kind": "List", "items": objects}}})} {
				r := smokeWith(t.Context(), strings.NewReader(text), nil, append(args, "-f", "-")...)
				x := decodeExplanation(t, r)
				if x.Egress.Verdict != want.Egress.Verdict || x.Ingress.Verdict != want.Ingress.Verdict || len(x.Egress.Examined) != len(want.Egress.Examined) {
					t.Errorf("%s: %s, %s; want %s, %s\n%v", c.ID, x.Egress.Text, x.Ingress.Text, want.Egress.Text, want.Ingress.Text, r)
				}
				cases++
			}
		}
	}
	if cases < 300 {
		t.Errorf("only %d cases", cases)
	}
}

// objectsOf gives the objects of a list their kind. Items that are no objects
// are left out: files with those are refused.
func objectsOf(list []any, kind string) []k8s.Object {
	out := []k8s.Object{}
	for _, v := range list {
		if o, ok := v.(map[string]any); ok {
			if o["kind"] == nil {
				o["kind"] = kind
			}
			out = append(out, o)
		}
	}
	return out
}

func asJSON(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}
