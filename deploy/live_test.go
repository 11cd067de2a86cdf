package deploy_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// live is a real API server, with a namespace of the test's own.
type live struct {
	t         testing.TB
	admin     *k8s.Client
	namespace string
	names     *strings.Replacer // of the manifests, to the test's own
	undo      []func(context.Context)
}

// newLive skips the test without a server.
func newLive(t *testing.T) *live {
	t.Helper()
	if os.Getenv("RIG_SERVER") == "" {
		t.Skip("no RIG_SERVER: the live tier needs a real API server, see the README")
	}
	token, err := os.ReadFile(os.Getenv("RIG_ADMIN_TOKEN_FILE"))
	if err != nil {
		t.Fatal(err)
	}
	suffix := strings.ToLower(rand.Text()[:8])
	l := &live{t: t, namespace: namespace + "-" + suffix}
	// Everything of the namespace moves to the test's own; what is of the cluster
	// gets another name.
	old := []string{`"` + namespace + `"`, `"` + l.namespace + `"`, ":" + namespace + ":", ":" + l.namespace + ":"}
	for _, objects := range manifests(t) {
		for _, o := range objects {
			if kind := o.Text("kind"); kind != "Namespace" && o.Namespace() == "" {
				old = append(old, `"`+o.Name()+`"`, `"`+o.Name()+"-"+suffix+`"`)
			}
		}
	}
	l.names = strings.NewReplacer(old...)
	l.admin = l.client(string(token))
	t.Cleanup(l.clear)
	return l
}

func (l *live) client(token string) *k8s.Client {
	l.t.Helper()
	c, err := k8s.New(k8s.Config{
		Server: os.Getenv("RIG_SERVER"), CAFile: os.Getenv("RIG_CA"), Namespace: l.namespace,
		Token: func(context.Context) (string, error) { return strings.TrimSpace(token), nil },
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.CloseIdleConnections)
	return c
}

// clear deletes what the test has made, the last thing first, and waits for
// nothing: a namespace takes its time.
func (l *live) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for len(l.undo) > 0 {
		last := len(l.undo) - 1
		l.undo[last](ctx)
		l.undo = l.undo[:last]
	}
}

var builtin = map[string]k8s.Resource{
	"v1 Namespace":                                                     k8s.Namespaces,
	"v1 ServiceAccount":                                                {Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount"},
	"rbac.authorization.k8s.io/v1 Role":                                {Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "roles", Kind: "Role"},
	"rbac.authorization.k8s.io/v1 RoleBinding":                         {Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "rolebindings", Kind: "RoleBinding"},
	"rbac.authorization.k8s.io/v1 ClusterRole":                         {Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "clusterroles", Kind: "ClusterRole", ClusterScoped: true},
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding":                  {Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "clusterrolebindings", Kind: "ClusterRoleBinding", ClusterScoped: true},
	"networking.k8s.io/v1 NetworkPolicy":                               k8s.NetworkPolicies,
	"cilium.io/v2 CiliumNetworkPolicy":                                 k8s.CiliumNetworkPolicies,
	"extensions.agents.x-k8s.io/v1beta1 SandboxTemplate":               k8s.SandboxTemplates,
	"extensions.agents.x-k8s.io/v1beta1 SandboxWarmPool":               k8s.SandboxWarmPools,
	"extensions.agents.x-k8s.io/v1beta1 SandboxClaim":                  k8s.SandboxClaims,
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":        k8s.ValidatingAdmissionPolicies,
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": k8s.ValidatingAdmissionPolicyBindings,
}

// create makes an object and remembers to delete it.
func (l *live) create(ctx context.Context, o k8s.Object) k8s.Object {
	l.t.Helper()
	r, known := builtin[o.Text("apiVersion")+" "+o.Text("kind")]
	if !known {
		l.t.Fatalf("no resource is known for %s %s", o.Text("apiVersion"), o.Text("kind"))
	}
	stored, err := l.admin.Create(ctx, r, o)
	if err != nil {
		l.t.Fatalf("%s %s: %v", r.Kind, o.Name(), err)
	}
	l.undo = append(l.undo, func(ctx context.Context) {
		if _, err := l.admin.Delete(ctx, r, o.Name(), k8s.DeleteOptions{}); err != nil && !k8s.IsNotFound(err) {
			l.t.Errorf("deleting %s %s: %v", r.Kind, o.Name(), err)
		}
	})
	return stored
}

// apply creates the objects of a file under the test's names.
func (l *live) apply(ctx context.Context, file string) {
	l.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		l.t.Fatal(err)
	}
	objects, err := parseManifest([]byte(l.names.Replace(string(data))))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, o := range objects {
		l.create(ctx, o)
	}
}

// account returns a client with a token of a service account.
func (l *live) account(ctx context.Context, name string) *k8s.Client {
	l.t.Helper()
	admin, err := os.ReadFile(os.Getenv("RIG_ADMIN_TOKEN_FILE"))
	if err != nil {
		l.t.Fatal(err)
	}
	ca, err := os.ReadFile(os.Getenv("RIG_CA"))
	if err != nil {
		l.t.Fatal(err)
	}
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/serviceaccounts/%s/token", os.Getenv("RIG_SERVER"), l.namespace, name)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`))
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(admin)))
	r.Header.Set("Content-Type", "application/json")
	transport := trusting(l.t, ca)
	defer transport.CloseIdleConnections()
	reply, err := transport.RoundTrip(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, 1<<20))
	o, parseErr := k8s.ParseObject(body)
	if err != nil || parseErr != nil || o.Text("status", "token") == "" {
		l.t.Fatalf("no token for %s: %s", name, reply.Status)
	}
	return l.client(o.Text("status", "token"))
}

// until repeats a look, a few times a second, until it is satisfied.
func (l *live) until(ctx context.Context, what string, satisfied func() (bool, error)) {
	l.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := satisfied()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			l.t.Fatalf("%s: not before the time was up: %v", what, err)
		}
	}
}

// order is how the README has it.
var order = []string{
	"namespace.json", "rbac-host.json", "rbac-claimant.json", "rbac-watch.json", "rbac-cluster-policies.json", "networkpolicy-baseline.json",
	"networkpolicy-task-egress.json", "sandboxtemplate-task.json", "fence.json", "rbac-per-sandbox.json", "sandboxwarmpool.json",
}

// Every manifest is taken by a real API server, and with all of them a host
// proves the boundary of a pod and narrows that of a sandbox, within the fence.
func TestLiveManifests(t *testing.T) {
	l := newLive(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if len(order) != len(contents) {
		t.Fatalf("%d files are applied and there are %d", len(order), len(contents))
	}
	for _, file := range order {
		l.apply(ctx, file)
	}
	claim := l.create(ctx, k8s.Object{
		"apiVersion": k8s.SandboxClaims.APIVersion(), "kind": k8s.SandboxClaims.Kind,
		"metadata": map[string]any{"name": "owner", "namespace": l.namespace},
		"spec":     map[string]any{"warmPoolRef": map[string]any{"name": "pool"}},
	})
	host := l.account(ctx, "namzu-sandbox-host")
	l.until(ctx, "the rights of the host", func() (bool, error) {
		_, err := host.Get(ctx, k8s.SandboxClaims, "owner")
		return err == nil, err
	})

	fence := strings.Trim(l.names.Replace(`"namzu-per-sandbox-egress"`), `"`)
	verifier, err := policy.New(host, perSandbox(l.namespace, fence))
	if err != nil {
		t.Fatal(err)
	}
	defer verifier.Close()
	pod := direct
	pod.Namespace = l.namespace
	report, err := verifier.Check(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range report.Unread {
		if u.Why != policy.UnreadAbsent {
			t.Errorf("with the manifests for it, %s may not be read: %s", u.Resource, u.Reason)
		}
	}
	l.fenceInForce(ctx, host)
	t.Run("a list of hosts goes through the fence", func(t *testing.T) {
		n, err := verifier.Narrower(policy.Owner{Kind: "SandboxClaim", Name: claim.Name(), UID: claim.UID()})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		for _, hosts := range [][]string{{"git.example", ".pkg.example"}, {"other.example"}} {
			if err := n.Set(ctx, hosts); err != nil {
				t.Fatal(err)
			}
		}
		own := policy.PerSandboxNamePrefix + claim.UID()
		for _, wide := range []string{
			`{"spec":{"egress":[{"toEntities":["world"]}]}}`, `{"spec":{"ingress":[{}]}}`, `{"spec":{"endpointSelector":{"matchLabels":null}}}`, `{"metadata":{"ownerReferences":null}}`,
		} {
			var patch k8s.Object
			if err := json.Unmarshal([]byte(wide), &patch); err != nil {
				t.Fatal(err)
			}
			if _, err := host.MergePatch(ctx, k8s.CiliumNetworkPolicies, own, patch); k8s.KindOf(err) != k8s.Forbidden || !strings.Contains(err.Error(), "rule ") {
				t.Errorf("the change %s gives %v", wide, err)
			}
		}
		if err := n.Set(ctx, nil); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("the fence decides as recorded", func(t *testing.T) { l.fenceDecides(ctx, t, host) })
}

// fenceInForce waits until the server acts on the fence.
func (l *live) fenceInForce(ctx context.Context, host *k8s.Client) {
	l.t.Helper()
	l.until(ctx, "the fence", func() (bool, error) {
		_, err := host.Create(ctx, k8s.CiliumNetworkPolicies, l.policy("not-ours", "{}"))
		if err == nil {
			_, err = l.admin.Delete(ctx, k8s.CiliumNetworkPolicies, "not-ours", k8s.DeleteOptions{})
			return false, err
		}
		return strings.Contains(err.Error(), "rule 1:"), err
	})
}

func (l *live) policy(name, spec string) k8s.Object {
	l.t.Helper()
	var v any
	if err := json.NewDecoder(bytes.NewReader([]byte(spec))).Decode(&v); err != nil {
		l.t.Fatal(err)
	}
	return k8s.Object{
		"apiVersion": k8s.CiliumNetworkPolicies.APIVersion(), "kind": k8s.CiliumNetworkPolicies.Kind,
		"metadata": map[string]any{"name": name, "namespace": l.namespace}, "spec": v,
	}
}
