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

	"github.com/sandlot-go/sandlot/k8s"
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
			[]string{"NetworkPolicy/open", "opens agent port 1024", "unverified"}},
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

// A collection that the host may not list, or that is not served, is named with the rule that is missing.
func TestCheckUnread(t *testing.T) {
	for _, c := range []struct {
		about, list string
		code        int
		required    bool
		says        string
	}{
		{"NetworkPolicies forbidden", coreList, 403, true, "Grant list on networkpolicies of API group networking.k8s.io by a Role in namespace lab-7"},
		{"NetworkPolicies unauthorized", coreList, 401, true, "Grant list on networkpolicies"},
		{"CiliumNetworkPolicies forbidden", ciliumList, 403, true, "Grant list on ciliumnetworkpolicies of API group cilium.io by a Role in namespace lab-7"},
		{"CiliumNetworkPolicies not served", ciliumList, 404, true, "et ingress.engine to one that the cluster serves"},
		{"clusterwide policies forbidden", widerList, 403, false, "grant list on ciliumclusterwidenetworkpolicies of API group cilium.io by a ClusterRole"},
		{"AdminNetworkPolicies forbidden", adminList, 403, false, "grant list on adminnetworkpolicies of API group policy.networking.k8s.io by a ClusterRole"},
		{"baseline policies not served", baselineList, 404, false, ""},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, ciliumList, widerList, adminList, baselineList)
				v := cl.verifier(policy.Config{Egress: &policy.Egress{Engine: policy.Cilium}})
				cl.apply(v)
				cl.put(coreList, baseline)
				cl.setAnswer(func(r *http.Request) (int, string) {
					if r.URL.Path == c.list {
						return c.code, ""
					}
					return 0, ""
				})
				report, err := v.Check(t.Context(), sandbox())
				if !c.required {
					if err != nil {
						t.Fatal(err)
					}
					if len(report.Unread) != 1 || report.Unread[0].Path != c.list || !strings.Contains(report.Unread[0].Rule, c.says) || report.Unread[0].Required {
						t.Errorf("unread is %s, want %s with %q", text(report.Unread), c.list, c.says)
					}
					return
				}
				e := refused(t, err, policy.PolicyNotEvaluable)
				if len(e.Unread) != 1 || e.Unread[0].Path != c.list || !strings.Contains(e.Error(), c.says) || !strings.Contains(e.Error(), "not read: "+e.Unread[0].Resource) {
					t.Errorf("the refusal is %v, want %s with %q", e, c.list, c.says)
				}
				cl.setAnswer(nil)
				if _, err := v.Check(t.Context(), sandbox()); err != nil {
					t.Errorf("once it can be read: %v", err)
				}
			})
		})
	}
}

// With engine core a cluster that serves cilium.io is told about, and so is one that uses it.
func TestCheckTellsOfCilium(t *testing.T) {
	for _, c := range []struct {
		served, used bool
		says         string
	}{{false, false, ""}, {true, false, "the cluster serves cilium.io"}, {true, true, "the namespace has CiliumNetworkPolicies"}} {
		synctest.Test(t, func(t *testing.T) {
			cl := newCluster(t)
			if c.served {
				cl.lists[ciliumList] = "CiliumNetworkPolicy"
			}
			if c.used {
				cl.put(ciliumList, cnp("x", `"egress":[{}]`))
			}
			cl.put(coreList, baseline)
			report, err := cl.verifier(policy.Config{}).Check(t.Context(), sandbox())
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(report.Notes, "; ")
			if strings.Contains(said, "cilium.io") != (c.served && !c.used) || !strings.Contains(said, c.says) {
				t.Errorf("served %v used %v: the notes are %q, want %q", c.served, c.used, said, c.says)
			}
		})
	}
}

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

// Lists come in pages. A page that is lost refuses, whatever the pages before it said.
func TestCheckPages(t *testing.T) {
	page := func(next string, objects ...string) string {
		return fmt.Sprintf(`{"kind":"NetworkPolicyList","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(objects, ","))
	}
	for _, c := range []struct {
		about string
		last  func() (int, string)
		want  string
	}{
		{"the second page opens the port", func() (int, string) { return 200, page("", np("open", ingressFrom(`{"namespaceSelector":{}}`))) }, "NetworkPolicy/open"},
		{"the second page is lost", func() (int, string) {
			return 400, `{"kind":"Status","status":"Failure","message":"bad token","code":400}`
		}, "bad token"},
		{"the second page keeps failing", func() (int, string) { return 503, "" }, "503"},
		{"the second page is half a page", func() (int, string) { return 200, page("", baseline)[:60] }, "not what was asked for"},
		{"the second page has no items", func() (int, string) { return 200, `{"kind":"NetworkPolicyList"}` }, "no items"},
		{"the second page is forbidden", func() (int, string) { return 403, "" }, "list on networkpolicies"},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				cl.setAnswer(func(r *http.Request) (int, string) {
					switch {
					case r.URL.Path != coreList:
						return 0, ""
					case r.URL.Query().Get("continue") == "":
						return 200, page("two", baseline)
					}
					return c.last()
				})
				v := cl.verifier(policy.Config{})
				if _, err := v.Check(t.Context(), sandbox()); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v, want %q", err, c.want)
				}
				cl.setAnswer(nil)
				cl.put(coreList, baseline)
				if _, err := v.Check(t.Context(), sandbox()); err != nil {
					t.Errorf("the failure was remembered: %v", err)
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

// A server that hangs ends the reading at its own bound, and the failure says which list it was.
func TestCheckIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{})
		c.setAnswer(func(r *http.Request) (int, string) {
			if r.URL.Path == coreList {
				<-r.Context().Done()
			}
			return 0, ""
		})
		began := time.Now()
		_, err := v.Check(t.Context(), sandbox())
		if err == nil || !strings.Contains(err.Error(), "policy: list networkpolicies") || time.Since(began) != 30*time.Second {
			t.Errorf("got %v after %v, want the list after 30s", err, time.Since(began))
		}
		if k8s.KindOf(err) != "" && k8s.KindOf(err) != k8s.Timeout {
			t.Errorf("the failure is of kind %q", k8s.KindOf(err))
		}
	})
}

// A collection that could be read, and was not because reading went wrong, fails the check: what it holds is not known.
func TestCheckNeedsWhatItMayRead(t *testing.T) {
	for _, list := range []string{adminList, baselineList, widerList, ciliumList, coreList} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, ciliumList, widerList, adminList, baselineList)
			c.put(coreList, baseline)
			v := c.verifier(policy.Config{Ingress: policy.Ingress{Engine: policy.Cilium}})
			c.setAnswer(func(r *http.Request) (int, string) {
				if r.URL.Path == list {
					return 500, ""
				}
				return 0, ""
			})
			if _, err := v.Check(t.Context(), sandbox()); k8s.KindOf(err) != k8s.ServerError {
				t.Errorf("%s answers 500: got %v, want that failure", list, err)
			}
			c.setAnswer(nil)
			if _, err := v.Check(t.Context(), sandbox()); err != nil {
				t.Errorf("%s answers again: %v", list, err)
			}
		})
	}
}

// The label of a sandbox's own policy is new on every pod, and does not make a pass another one.
func TestPassesAreSharedBySandboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		v := c.verifier(policy.Config{Egress: &policy.Egress{PerSandbox: &policy.PerSandbox{Engine: policy.Cilium, AdmissionPolicyName: "fence"}}})
		c.apply(v)
		c.put(coreList, baseline)
		for i, remembered := range []bool{false, true, true} {
			pod := sandbox()
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
