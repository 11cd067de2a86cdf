package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// explained is a simulated cluster with the flags of explain that lead to it.
func explained(t testing.TB, config sim.Config) (*sim.Cluster, []string) {
	t.Helper()
	c, flags := serve(t, config)
	return c, append([]string{"explain"}, flags[:len(flags)-2]...) // without -file-bytes
}

// pooled is the name of a pod of the pool.
func pooled(t testing.TB, c *sim.Cluster) string {
	t.Helper()
	for _, o := range c.List("pods") {
		metadata, _ := o["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		return name
	}
	t.Fatal("the pool has no pod")
	return ""
}

func apply(t testing.TB, c *sim.Cluster, resource, name, spec string) {
	t.Helper()
	if err := c.Apply(resource, map[string]any{"metadata": map[string]any{"name": name}, "spec": decodeAny(t, spec)}); err != nil {
		t.Fatal(err)
	}
}

func TestExplainACluster(t *testing.T) {
	t.Parallel()
	c, flags := explained(t, sim.Config{})
	pod := pooled(t, c)
	ask := func(args ...string) []string { return append(flags[:len(flags):len(flags)], args...) }

	smoke(t, ask("-pod", pod)...).expect(t, exitOK, "egress   closed: what is let out is within deny-all", "ingress  closed", "for Pod "+pod, "ports agent 1024/TCP",
		"egress   NetworkPolicy/task-network-policy within", "not read adminnetworkpolicies.policy.networking.k8s.io: the cluster does not serve it")
	smoke(t, ask("-pod", pod, "-policy", "no-network")...).expect(t, exitFailed, "NetworkPolicy/task-network-policy (egress[0]", "asked is no-network")
	smoke(t, ask("-labels", "sandbox.namzu.ai/template=task")...).expect(t, exitFailed, "no policy that selects the pod denies egress", "1 that do not select the pod")
	x := decodeExplanation(t, smoke(t, ask("-json", "-pod", pod, "-to", "192.0.2.1:443", "-from", "10.0.0.9", "-outside")...))
	if x.Egress.Verdict != policy.Closed || x.Ingress.Verdict != policy.Closed || x.Pod.Name != pod || len(x.Asked) != 2 {
		t.Errorf("the document is %+v", x)
	}

	// Another administrator opens the pod, in more policies than fit on a page.
	for i := range 600 {
		apply(t, c, "ciliumnetworkpolicies", fmt.Sprintf("p%03d", i), `{"endpointSelector":{"matchLabels":{"other":"pod"}},"egress":[{"toEntities":["all"]}]}`)
	}
	apply(t, c, "ciliumnetworkpolicies", "zz-last", `{"endpointSelector":{},"egress":[{"toEntities":["world"]}],"ingress":[{}]}`)
	smoke(t, ask("-pod", pod)...).expect(t, exitOK, "not judged: 601 CiliumNetworkPolicy (engine core)", "-engine cilium")
	smoke(t, ask("-pod", pod, "-engine", "cilium")...).expect(t, exitFailed, "egress   open: CiliumNetworkPolicy/zz-last (egress[0]", "ingress  open: CiliumNetworkPolicy/zz-last (ingress[0]", "600 that do not select the pod")
	if strings.Contains(smoke(t, ask("-pod", pod)...).stdout, c.Token()) {
		t.Error("the output shows the token")
	}
}

// What may not be read is said, and without what is needed nothing is closed.
func TestExplainWithFewRights(t *testing.T) {
	t.Parallel()
	may := func(rights ...string) func(string, string, string) bool {
		return func(verb, resource, _ string) bool {
			for _, r := range rights {
				if r == verb+" "+resource {
					return true
				}
			}
			return false
		}
	}
	for _, c := range []struct {
		sentence string
		allow    func(string, string, string) bool
		args     string
		code     int
		words    string
	}{
		{"the rights of a host are enough", may("get pods", "list networkpolicies", "list ciliumnetworkpolicies"), "", exitOK,
			"egress   closed: what is let out is within deny-all; not read: adminnetworkpolicies.policy.networking.k8s.io, baselineadminnetworkpolicies.policy.networking.k8s.io|" +
				"not read adminnetworkpolicies.policy.networking.k8s.io: grant list on adminnetworkpolicies.policy.networking.k8s.io by a ClusterRole|may not read the namespace"},
		{"of Cilium's as well", may("get pods", "list networkpolicies", "list ciliumnetworkpolicies"), "-engine cilium", exitOK, "not read ciliumclusterwidenetworkpolicies.cilium.io: grant list"},
		{"without Cilium's nothing is said about Cilium", may("get pods", "list networkpolicies"), "-engine cilium", exitFailed,
			"egress   unknown: the answer depends on ciliumnetworkpolicies.cilium.io (grant list on ciliumnetworkpolicies.cilium.io by a Role in namespace sandbox-sim); by what could be read it is closed|ingress  unknown"},
		{"which does not matter to others", may("get pods", "list networkpolicies"), "", exitOK, "not read ciliumnetworkpolicies.cilium.io"},
		{"without any there is no answer", may("get pods"), "", exitFailed, "egress   unknown: the answer depends on networkpolicies.networking.k8s.io|by what could be read it is open"},
		{"without the pod neither", may("list networkpolicies"), "", exitFailed, "grant get on pods"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			cluster, flags := explained(t, sim.Config{Allow: c.allow})
			args := append(append(flags, "-pod", pooled(t, cluster)), strings.Fields(c.args)...)
			smoke(t, args...).expect(t, c.code, strings.Split(c.words, "|")...)
			r := smoke(t, append(args, "-json")...)
			x := decodeExplanation(t, r)
			for _, u := range x.Unread {
				if u.Resource == "" || u.Path == "" || u.Why == "" || u.Reason == "" || u.Rule == "" {
					t.Errorf("unread is %+v", u)
				}
			}
		})
	}
}

// A failure that passes is no answer.
func TestExplainReadsAgain(t *testing.T) {
	t.Parallel()
	first := make(chan struct{}, 1)
	first <- struct{}{}
	cluster, flags := explained(t, sim.Config{Fault: func(r *sim.Request) *sim.Fault {
		if !strings.HasSuffix(r.Path, "/networkpolicies") {
			return nil
		}
		select {
		case <-first:
			return &sim.Fault{Code: http.StatusServiceUnavailable, Body: []byte("busy")}
		default:
			return nil
		}
	}})
	smoke(t, append(flags, "-pod", pooled(t, cluster))...).expect(t, exitOK, "egress   closed", "ingress  closed")
	if len(first) > 0 {
		t.Error("nothing failed")
	}
}

// On a real server the pool's pods are closed to strangers.
func TestLiveExplain(t *testing.T) {
	pods, err := liveClient(t).List(t.Context(), k8s.Pods, k8s.ListOptions{LabelSelector: "agents.x-k8s.io/warm-pool-sandbox"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods in pools, %v", len(pods.Items), err)
	}
	flags := append(append([]string{"explain"}, liveFlags(t)...), "-pod", pods.Items[0].Name())
	x := decodeExplanation(t, smoke(t, append(flags, "-json", "-from", "192.0.2.1", "-outside")...))
	if x.Ingress.Verdict != policy.Closed || len(x.Ingress.Examined) == 0 || len(x.Unread) == 0 {
		t.Errorf("the document is %+v", x)
	}
	flags[slices.Index(flags, "-token-file")+1] = os.Getenv("RIG_POOR_TOKEN_FILE")
	smoke(t, flags...).expect(t, exitFailed, "unknown: the answer depends on networkpolicies.networking.k8s.io (grant list on")
}

func TestExplainAClusterThatCannotBeRead(t *testing.T) {
	t.Parallel()
	fault := func(r *sim.Request) *sim.Fault {
		if !strings.HasSuffix(r.Path, "/networkpolicies") {
			return nil
		}
		return &sim.Fault{Code: http.StatusConflict, Body: []byte(`{"kind":"Status","status":"Failure","reason":"Conflict","message":"not now"}`)}
	}
	cluster, flags := explained(t, sim.Config{Fault: fault})
	for _, c := range []struct {
		sentence string
		args     []string
		words    string
	}{
		{"a list that fails", append(flags[:len(flags):len(flags)], "-pod", pooled(t, cluster)), "not now"},
		{"a pod that is not there", append(flags[:len(flags):len(flags)], "-pod", "swimmer"), "there is no pod swimmer in namespace sandbox-sim"},
		{"a server that is not there", []string{"explain", "-server", "https://127.0.0.1:1", "-token-cmd", "echo t", "-labels", "a=b"}, "Check the server's URL"},
		{"a kubeconfig that is not there", []string{"explain", "-kubeconfig-json", filepath.Join(t.TempDir(), "none"), "-labels", "a=b"}, "-kubeconfig-json"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			r := smoke(t, c.args...)
			r.expect(t, exitFailed, c.words)
			if r.stdout != "" || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("want one line on standard error\n%v", r)
			}
			r = smoke(t, append(c.args, "-json")...)
			x := decodeExplanation(t, r)
			if r.code != exitFailed || x.Egress.Verdict != policy.Unknown || x.Ingress.Verdict != policy.Unknown || !strings.Contains(x.Error, c.words) {
				t.Errorf("the document is %+v\n%v", x, r)
			}
		})
	}
	smoke(t, "explain", "-server", "https://127.0.0.1:1", "-labels", "a=b").expect(t, exitUsage, "-token-file")
	smoke(t, "explain", "-server", "ftp://x", "-token-cmd", "t", "-labels", "a=b").expect(t, exitUsage, "-server")
}

func decodeAny(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
