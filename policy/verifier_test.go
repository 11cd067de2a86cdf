package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/policy"
)

// refused fails unless err is a refusal of the kind, and returns it.
func refused(t *testing.T, err error, want policy.Refusal) *policy.Error {
	t.Helper()
	e, ok := errors.AsType[*policy.Error](err)
	if !ok || e.Refusal != want {
		t.Fatalf("got %v, want a refusal %s", err, want)
	}
	if !strings.HasPrefix(e.Error(), "policy: ") {
		t.Errorf("the error is %q", e)
	}
	return e
}

// Each kind passes when its object is there and nothing else opens more.
func TestCheckPasses(t *testing.T) {
	for _, e := range []*policy.Egress{
		nil,
		{},
		{Policy: policy.AllowAll{}},
		{Policy: policy.NoNetwork{}, Profile: "quiet"},
		{Policy: policy.PublicInternet{ExceptCIDRs: policy.SpecialRanges()}},
		{Policy: policy.Static{AllowedHosts: []string{"a.example", ".b.example"}}, Engine: policy.Cilium, CiliumNarrowing: &policy.Narrowing{Ports: []int{443}, DNSNames: &policy.DNSNames{}}},
		{Policy: policy.Resolver{Resolve: func(context.Context) ([]string, error) { return []string{"a.example"}, nil }}, Engine: policy.Cilium},
	} {
		name := "none"
		if e != nil && e.Policy != nil {
			name = string(e.Policy.Kind())
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, ciliumList)
				v := c.verifier(policy.Config{Egress: e})
				c.put(coreList, baseline)
				if e != nil {
					c.apply(v)
				}
				pod := sandbox()
				for key, value := range v.Labels("namzu-task-1") {
					pod.Labels[key] = value
				}
				report, err := v.Check(t.Context(), pod)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(strings.Join(report.Notes, "; "), "what is stored is not proved to be in force") {
					t.Errorf("the notes are %q: they do not say what was not shown", report.Notes)
				}
				if len(report.Ingress) == 0 || report.Remembered || len(report.Notes) == 0 || e != nil && len(report.Egress) == 0 {
					t.Errorf("the report is %s", text(report))
				}
				if again, err := v.Check(t.Context(), pod); err != nil || !again.Remembered {
					t.Errorf("the second check: %s, %v; want a remembered pass", text(again), err)
				}
			})
		})
	}
}

func TestCheckNamedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{Egress: &policy.Egress{}})
		c.put(coreList, baseline)
		e := refused(t, second(v.Check(t.Context(), sandbox())), policy.NotApplied)
		if e.Path != coreList+"/task-egress" || e.ResourceKind != "NetworkPolicy" || !strings.Contains(e.Error(), e.Path) {
			t.Errorf("the refusal is %v", e)
		}
		c.apply(v)
		if _, err := v.Check(t.Context(), sandbox()); err != nil {
			t.Fatalf("after it was applied: %v", err)
		}
		c.object(coreList + "/task-egress")["spec"].(map[string]any)["egress"] = []any{map[string]any{}}
		v.Invalidate()
		e = refused(t, second(v.Check(t.Context(), sandbox())), policy.Mismatch)
		if e.Field != "spec.egress" || e.Culprit == nil || e.Culprit.Verdict != policy.WidensEgress {
			t.Errorf("the refusal is of %s by %s", e.Field, text(e.Culprit))
		}
	})
}

// A refusal names the policy, the rule and the peer, and is not remembered.
func TestCheckRefuses(t *testing.T) {
	for _, c := range []struct {
		about, object string
		want          policy.Refusal
		culprit       string
		says          []string
	}{
		{"a policy that widens", np("debug", egressTo(`{"ipBlock":{"cidr":"0.0.0.0/0"}}`)), policy.PolicyWidensEgress, "debug",
			[]string{"the pod bound to Sandbox x", "NetworkPolicy/debug (egress[0]: to[0] ipBlock 0.0.0.0/0 admits 169.254.169.254 (cloud metadata) on every port", "configured is deny-all",
				"sandbox.namzu.ai/template=task", "narrow that one or remove it", "named-object-only"}},
		{"a policy that opens the port", np("open", ingressFrom(`{"namespaceSelector":{}}`)), policy.PortOpen, "open",
			[]string{"NetworkPolicy/open", "opens agent port 1024", "InsecureUnverified"}},
		{"a policy that cannot be judged", np("odd", `"policyTypes":["Ingress"],"ingress":[{"from":[{"future":1}]}]`), policy.PolicyNotEvaluable, "odd",
			[]string{"NetworkPolicy/odd", "cannot be judged", `"future"`}},
		{"a named port of the pod is looked up", np("byname", `"policyTypes":["Ingress"],"ingress":[{"ports":[{"port":"agent"}]}]`), policy.PortOpen, "byname",
			[]string{"NetworkPolicy/byname"}},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				v := cl.verifier(policy.Config{Egress: &policy.Egress{}})
				cl.apply(v)
				cl.put(coreList, baseline, c.object)
				e := refused(t, second(v.Check(t.Context(), sandbox())), c.want)
				if e.Culprit == nil || e.Culprit.Name != c.culprit {
					t.Errorf("blamed is %s, want %s", text(e.Culprit), c.culprit)
				}
				for _, part := range c.says {
					if !strings.Contains(e.Error(), part) {
						t.Errorf("the error does not say %q: %v", part, e)
					}
				}
				cl.remove(coreList + "/" + c.culprit)
				if _, err := v.Check(t.Context(), sandbox()); err != nil {
					t.Errorf("after it was removed: %v", err)
				}
			})
		})
	}
	t.Run("nothing denies", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			v := newCluster(t).verifier(policy.Config{})
			refused(t, second(v.Check(t.Context(), sandbox())), policy.NoCoveringPolicy)
		})
	})
}

// A port that no container of the pod has is not the agent's.
func TestCheckNamedPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{})
		c.put(coreList, baseline, np("byname", `"policyTypes":["Ingress"],"ingress":[{"ports":[{"port":"metrics"}]}]`))
		if _, err := v.Check(t.Context(), sandbox()); err != nil {
			t.Errorf("with a port that the pod does not have: %v", err)
		}
		planned := sandbox()
		planned.Known = false
		refused(t, second(v.Check(t.Context(), planned)), policy.PolicyNotEvaluable)
		udp := sandbox()
		udp.Ports = []policy.ContainerPort{{Name: "metrics", Protocol: "UDP", Port: 1024}}
		if _, err := v.Check(t.Context(), udp); err != nil {
			t.Errorf("with a port of another protocol: %v", err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// What is configured away costs no request.
func TestCheckAsksForNothingNeedless(t *testing.T) {
	unverified := policy.Ingress{InsecureUnverified: true}
	for _, c := range []struct {
		about  string
		config policy.Config
		want   []string
	}{
		{"nothing to verify", policy.Config{Ingress: unverified}, nil},
		{"the named object only", policy.Config{Ingress: unverified, Egress: &policy.Egress{Verify: policy.NamedObjectOnly}}, []string{"GET " + coreList + "/task-egress"}},
		{"ingress alone", policy.Config{}, []string{"GET " + ciliumList, "GET " + coreList, "GET " + adminList, "GET " + baselineList}},
		{"both share their lists", policy.Config{Egress: &policy.Egress{}}, []string{"GET " + ciliumList, "GET " + coreList, "GET " + adminList, "GET " + baselineList}},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				v := cl.verifier(c.config)
				if c.config.Egress != nil {
					cl.apply(v)
				}
				cl.put(coreList, baseline)
				v.Prefetch(t.Context())
				if _, err := v.Check(t.Context(), sandbox()); err != nil {
					t.Fatal(err)
				}
				got := cl.requests()
				slices.Sort(got)
				if !slices.Equal(got, c.want) {
					t.Errorf("asked for %q, want %q", got, c.want)
				}
				v.Prefetch(t.Context())
				if _, err := v.Check(t.Context(), sandbox()); err != nil {
					t.Fatal(err)
				}
				if got := cl.requests(); len(got) > 0 {
					t.Errorf("the remembered pass asked for %q", got)
				}
			})
		})
	}
}

// A pass holds five minutes from the moment the policies were read, and a policy that was added since is noticed then.
func TestCheckExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{})
		c.put(coreList, baseline)
		c.setAnswer(func(*http.Request) (int, string) {
			time.Sleep(2 * time.Second)
			return 0, ""
		})
		began := time.Now()
		if _, err := v.Check(t.Context(), sandbox()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("four lists took %v, want the time of one", took)
		}
		c.put(coreList, np("open", ingressFrom(`{"namespaceSelector":{}}`)))
		time.Sleep(5*time.Minute - 3*time.Second)
		if report, err := v.Check(t.Context(), sandbox()); err != nil || !report.Remembered {
			t.Errorf("a second before the end: %v", err)
		}
		time.Sleep(time.Second)
		refused(t, second(v.Check(t.Context(), sandbox())), policy.PortOpen)
	})
}

// One reading serves concurrent checks and other label sets, and it goes on when the caller that began it gives up.
func TestCheckShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{})
		c.put(coreList, baseline)
		c.setAnswer(func(*http.Request) (int, string) {
			time.Sleep(3 * time.Second)
			return 0, ""
		})
		first, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the first caller went away")
		var wg sync.WaitGroup
		var passed atomic.Int32
		wg.Go(func() {
			if _, err := v.Check(first, sandbox()); err != gone {
				t.Errorf("the first caller got %v, want its own cause", err)
			}
		})
		time.Sleep(time.Second)
		for i := range 20 {
			wg.Go(func() {
				if _, err := v.Check(t.Context(), sandbox("sandbox.users.io/n", fmt.Sprint(i%3))); err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				passed.Add(1)
			})
		}
		synctest.Wait()
		cancel(gone)
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took != 2*time.Second || passed.Load() != 20 {
			t.Errorf("%d callers passed after %v, want 20 after 2s", passed.Load(), took)
		}
		if got := c.requests(); len(got) != 4 {
			t.Errorf("%d requests %q, want one for each collection", len(got), got)
		}
	})
}

// Invalidate forgets passes, lists and a resolver's answer; what was begun before it is not kept.
func TestInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ciliumList)
		var asked atomic.Int32
		hosts := atomic.Pointer[[]string]{}
		hosts.Store(&[]string{"a.example"})
		resolve := func(context.Context) ([]string, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			return *hosts.Load(), nil
		}
		v := c.verifier(policy.Config{Egress: &policy.Egress{Policy: policy.Resolver{Resolve: resolve}, Engine: policy.Cilium}})
		c.apply(v)
		c.put(coreList, baseline)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := v.Check(t.Context(), sandbox()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if asked.Load() != 1 {
			t.Errorf("the resolver was asked %d times, want once", asked.Load())
		}
		hosts.Store(&[]string{"b.example"})
		if report, err := v.Check(t.Context(), sandbox()); err != nil || !report.Remembered {
			t.Errorf("before Invalidate: %v", err)
		}
		v.Invalidate()
		refused(t, second(v.Check(t.Context(), sandbox())), policy.Mismatch)
		if asked.Load() != 2 {
			t.Errorf("the resolver was asked %d times, want twice", asked.Load())
		}
		hosts.Store(&[]string{})
		v.Invalidate()
		if _, err := v.Check(t.Context(), sandbox()); err == nil || !strings.Contains(err.Error(), "returned no hosts") {
			t.Errorf("an empty answer: got %v", err)
		}
		hosts.Store(&[]string{"a.example"})
		if _, err := v.Check(t.Context(), sandbox()); err != nil {
			t.Errorf("the failed answer was kept: %v", err)
		}
	})
}

// A pass over what was read before Invalidate is good for its own check only.
func TestInvalidateDuringACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{})
		c.put(coreList, baseline)
		c.setAnswer(func(*http.Request) (int, string) {
			time.Sleep(time.Second)
			return 0, ""
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := v.Check(t.Context(), sandbox()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		v.Invalidate()
		wg.Wait()
		if report, err := v.Check(t.Context(), sandbox()); err != nil || report.Remembered {
			t.Errorf("after Invalidate: %s, %v; want a new pass", text(report), err)
		}
		if got := c.requests(); len(got) != 8 {
			t.Errorf("%d requests, want each list twice", len(got))
		}
	})
}

// A closed verifier ends what goes on, and refuses what it would have to read.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{})
		c.setAnswer(func(r *http.Request) (int, string) {
			<-r.Context().Done()
			return 503, ""
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := v.Check(t.Context(), sandbox()); !errors.Is(err, policy.ErrClosed) {
				t.Errorf("a check in flight got %v, want ErrClosed", err)
			}
		})
		synctest.Wait()
		v.Close()
		wg.Wait()
		if _, err := v.Check(t.Context(), sandbox()); !errors.Is(err, policy.ErrClosed) {
			t.Errorf("a check after Close got %v, want ErrClosed", err)
		}
		v.Prefetch(t.Context())
		v.Close()
	})
}

// The label of a sandbox's own policy is new on every pod, and so is the one by which the controller names it. Neither makes a
// pass another one; a label that any policy asks for does.
func TestPassesAreSharedBySandboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{Egress: &policy.Egress{PerSandbox: &policy.PerSandbox{Engine: policy.Cilium, AdmissionPolicyName: "fence"}}})
		c.apply(v)
		c.put(coreList, baseline,
			`{"metadata":{"name":"else"},"spec":{"podSelector":{"matchLabels":{"tier":"none"},"matchExpressions":[{"key":"n","operator":"In","values":["none"]}]},"policyTypes":["Ingress"]}}`)
		for i, remembered := range []bool{false, true, true} {
			pod := sandbox("agents.x-k8s.io/sandbox-name-hash", fmt.Sprint(i))
			for key, value := range v.Labels(fmt.Sprintf("namzu-task-%d", i)) {
				pod.Labels[key] = value
			}
			if report, err := v.Check(t.Context(), pod); err != nil || report.Remembered != remembered {
				t.Errorf("sandbox %d: %s, %v; want remembered %v", i, text(report), err, remembered)
			}
		}
		other := sandbox("tier", "gold")
		if report, err := v.Check(t.Context(), other); err != nil || report.Remembered {
			t.Errorf("a pod with another label: %s, %v; want a new pass", text(report), err)
		}
		for i := range 600 {
			if _, err := v.Check(t.Context(), sandbox("n", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		if report, err := v.Check(t.Context(), other); err != nil || report.Remembered {
			t.Errorf("after 600 others: %s, %v; want it forgotten", text(report), err)
		}
	})
}

// No policy protects a pod on its node's network, whatever selects it.
func TestCheckRefusesHostNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		config policy.Config
		want   policy.Refusal
	}{
		"ingress is verified": {policy.Config{}, policy.NoCoveringPolicy},
		"egress alone":        {policy.Config{Egress: &policy.Egress{}, Ingress: policy.Ingress{InsecureUnverified: true}}, policy.NoEnforcingPolicy},
		"nothing":             {policy.Config{Ingress: policy.Ingress{InsecureUnverified: true}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				v := cl.verifier(c.config)
				if c.config.Egress != nil {
					cl.apply(v)
				}
				cl.put(coreList, baseline)
				pod := policy.PodOf(parse(t, `{"metadata":{"name":"p","namespace":"lab-7","labels":{"sandbox.namzu.ai/template":"task"}},"spec":{"hostNetwork":true,"containers":[{"name":"a"}]}}`)[0])
				_, err := v.Check(t.Context(), pod)
				e, _ := errors.AsType[*policy.Error](err)
				if c.want == "" && err != nil || c.want != "" && (e == nil || e.Refusal != c.want || !strings.Contains(err.Error(), "node's network")) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			})
		})
	}
}
