package deploy_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// The pods that the manifests are about: pooled or direct they carry the
// template's label, and pooled ones the controller's as well.
var (
	agentPort = []policy.ContainerPort{{Name: "agent", Protocol: "TCP", Port: 1024}}
	direct    = policy.Pod{Namespace: namespace, Labels: map[string]string{policy.TemplateLabelKey: "task"}, Ports: agentPort, Known: true}
	pooled    = policy.Pod{Namespace: namespace, Ports: agentPort, Known: true,
		Labels: map[string]string{policy.TemplateLabelKey: "task", "agents.x-k8s.io/sandbox-template-ref-hash": "f448886c", "agents.x-k8s.io/sandbox-name-hash": "3472ba4f"}}
)

func TestBaselineClosesEverySandbox(t *testing.T) {
	baseline := []k8s.Object{one(t, "networkpolicy-baseline.json")}
	for _, pod := range []policy.Pod{direct, pooled} {
		got, err := policy.Explain(baseline, policy.Question{Pod: pod})
		if err != nil {
			t.Fatal(err)
		}
		if got.Egress.Verdict != policy.Closed || got.Ingress.Verdict != policy.Closed {
			t.Errorf("%v: %s; %s", pod.Labels, got.Egress.Text, got.Ingress.Text)
		}
	}
	peer := func(ns string, labels map[string]string) *policy.Endpoint {
		return &policy.Endpoint{Pod: &policy.PeerPod{Namespace: ns, Labels: labels}, Port: 53, Protocol: "UDP"}
	}
	outside := &policy.Endpoint{Addr: netip.MustParseAddr("192.0.2.1"), Port: 443, Outside: true}
	host, dns := map[string]string{"namzu.ai/component": "host"}, map[string]string{"k8s-app": "kube-dns"}
	for _, c := range []struct {
		sentence string
		pod      policy.Pod
		to, from *policy.Endpoint
		want     policy.Openness
	}{
		{"a host reaches the agent", pooled, nil, peer(namespace, host), policy.Open},
		{"one of another namespace does not", pooled, nil, peer("default", host), policy.Closed},
		{"another sandbox does not", pooled, nil, peer(namespace, direct.Labels), policy.Closed},
		{"nobody from outside does", pooled, nil, outside, policy.Closed},
		{"the resolver can be asked", direct, peer("kube-system", dns), nil, policy.Open},
		{"no other pod of its namespace", direct, peer("kube-system", nil), nil, policy.Closed},
		{"nothing outside can be reached", direct, outside, nil, policy.Closed},
		{"not even for lookups", direct, &policy.Endpoint{Addr: netip.MustParseAddr("192.0.2.1"), Port: 53, Protocol: "UDP", Outside: true}, nil, policy.Closed},
		{"a pod without the label is none of its business", policy.Pod{Namespace: namespace, Known: true}, outside, nil, policy.Open},
	} {
		got, err := policy.Explain(baseline, policy.Question{Pod: c.pod, To: c.to, From: c.from})
		if err != nil {
			t.Fatal(err)
		}
		answer := got.Egress
		if c.to == nil {
			answer = got.Ingress
		}
		if answer.Verdict != c.want {
			t.Errorf("%s: got %q, want %s", c.sentence, answer.Text, c.want)
		}
	}
}

// The object that is to be applied for deny-all is the one that the
// configuration translates to.
func TestTaskEgressIsTheTranslation(t *testing.T) {
	v, err := policy.New(client(t, http.NotFoundHandler()), policy.Config{Namespace: namespace, Template: "task", Egress: &policy.Egress{}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	want, err := v.Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := one(t, "networkpolicy-task-egress.json"); !reflect.DeepEqual(plain(t, got), plain(t, want)) {
		t.Errorf("the manifest is\n%v\nwant\n%v", plain(t, got), plain(t, want))
	}
}

func plain(t testing.TB, o k8s.Object) (v any) {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// client returns a client of a server in this process.
func client(t testing.TB, h http.Handler) *k8s.Client {
	t.Helper()
	server := httptest.NewServer(h)
	c, err := k8s.New(k8s.Config{Server: server.URL, Namespace: namespace, Token: func(context.Context) (string, error) { return "token", nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.CloseIdleConnections()
		server.Close()
	})
	return c
}

// fenced is a server that has the objects of fence.json and stores policies.
type fenced struct {
	t      testing.TB
	fence  []k8s.Object
	mu     sync.Mutex
	stored map[string]json.RawMessage
}

func (f *fenced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for _, o := range f.fence {
		if path.Base(r.URL.Path) == o.Name() {
			_ = json.NewEncoder(w).Encode(o)
			return
		}
	}
	const collection = "/apis/cilium.io/v2/namespaces/" + namespace + "/ciliumnetworkpolicies"
	if r.Method == http.MethodPost && r.URL.Path == collection {
		body, err := io.ReadAll(r.Body)
		o, parseErr := k8s.ParseObject(body)
		if err != nil || parseErr != nil {
			f.t.Errorf("%v %v in %s", err, parseErr, body)
			return
		}
		f.stored[collection+"/"+o.Name()] = body
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
		return
	}
	if body, there := f.stored[r.URL.Path]; there && r.Method == http.MethodGet {
		_, _ = w.Write(body)
		return
	}
	f.t.Errorf("unexpected %s %s", r.Method, r.URL.Path)
	http.Error(w, "", http.StatusNotImplemented)
}

// perSandbox is the configuration of a host that uses the fence of that name.
func perSandbox(namespace, fence string) policy.Config {
	return policy.Config{Namespace: namespace, Template: "task", Egress: &policy.Egress{
		PerSandbox: &policy.PerSandbox{Engine: policy.Cilium, AdmissionPolicyName: fence, AdmissionPolicyBindingName: strings.Replace(fence, "egress", "egress-binding", 1)},
	}}
}

// A host takes the fence for one that stands, and one that was weakened for one
// that does not.
func TestFenceIsAccepted(t *testing.T) {
	for _, c := range []struct {
		sentence string
		weaken   func(fence, binding k8s.Object)
		accepted bool
	}{
		{"as it is", func(_, _ k8s.Object) {}, true},
		{"that lets pass on errors", func(fence, _ k8s.Object) { fence.Map("spec")["failurePolicy"] = "Ignore" }, false},
		{"that is not about updates", func(fence, _ k8s.Object) {
			fence.List("spec", "matchConstraints", "resourceRules")[0].(map[string]any)["operations"] = []any{"CREATE"}
		}, false},
		{"that only warns", func(_, binding k8s.Object) { binding.Map("spec")["validationActions"] = []any{"Warn", "Audit"} }, false},
		{"that is for another namespace", func(_, binding k8s.Object) {
			binding.Map("spec", "matchResources", "namespaceSelector", "matchLabels")["kubernetes.io/metadata.name"] = "other"
		}, false},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			objects := manifests(t)["fence.json"]
			c.weaken(objects[0], objects[1])
			server := &fenced{t: t, fence: objects, stored: map[string]json.RawMessage{}}
			v, err := policy.New(client(t, server), perSandbox(namespace, "namzu-per-sandbox-egress"))
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			n, err := v.Narrower(policy.Owner{Kind: "SandboxClaim", Name: "namzu-task-1", UID: "0-1"})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			err = n.Set(t.Context(), []string{"git.example"})
			if e, refused := errors.AsType[*policy.FenceError](err); c.accepted && (err != nil || len(server.stored) != 1) ||
				!c.accepted && (!refused || e.Problem != policy.FenceIneffective || len(server.stored) != 0) {
				t.Errorf("got %v, %d policies written; want accepted %t", err, len(server.stored), c.accepted)
			}
		})
	}
}

// The template, the pool and the policies together are enough for a verified
// create, from the pool and without it.
func TestManifestsGiveASandbox(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the simulated cluster runs real guests, which needs Linux")
	}
	template, pool := one(t, "sandboxtemplate-task.json"), one(t, "sandboxwarmpool.json")
	cluster, err := sim.New(sim.Config{Namespace: namespace, Token: "token", Templates: []map[string]any{template}, Pools: []map[string]any{pool}})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	for _, file := range []string{"networkpolicy-baseline.json", "networkpolicy-task-egress.json"} {
		if err := cluster.Apply("networkpolicies", one(t, file)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := cluster.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []string{"pool", ""} {
		backend, err := acquire.New(client(t, cluster), acquire.Config{Template: "task", Pool: pool, AgentAddress: acquire.ByPodIP, Egress: &policy.Egress{}})
		if err != nil {
			t.Fatal(err)
		}
		sandbox, err := backend.Create(ctx, acquire.Options{})
		if err != nil {
			t.Fatalf("from pool %q: %v", pool, err)
		}
		var seen []string
		for _, e := range append(sandbox.Report().Policies.Egress, sandbox.Report().Policies.Ingress...) {
			seen = append(seen, e.Name)
		}
		if names := strings.Join(seen, " "); !strings.Contains(names, "namzu-sandbox-baseline") || !strings.Contains(names, "task-egress") || strings.Contains(names, "network-policy") {
			t.Errorf("from pool %q: the policies that select the pod are %s", pool, names)
		}
		if err := errors.Join(sandbox.Release(ctx), backend.Close(ctx)); err != nil {
			t.Error(err)
		}
	}
}

// What the probe asks for is in the template already, not left to a default.
func TestTemplateIsDeprivileged(t *testing.T) {
	template := one(t, "sandboxtemplate-task.json")
	pod := k8s.Object(template.Map("spec", "podTemplate"))
	if pod.Labels()[policy.TemplateLabelKey] != template.Name() {
		t.Errorf("the pods' labels are %v; policies select them by the name of the template", pod.Labels())
	}
	spec := pod.Map("spec")
	for _, c := range []struct {
		path []string
		want any
	}{
		{[]string{"automountServiceAccountToken"}, false},
		{[]string{"securityContext", "runAsNonRoot"}, true},
		{[]string{"securityContext", "seccompProfile", "type"}, "RuntimeDefault"},
	} {
		if got := spec.Field(c.path...); got != c.want {
			t.Errorf("%v is %v, want %v", c.path, got, c.want)
		}
	}
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC", "volumes", "serviceAccountName"} {
		if spec[field] != nil {
			t.Errorf("%s is %v", field, spec[field])
		}
	}
	for _, v := range spec.List("containers") {
		container := k8s.Object(v.(map[string]any))
		context := container.Map("securityContext")
		if context.Field("allowPrivilegeEscalation") != false || context.Field("privileged") != false || !reflect.DeepEqual(context.List("capabilities", "drop"), []any{"ALL"}) || context.Field("capabilities", "add") != nil {
			t.Errorf("container %s has securityContext %v", container.Text("name"), context)
		}
		env := map[string]any{}
		for _, v := range container.List("env") {
			e := v.(map[string]any)
			env[e["name"].(string)] = e
		}
		token := k8s.Object(env).Field("NAMZU_AGENT_BIND_TOKEN", "valueFrom", "fieldRef", "fieldPath")
		if port := k8s.Object(env).Field("NAMZU_AGENT_TCP_PORT", "value"); token != "metadata.uid" || port != "1024" {
			t.Errorf("the agent's token is the field %v and its port %v", token, port)
		}
	}
	pool := one(t, "sandboxwarmpool.json")
	if pool.Text("spec", "sandboxTemplateRef", "name") != template.Name() || template.Text("spec", "networkPolicyManagement") != "Unmanaged" {
		t.Errorf("pool %v of template %v", pool["spec"], template["spec"])
	}
}
