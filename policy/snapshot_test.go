package policy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

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
		{"CiliumNetworkPolicies not served", ciliumList, 404, true, "et Ingress.Engine to one that the cluster serves"},
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
