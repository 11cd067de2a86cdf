package sim_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

const (
	rigClaims    = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/sandbox-rig/sandboxclaims"
	rigSandboxes = "/apis/agents.x-k8s.io/v1beta1/namespaces/sandbox-rig/sandboxes"
	mergeType    = "application/merge-patch+json"
)

// rigTemplate is the recorded template under a name, before the server filled
// it in.
func rigTemplate(t testing.TB, name string) map[string]any {
	return object{"metadata": object{"name": name}, "spec": object{
		"service": true, "podTemplate": recorded(t, "template", "response", "body", "spec", "podTemplate"),
	}}
}

// rig is a cluster as the recorded one, whose pool had five members.
func rig(t testing.TB, members int) sim.Config {
	return sim.Config{Namespace: "sandbox-rig", Templates: []map[string]any{rigTemplate(t, "task")}, Pools: []map[string]any{sim.Pool("pool", "task", members)}}
}

// expectExchange compares an answer with a recorded one: code, content type,
// body, and the headers that mean something.
func expectExchange(t testing.TB, got reply, exchange any) {
	t.Helper()
	response := at(exchange, "response")
	if want := at(response, "status"); float64(got.code) != want {
		t.Errorf("code %d, recorded %v; body %s", got.code, want, got.raw)
		return
	}
	headers, _ := at(response, "headers").(object)
	for _, h := range []string{"Content-Type", "Retry-After", "Warning"} {
		if want, _ := headers[h].(string); got.header.Get(h) != want {
			t.Errorf("%s: %q, recorded %q", h, got.header.Get(h), want)
		}
	}
	var body any = got.raw
	if strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal([]byte(got.raw), &body); err != nil {
			t.Errorf("body %q: %v", got.raw, err)
			return
		}
	}
	if have, want := mask(t, body), mask(t, at(response, "body")); have != want {
		t.Errorf("body differs: %s", firstDifference(have, want))
	}
}

// replay sends a recorded request; kind and body stand in for what was not kept.
func (e *env) replay(exchange any, auth, kind, body string) reply {
	e.Helper()
	method, path := text(exchange, "request", "method"), text(exchange, "request", "path")
	if b := at(exchange, "request", "body"); b != nil && body == "" {
		body = encode(b)
	}
	if kind == "" && body != "" {
		kind = "application/json"
		if method == "PATCH" {
			kind = mergeType
		}
	}
	r, err := e.sendAs(auth, method, path, kind, body)
	if err != nil {
		e.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

const claimNine = "namzu-task-00000000-0000-4000-8000-000000000009"

func rigClaim(name string, lifecycle object) object {
	return object{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
		"metadata": object{"name": name, "namespace": "sandbox-rig"},
		"spec":     object{"warmPoolRef": object{"name": "pool"}, "lifecycle": lifecycle}}
}

func TestRecordedAPIErrors(t *testing.T) {
	type how struct {
		auth, kind, body string
		path             string // instead of the recorded
		forbid, bound    bool
	}
	shutdown := `{"spec":{"lifecycle":{"shutdownTime":"2026-11-29T19:39:40.581Z"}}}`
	cases := map[string]how{
		"401-bad-token":              {auth: "Bearer nonsense"},
		"403-anonymous":              {auth: "-"},
		"403-get":                    {forbid: true},
		"403-create":                 {forbid: true},
		"403-patch":                  {forbid: true, body: shutdown},
		"403-other-namespace":        {forbid: true},
		"404-object":                 {},
		"404-version-as-user":        {},
		"404-version":                {},
		"404-group":                  {},
		"404-namespace-create":       {},
		"404-namespace-get":          {},
		"400-namespace-mismatch":     {},
		"400-not-json":               {body: "{not json"},
		"422-kind":                   {},
		"422-no-warmPoolRef":         {},
		"422-shutdownTime":           {},
		"422-shutdownPolicy":         {},
		"422-name":                   {},
		"201-unknown-field":          {},
		"400-unknown-field-strict":   {},
		"201-dry-run":                {},
		"409-exists":                 {bound: true},
		"409-stale-patch":            {bound: true},
		"422-patch-other-uid":        {bound: true},
		"415-patch-json":             {bound: true, kind: "application/json"},
		"415-patch-strategic":        {bound: true, kind: "application/strategic-merge-patch+json"},
		"422-patch":                  {bound: true},
		"200-patch-null":             {bound: true},
		"403-patch-status":           {bound: true, forbid: true},
		"400-selector":               {},
		"504-future-resourceVersion": {},
		// The body of the recorded watch is its first line, and all there is.
		"200-watch-old-resourceVersion": {},
		// The recorded token was replaced; this one is as wrong in the same way.
		"400-continue":       {path: rigClaims + "?continue=bm9uc2Vuc2U"},
		"403-put-collection": {forbid: true, body: "{}"},
		"413-too-large":      {body: strings.Repeat(" ", 3145729)},
	}
	// patchWarmPoolRef is two steps, see below.
	all := recorded(t, "api-errors").(object)
	if missing := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(k string) bool { _, ok := cases[k]; return ok || k == "patchWarmPoolRef" }); len(missing) > 0 {
		t.Errorf("recorded and not replayed: %v", missing)
	}
	for name, how := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := rig(t, 1)
			forbid := false
			cfg.Allow = func(string, string, string) bool { return !forbid }
			bubble(t, cfg, func(e *env) {
				if how.bound {
					e.post(rigClaims, rigClaim(claimNine, object{"shutdownTime": "2026-11-29T20:38:00.550Z", "shutdownPolicy": "Delete"}))
					e.sleep(50 * time.Millisecond)
				}
				forbid = how.forbid
				auth := map[string]string{"": "Bearer " + e.Token(), "-": ""}[how.auth]
				if auth == "" && how.auth != "-" {
					auth = how.auth
				}
				exchange := all[name].(object)
				if how.path != "" {
					exchange["request"].(object)["path"] = how.path
				}
				got := e.replay(exchange, auth, how.kind, how.body)
				expectExchange(t, got, exchange)
			})
		})
	}
	t.Run("patchWarmPoolRef", func(t *testing.T) {
		bubble(t, rig(t, 5), func(e *env) {
			e.post(rigClaims, rigClaim(claimNine, object{"shutdownTime": "2026-11-29T20:38:00.550Z", "shutdownPolicy": "Delete"}))
			e.sleep(50 * time.Millisecond)
			e.merge(rigClaims+"/"+claimNine, `{"spec":{"lifecycle":{"shutdownTime":null}}}`)
			e.merge(rigClaims+"/"+claimNine, shutdown)
			e.sleep(50 * time.Millisecond)
			exchange := all["patchWarmPoolRef"]
			expectExchange(t, e.replay(at(exchange, "patch"), "Bearer "+e.Token(), "", ""), at(exchange, "patch"))
			e.sleep(50 * time.Millisecond)
			if got, want := mask(t, e.Get("sandboxclaims", claimNine)), mask(t, at(exchange, "then")); got != want {
				t.Errorf("later: %s", firstDifference(got, want))
			}
		})
	})
}

func TestRecordedDiscovery(t *testing.T) {
	bubble(t, rig(t, 5), func(e *env) {
		for path, want := range recorded(t, "discovery").(object) {
			r := e.get(path)
			if got := mask(t, r.body); got != mask(t, want) {
				t.Errorf("%s: %s", path, firstDifference(got, mask(t, want)))
			}
		}
	})
}

// TestRecordedClaimLife goes through the life of a warm claim, exchange by
// exchange.
func TestRecordedClaimLife(t *testing.T) {
	bubble(t, rig(t, 5), func(e *env) {
		auth := "Bearer " + e.Token()
		for _, file := range []string{"template", "warmpool"} {
			exchange := recorded(t, file)
			expectExchange(t, e.replay(exchange, auth, "", ""), exchange)
		}
		create := recorded(t, "claim-warm-create")
		expectExchange(t, e.replay(create, auth, "", ""), create)
		e.sleep(time.Second)
		later := recorded(t, "claim-warm-after-one-second")
		expectExchange(t, e.replay(later, auth, "", ""), later)

		expectObject := func(resource, name, what string, want any) {
			t.Helper()
			if got := mask(t, e.Get(resource, name)); got != mask(t, want) {
				t.Errorf("%s: %s", what, firstDifference(got, mask(t, want)))
			}
		}
		bound := text(e.Get("sandboxclaims", "namzu-task-00000000-0000-4000-8000-000000000001"), "status", "sandbox", "name")
		expectObject("sandboxes", bound, "the bound sandbox", recorded(t, "sandbox-adopted", "afterOneSecond"))
		expectObject("pods", bound, "the bound pod", recorded(t, "pod-adopted", "afterOneSecond"))
		for _, sb := range e.List("sandboxes") {
			if n := text(sb, "metadata", "name"); n != bound {
				expectObject("sandboxes", n, "a pool's sandbox", recorded(t, "sandbox-adopted", "before"))
				pod := e.Get("pods", n)
				delete(pod, "kind") // the recorded one is an item of a list
				delete(pod, "apiVersion")
				if got, want := mask(t, pod), mask(t, recorded(t, "pod-adopted", "before")); got != want {
					t.Errorf("a pool's pod: %s", firstDifference(got, want))
				}
			}
		}
		expectObject("networkpolicies", "task-network-policy", "the template's policy", recorded(t, "networkpolicy"))

		renew := recorded(t, "claim-renew-patch", "patch")
		expectExchange(t, e.replay(renew, auth, "", ""), renew)
		e.sleep(500 * time.Millisecond)
		expectObject("sandboxclaims", "namzu-task-00000000-0000-4000-8000-000000000001", "the renewed claim", recorded(t, "claim-renew-patch", "getHalfASecondLater"))

		for _, step := range []string{"first", "getAfter", "second"} {
			exchange := recorded(t, "claim-delete", step)
			expectExchange(t, e.replay(exchange, auth, "", ""), exchange)
			e.sleep(100 * time.Millisecond)
		}
		if e.Get("sandboxes", bound) != nil || e.Get("pods", bound) != nil {
			t.Error("sandbox or pod outlived the claim")
		}
	})
}

// TestRecordedSandboxLife is the same for a direct Sandbox.
func TestRecordedSandboxLife(t *testing.T) {
	bubble(t, rig(t, 5), func(e *env) {
		auth := "Bearer " + e.Token()
		const id = "namzu-task-00000000-0000-4000-8000-000000000001"
		create := recorded(t, "sandbox-direct-create")
		expectExchange(t, e.replay(create, auth, "", ""), create)
		e.expectRecordedStates("sandboxes", id, time.Second, recorded(t, "sandbox-direct-states", "states"))
		if got, want := mask(t, e.Get("pods", id)), mask(t, recorded(t, "pod-direct")); got != want {
			t.Errorf("the pod: %s", firstDifference(got, want))
		}
		renew := recorded(t, "sandbox-renew-patch")
		expectExchange(t, e.replay(renew, auth, "", ""), renew)
		e.sleep(time.Second)

		before := text(e.Get("pods", id), "metadata", "uid")
		for _, file := range []string{"sandbox-suspend", "sandbox-resume"} {
			patch := recorded(t, file, "patch")
			expectExchange(t, e.replay(patch, auth, "", ""), patch)
			e.expectRecordedStates("sandboxes", id, time.Second, recorded(t, file, "states"))
			if file == "sandbox-suspend" {
				if got, want := mask(t, e.get("/api/v1/namespaces/sandbox-rig/pods/"+id).body), mask(t, recorded(t, file, "podAfter")); got != want {
					t.Errorf("the pod of the suspended sandbox: %s", firstDifference(got, want))
				}
			}
		}
		if after := text(e.Get("pods", id), "metadata", "uid"); after == before || after == "" {
			t.Errorf("pod uid after the resume %q, before the suspend %q", after, before)
		}
		for _, step := range []string{"delete", "getAfter"} {
			exchange := recorded(t, "sandbox-delete", step)
			expectExchange(t, e.replay(exchange, auth, "", ""), exchange)
			synctest.Wait()
		}
	})
}
