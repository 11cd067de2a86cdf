package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

const (
	fence = `{"kind":"ValidatingAdmissionPolicy","metadata":{"name":"fence"},"spec":{"failurePolicy":"Fail","matchConstraints":{"resourceRules":[` +
		`{"apiGroups":["cilium.io"],"apiVersions":["v2"],"operations":["CREATE","UPDATE","DELETE"],"resources":["ciliumnetworkpolicies"]}]},"validations":[{"expression":"false"}]}}`
	binding = `{"kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"fence-binding"},"spec":{"policyName":"fence","validationActions":["Deny"],` +
		`"matchResources":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"lab-7"}}}}}`
)

// putFence stores a fence that stands.
func (c *cluster) putFence() {
	c.put(strings.TrimSuffix(fencePath, "/fence"), fence)
	c.put(strings.TrimSuffix(bindingPath, "/"), binding, strings.Replace(binding, "fence-binding", "fence-here", 1))
}

// outcome names an error as the recorded cases do.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*policy.FenceError](err); ok {
		return map[policy.FenceProblem]string{policy.FenceMissing: "KubernetesAdmissionFenceMissingError", policy.FenceUnreadable: "KubernetesAdmissionFenceUnreadableError"}[e.Problem]
	}
	if e, ok := errors.AsType[*policy.Error](err); ok {
		return map[policy.Refusal]string{policy.NotApplied: "KubernetesEgressPolicyNotAppliedError", policy.Mismatch: "KubernetesEgressPolicyMismatchError"}[e.Refusal]
	}
	if _, ok := errors.AsType[*policy.HostError](err); ok {
		return "KubernetesNetworkPolicyHostError"
	}
	if errors.Is(err, policy.ErrReleased) {
		return "KubernetesSandboxDestroyedError"
	}
	switch k8s.KindOf(err) {
	case k8s.Forbidden:
		return "KubernetesCredentialError"
	case "":
		return err.Error()
	}
	return "KubernetesApiError"
}

type callJSON struct {
	AllowedHosts []string
	Requests     [][2]string
	Outcome      string
	Replies      map[string]json.RawMessage
	Body         map[string]any
}

type callsJSON struct {
	ID, Op, About string
	Setup         struct {
		Namespace  string
		Owner      struct{ Kind, Name, UID string }
		PerSandbox perSandboxJSON
		Overlap    bool
		Destroyed  bool
	}
	Calls  []callJSON
	User   string
	Verb   string
	Object map[string]any
	Expect struct {
		Admitted bool
		Rule     int
	}
}

// reply answers as the case says: a code, or a change to what is stored.
func (c callJSON) reply(cl *cluster) func(r *http.Request) (int, string) {
	return func(r *http.Request) (int, string) {
		raw, ok := c.Replies[r.Method+" "+r.URL.Path]
		if !ok {
			raw, ok = c.Replies[r.Method]
		}
		if !ok {
			return 0, ""
		}
		var code int
		if json.Unmarshal(raw, &code) == nil {
			return code, ""
		}
		live := k8s.Object(cl.object(r.URL.Path)).Clone()
		if strings.Contains(string(raw), "ownerReferences removed") {
			delete(live["metadata"].(map[string]any), "ownerReferences")
		} else {
			live["spec"].(map[string]any)["egress"] = []any{map[string]any{"toEntities": []any{"world"}}}
		}
		return 200, text(live)
	}
}

func TestNarrowerCalls(t *testing.T) {
	for _, c := range vectors[callsJSON](t, "policy-persandbox.json", 48) {
		if c.Op != "calls" {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, ciliumList)
				cl.putFence()
				v := cl.verifier(policy.Config{Egress: &policy.Egress{PerSandbox: c.Setup.PerSandbox.perSandbox(t)}})
				n, err := v.Narrower(policy.Owner(c.Setup.Owner))
				if err != nil {
					t.Fatal(err)
				}
				if c.Setup.Destroyed {
					n.Close()
				}
				if c.Setup.Overlap {
					overlap(t, cl, n, c.Calls)
					return
				}
				for i, call := range c.Calls {
					cl.setAnswer(call.reply(cl))
					if got := outcome(n.Set(t.Context(), call.AllowedHosts)); got != call.Outcome {
						t.Errorf("%s: call %d ends with %s, want %s", c.About, i, got, call.Outcome)
					}
					checkRequests(t, c.About, cl.requests(), call.Requests)
					checkBodies(t, c.About, cl, call)
				}
			})
		})
	}
}

func overlap(t *testing.T, cl *cluster, n policy.Narrower, calls []callJSON) {
	t.Helper()
	cl.setAnswer(func(*http.Request) (int, string) {
		time.Sleep(time.Second)
		return 0, ""
	})
	var wg sync.WaitGroup
	var want [][2]string
	for _, call := range calls {
		wg.Go(func() {
			if got := outcome(n.Set(t.Context(), call.AllowedHosts)); got != call.Outcome {
				t.Errorf("the call for %v ends with %s, want %s", call.AllowedHosts, got, call.Outcome)
			}
		})
		synctest.Wait()
		want = append(want, call.Requests...)
	}
	wg.Wait()
	checkRequests(t, "overlapping calls", cl.requests(), want)
}

// checkRequests compares requests in order. A read that fails may be repeated.
func checkRequests(t *testing.T, about string, got []string, want [][2]string) {
	t.Helper()
	got = slices.CompactFunc(got, func(a, b string) bool { return a == b && strings.HasPrefix(a, "GET ") })
	var lines []string
	for _, w := range want {
		lines = append(lines, w[0]+" "+w[1])
	}
	if !slices.Equal(got, lines) {
		t.Errorf("%s: requests are %q, want %q", about, got, lines)
	}
}

// checkBodies compares what was posted, and patched: a patch is the same object, and takes away what may be there besides.
func checkBodies(t *testing.T, about string, cl *cluster, call callJSON) {
	t.Helper()
	cl.mu.Lock()
	bodies := cl.bodies
	cl.bodies = nil
	cl.mu.Unlock()
	for _, body := range bodies {
		if call.Body == nil {
			continue
		}
		if got := mergePatch(map[string]any{}, body); !jsonEqual(t, got, call.Body) {
			t.Errorf("%s: the body is\n%s\nwant\n%s", about, text(got), text(call.Body))
		}
	}
}

// betterFence are the objects on which this host is stricter with itself than the fence that older manifests ship.
var betterFence = map[string]override{
	"fz-18": {"6", "a rule for the resolver without toPorts opens every port of its pods"},
	"fz-24": {"5", "enableDefaultDeny would let an object allow without denying the rest"},
}

func TestFenceRules(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range vectors[callsJSON](t, "policy-persandbox.json", 48) {
		if c.Op != "fence" {
			continue
		}
		want := c.Expect.Rule
		if b, ok := betterFence[c.ID]; ok {
			seen[c.ID] = true
			want = int(b.want[0] - '0')
		}
		rule, why := policy.FenceRefuses(c.User, "system:serviceaccount:namzu-sandboxes:namzu-sandbox-host", c.Verb, c.Object)
		if rule != want || (rule == 0) != (why == "") {
			t.Errorf("%s %s: refused by rule %d (%s), want %d", c.ID, c.About, rule, why, want)
		}
	}
	used(t, betterFence, seen)
}

func narrower(t *testing.T, c *cluster, e *policy.Egress) policy.Narrower {
	t.Helper()
	if e.PerSandbox == nil {
		e.PerSandbox = &policy.PerSandbox{Engine: policy.Cilium, AdmissionPolicyName: "fence"}
	}
	n, err := c.verifier(policy.Config{Egress: e}).Narrower(policy.Owner{Kind: "SandboxClaim", Name: "claim-9", UID: "4d0c-77"})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const ownPolicy = ciliumList + "/namzu-sbx-4d0c-77"

// A fence that refuses nothing does not count, and the error says why.
func TestFenceMustStand(t *testing.T) {
	for _, c := range []struct{ about, fence, binding, says string }{
		{"an error admits everything", strings.Replace(fence, `"Fail"`, `"Ignore"`, 1), binding, "failurePolicy"},
		{"nothing is validated", strings.Replace(fence, `[{"expression":"false"}]`, `[]`, 1), binding, "no validations"},
		{"updates are not looked at", strings.Replace(fence, `"UPDATE"`, `"CONNECT"`, 1), binding, "UPDATE"},
		{"another kind is looked at", strings.Replace(fence, `["ciliumnetworkpolicies"]`, `["pods"]`, 1), binding, "CREATE of ciliumnetworkpolicies"},
		{"parameters decide", strings.Replace(fence, `"failurePolicy"`, `"paramKind":{},"failurePolicy"`, 1), binding, "parameters"},
		{"no spec", `{"kind":"ValidatingAdmissionPolicy","metadata":{"name":"fence"}}`, binding, "no spec"},
		{"the binding is for another policy", fence, strings.Replace(binding, `"policyName":"fence"`, `"policyName":"x"`, 1), "is for policy"},
		{"the binding only audits", fence, strings.Replace(binding, `["Deny"]`, `["Audit"]`, 1), "without Deny"},
		{"the binding is for another namespace", fence, strings.Replace(binding, `"lab-7"`, `"lab-8"`, 1), "not for namespace lab-7"},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, ciliumList)
				cl.put(strings.TrimSuffix(fencePath, "/fence"), c.fence)
				cl.put(strings.TrimSuffix(bindingPath, "/"), c.binding)
				n := narrower(t, cl, &policy.Egress{})
				err := n.Set(t.Context(), []string{"a.example"})
				if e, ok := errors.AsType[*policy.FenceError](err); !ok || e.Problem != policy.FenceIneffective || !strings.Contains(e.Error(), c.says) {
					t.Errorf("got %v, want an ineffective fence: %s", err, c.says)
				}
				if cl.object(ownPolicy) != nil {
					t.Error("the policy was written")
				}
			})
		})
	}
}

// The last list is the one in force, however many are set at once, and foreign fields of the object go away.
func TestNarrowerLastListWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ciliumList)
		c.putFence()
		c.put(ciliumList, `{"kind":"CiliumNetworkPolicy","metadata":{"name":"namzu-sbx-4d0c-77"},"spec":{"endpointSelector":{},"enableDefaultDeny":{"egress":false},"ingress":[{}]},"specs":[{}]}`)
		c.setAnswer(func(*http.Request) (int, string) {
			time.Sleep(time.Second)
			return 0, ""
		})
		n := narrower(t, c, &policy.Egress{})
		var wg sync.WaitGroup
		for _, host := range []string{"a.example", "b.example", "c.example", "d.example"} {
			wg.Go(func() {
				if err := n.Set(t.Context(), []string{host}); err != nil {
					t.Errorf("%s: %v", host, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if got := text(c.object(ownPolicy)); !strings.Contains(got, "d.example") || strings.Contains(got, "c.example") || strings.Contains(got, "enableDefaultDeny") || strings.Contains(got, "specs") {
			t.Errorf("in force is %s, want d.example alone", got)
		}
	})
}

// A change whose caller went away before its turn is not made; one that had begun is over before the next begins.
func TestNarrowerCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ciliumList)
		c.putFence()
		c.setAnswer(func(*http.Request) (int, string) {
			time.Sleep(time.Second)
			return 0, ""
		})
		n := narrower(t, c, &policy.Egress{})
		gone := errors.New("gone")
		var wg sync.WaitGroup
		set := func(host string, give time.Duration, want error) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), give, gone)
			wg.Go(func() {
				defer cancel()
				if err := n.Set(ctx, []string{host}); err != want {
					t.Errorf("%s: got %v, want %v", host, err, want)
				}
			})
			synctest.Wait()
		}
		set("a.example", 2500*time.Millisecond, gone) // while its POST is under way
		set("b.example", time.Second, gone)           // while it waits
		set("c.example", time.Minute, nil)
		wg.Wait()
		if got := text(c.object(ownPolicy)); !strings.Contains(got, "c.example") {
			t.Errorf("in force is %s, want c.example", got)
		}
		for _, body := range c.bodies {
			if strings.Contains(text(body), "b.example") {
				t.Error("the change that was given up was made")
			}
		}
	})
}

// Over no-network the list must not open the resolver for every other name.
func TestNarrowerOverNoNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ciliumList)
		c.putFence()
		if err := narrower(t, c, &policy.Egress{Policy: policy.NoNetwork{}}).Set(t.Context(), []string{"a.example"}); err != nil {
			t.Fatal(err)
		}
		if got := text(c.object(ownPolicy)); strings.Contains(got, `"*"`) || !strings.Contains(got, "a.example.svc.cluster.local") {
			t.Errorf("written is %s, want lookups of a.example only", got)
		}
	})
}

// A write that is refused says by whom.
func TestNarrowerSaysWhoRefused(t *testing.T) {
	for message, says := range map[string]string{
		`ciliumnetworkpolicies is forbidden: User \"x\" cannot create`:                                   "grant create, patch and delete",
		`is forbidden: ValidatingAdmissionPolicy 'fence' with binding 'fence-binding' denied request: 4`: "an admission policy refused it",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, ciliumList)
			c.putFence()
			c.setAnswer(func(r *http.Request) (int, string) {
				if r.Method == "POST" {
					return 403, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"` + message + `"}`
				}
				return 0, ""
			})
			if err := narrower(t, c, &policy.Egress{}).Set(t.Context(), []string{"a.example"}); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, want %q", err, says)
			}
		})
	}
}

func TestNarrowerNeedsAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{Egress: &policy.Egress{PerSandbox: &policy.PerSandbox{Engine: policy.Cilium, AdmissionPolicyName: "fence"}}})
		if _, err := v.Narrower(policy.Owner{Kind: "SandboxClaim", Name: "claim-9"}); err == nil || !strings.Contains(err.Error(), "claim-9 in namespace lab-7 has no uid") {
			t.Errorf("without a uid: %v", err)
		}
		if _, err := v.Narrower(policy.Owner{Kind: "Pod", Name: "p", UID: "u"}); err == nil {
			t.Error("a pod is taken as the owner")
		}
		if _, err := c.verifier(policy.Config{}).Narrower(policy.Owner{Kind: "Sandbox", Name: "s", UID: "u"}); err == nil {
			t.Error("a sandbox has a policy of its own without the configuration")
		}
	})
}

// The fence is proved again after five minutes, and at once after Invalidate.
func TestFenceIsProvedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ciliumList)
		c.putFence()
		n := narrower(t, c, &policy.Egress{})
		set := func() error { return n.Set(t.Context(), []string{"a.example"}) }
		if err := set(); err != nil {
			t.Fatal(err)
		}
		c.remove(fencePath)
		time.Sleep(5*time.Minute - time.Second)
		if err := set(); err != nil {
			t.Errorf("before the proof's end: %v", err)
		}
		time.Sleep(time.Second)
		if got := outcome(set()); got != "KubernetesAdmissionFenceMissingError" {
			t.Errorf("after it: %s, want the fence missing", got)
		}
	})
}
