package sim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

const policiesPath = "/apis/cilium.io/v2/namespaces/sandbox-sim/ciliumnetworkpolicies"

// fill creates Cilium policies p0, p1, …, which nothing else touches.
func (e *env) fill(n int) {
	e.Helper()
	for i := range n {
		if err := e.Apply("ciliumnetworkpolicies", object{"metadata": object{"name": fmt.Sprintf("p%d", i), "labels": object{"parity": fmt.Sprint(i % 2)}}}); err != nil {
			e.Fatal(err)
		}
	}
}

// page is the names in a list, and its token.
func page(t testing.TB, r reply) (names, token string) {
	t.Helper()
	if r.code != http.StatusOK {
		t.Fatalf("list: %d %s", r.code, r.raw)
	}
	for _, o := range r.body["items"].([]any) {
		names += " " + text(o, "metadata", "name")
	}
	return strings.TrimSpace(names), text(r.body, "metadata", "continue")
}

func TestPages(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.fill(5)
		list := func(query string) (string, string) { t.Helper(); return page(e, e.get(policiesPath+query)) }
		if names, token := list(""); names != "p0 p1 p2 p3 p4" || token != "" {
			t.Errorf("all: %q, token %q", names, token)
		}
		names, token := list("?limit=2")
		if names != "p0 p1" || token == "" {
			t.Errorf("first page: %q, token %q", names, token)
		}
		// What happens meanwhile does not show: a list is of one moment.
		e.Delete("ciliumnetworkpolicies", "p2")
		e.Apply("ciliumnetworkpolicies", object{"metadata": object{"name": "p33"}})
		first := token
		names, token = list("?limit=2&continue=" + token)
		if names != "p2 p3" || token == "" {
			t.Errorf("second page: %q, token %q", names, token)
		}
		if names, token = list("?limit=2&continue=" + token); names != "p4" || token != "" {
			t.Errorf("last page: %q, token %q", names, token)
		}
		if names, _ = list("?continue=" + first); names != "p2 p3 p4" {
			t.Errorf("the rest from the first token: %q", names)
		}
		if names, _ = list(""); names != "p0 p1 p3 p33 p4" {
			t.Errorf("all, later: %q", names)
		}
		r := e.get(policiesPath + "?limit=2")
		if at(r.body, "metadata", "remainingItemCount") != 3.0 {
			t.Errorf("remainingItemCount = %v, want 3", at(r.body, "metadata", "remainingItemCount"))
		}
		if r := e.get(policiesPath + "?limit=5"); text(r.body, "metadata", "continue") != "" {
			t.Error("a full last page has a token")
		}
	})
}

func TestPageTokenExpires(t *testing.T) {
	for _, tt := range []struct {
		name   string
		expire func(e *env)
	}{
		{"by compaction", func(e *env) { e.Compact() }},
		{"by age", func(e *env) { e.sleep(5 * time.Minute) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, sim.Config{}, func(e *env) {
				e.fill(5)
				_, token := page(e, e.get(policiesPath+"?limit=2"))
				e.Delete("ciliumnetworkpolicies", "p2")
				tt.expire(e)
				r := e.get(policiesPath + "?limit=2&continue=" + token)
				fresh := text(r.body, "metadata", "continue")
				if r.code != http.StatusGone || text(r.body, "reason") != "Expired" || fresh == "" || fresh == token {
					t.Fatalf("%d %s, want 410 Expired with a fresh token", r.code, r.raw)
				}
				names, next := page(e, e.get(policiesPath+"?limit=1&continue="+fresh))
				if names != "p3" {
					t.Errorf("with the fresh token: %q, want what there is now", names)
				}
				if names, _ := page(e, e.get(policiesPath+"?continue="+next)); names != "p4" {
					t.Errorf("and on: %q", names)
				}
			})
		})
	}
}

func TestListSelectors(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.fill(5)
		for _, tt := range []struct{ query, want string }{
			{"labelSelector=parity%3D1", "p1 p3"},
			{"labelSelector=parity+in+(0)", "p0 p2 p4"},
			{"fieldSelector=metadata.name%3Dp3", "p3"},
			{"fieldSelector=metadata.name!%3Dp3,metadata.namespace%3D%3Dsandbox-sim", "p0 p1 p2 p4"},
			{"fieldSelector=metadata.name%3Dp3&labelSelector=parity%3D0", ""},
			{"limit=1&labelSelector=parity%3D1", "p1"},
		} {
			if names, _ := page(e, e.get(policiesPath+"?"+tt.query)); names != tt.want {
				t.Errorf("%s: %q, want %q", tt.query, names, tt.want)
			}
		}
		r := e.get(policiesPath + "?limit=1&labelSelector=parity%3D1")
		if at(r.body, "metadata", "remainingItemCount") != nil {
			t.Error("a list with a selector counts what remains")
		}
		names, _ := page(e, e.get(policiesPath+"?labelSelector=parity%3D1&continue="+text(r.body, "metadata", "continue")))
		if names != "p3" {
			t.Errorf("second page with a selector: %q", names)
		}
		if names, _ := page(e, e.get(podsPath+"?fieldSelector="+url.QueryEscape("status.phase=Running"))); len(strings.Fields(names)) != 3 {
			t.Errorf("running pods: %q, want 3", names)
		}
		if r := e.get(policiesPath + "?fieldSelector=nonsense"); r.code != 400 || !strings.Contains(r.raw, "invalid selector: 'nonsense'; can't understand 'nonsense'") {
			t.Errorf("%d %s", r.code, r.raw)
		}
		selector := text(e.Get("sandboxes", text(e.List("sandboxes")[0], "metadata", "name")), "status", "selector")
		if names, _ := page(e, e.get(podsPath+"?labelSelector="+url.QueryEscape(selector))); names != text(e.List("sandboxes")[0], "metadata", "name") {
			t.Errorf("pods by the Sandbox's selector %s: %q", selector, names)
		}
	})
}

// TestListShapes: items of built-in kinds do not say what they are, those of
// custom resources do.
func TestListShapes(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		for _, tt := range []struct {
			path, kind string
			typed      bool
		}{
			{podsPath, "PodList", false},
			{"/apis/networking.k8s.io/v1/namespaces/sandbox-sim/networkpolicies", "NetworkPolicyList", false},
			{sandboxesPath, "SandboxList", true},
		} {
			r := e.get(tt.path)
			_, typed := r.body["items"].([]any)[0].(object)["kind"]
			_, token := r.body["metadata"].(object)["continue"]
			if r.body["kind"] != tt.kind || typed != tt.typed || token != tt.typed {
				t.Errorf("%s: kind %v, typed items %t, continue %t; want %s, %t, %t", tt.path, r.body["kind"], typed, token, tt.kind, tt.typed, tt.typed)
			}
		}
		r := e.get(policiesPath)
		if encode(r.body["items"]) != "[]" {
			t.Errorf("an empty list has items %s", encode(r.body["items"]))
		}
	})
}

func TestAdministrator(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		policy := object{"metadata": map[string]string{"name": "p"}, "spec": map[string][]int{"ports": {1, 2}}}
		if err := e.Apply("ciliumnetworkpolicies", policy); err != nil {
			t.Fatal(err)
		}
		first := e.Get("ciliumnetworkpolicies", "p")
		if got := at(first, "spec", "ports"); !slices.Equal(got.([]any), []any{int64(1), int64(2)}) {
			t.Errorf("spec.ports = %#v, want int64s", got)
		}
		first["spec"] = "mine"
		if e.Apply("ciliumnetworkpolicies", policy) != nil || at(e.Get("ciliumnetworkpolicies", "p"), "metadata", "generation") != int64(1) {
			t.Error("applying the same again counted as a change, or a copy was none")
		}
		if err := e.Patch("ciliumnetworkpolicies", "p", object{"spec": object{"ports": nil}}); err != nil || at(e.Get("ciliumnetworkpolicies", "p"), "metadata", "generation") != int64(2) {
			t.Errorf("a patch of the spec: %v, generation %v", err, at(e.Get("ciliumnetworkpolicies", "p"), "metadata", "generation"))
		}
		for _, err := range []error{
			e.Apply("nonsense", policy), e.Patch("nonsense", "p", nil), e.Delete("nonsense", "p"),
			e.Patch("pods", "nope", nil), e.Delete("pods", "nope"),
			e.Apply("sandboxclaims", object{"metadata": object{"name": "c"}, "spec": object{}}),
			e.Apply("sandboxclaims", object{"metadata": object{"name": "c"}, "spec": object{"warmPoolRef": object{"name": "p"}, "nope": 1}}),
			e.Apply("sandboxclaims", object{"metadata": object{"name": "c"}, "spec": func() {}}),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), "sim: ") {
				t.Errorf("error %v, want one of package sim", err)
			}
		}
		if e.Get("nonsense", "p") != nil || e.List("nonsense") != nil || len(e.List("namespaces")) != 4 {
			t.Error("Get or List of what is not modelled, or of namespaces")
		}
		if len(e.Requests()) != 0 {
			t.Errorf("the administrator is in the log: %v", e.Requests())
		}
	})
}
