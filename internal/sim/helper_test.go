package sim_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/internal/sim"
)

type object = map[string]any

const (
	claimsPath    = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/sandbox-sim/sandboxclaims"
	sandboxesPath = "/apis/agents.x-k8s.io/v1beta1/namespaces/sandbox-sim/sandboxes"
	podsPath      = "/api/v1/namespaces/sandbox-sim/pods"
)

// An env is a cluster behind an HTTP server in a bubble.
type env struct {
	testing.TB
	*sim.Cluster
	net       *memnet.Network
	transport *http.Transport
}

// bubble runs f on a cluster whose pools are full, at a whole second, and fails
// the test if anything was not modelled.
func bubble(t *testing.T, cfg sim.Config, f func(*env)) {
	t.Helper()
	bubbleUnchecked(t, cfg, func(e *env) {
		defer func() {
			if got := e.Unmodelled(); len(got) > 0 {
				e.Errorf("not modelled: %q", got)
			}
		}()
		f(e)
	})
}

// bubbleUnchecked is bubble for tests of what is not modelled.
func bubbleUnchecked(t *testing.T, cfg sim.Config, f func(*env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(start(t, cfg)) })
}

func start(t testing.TB, cfg sim.Config) *env {
	t.Helper()
	n := &memnet.Network{}
	cfg.Network = n
	c, err := sim.New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	l, err := n.Listen("tcp", "10.0.0.1:443")
	if err != nil {
		t.Fatal(err)
	}
	c.Serve(l)
	e := &env{TB: t, Cluster: c, net: n, transport: &http.Transport{DialContext: n.DialContext}}
	t.Cleanup(func() {
		e.transport.CloseIdleConnections()
		c.Close()
	})
	if err := c.WaitReady(t.Context()); err != nil {
		t.Fatalf("WaitReady: %v", err)
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	return e
}

// sleep lets time go by and everything happen that is due at its end.
func (e *env) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A reply is an answer; body is nil unless it is a JSON object.
type reply struct {
	code   int
	header http.Header
	raw    string
	body   object
}

// send makes a request with the cluster's token; kind is the content type.
func (e *env) send(method, path, kind, body string) (reply, error) {
	e.Helper()
	return e.sendAs("Bearer "+e.Token(), method, path, kind, body)
}

func (e *env) sendAs(authorization, method, path, kind, body string) (reply, error) {
	e.Helper()
	req, err := http.NewRequestWithContext(e.Context(), method, "http://10.0.0.1:443"+path, strings.NewReader(body))
	if err != nil {
		e.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	r := reply{code: resp.StatusCode, header: resp.Header, raw: string(data)}
	json.Unmarshal(data, &r.body)
	return r, err
}

// do is send that must be answered.
func (e *env) do(method, path, kind, body string) reply {
	e.Helper()
	r, err := e.send(method, path, kind, body)
	if err != nil {
		e.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (e *env) get(path string) reply     { e.Helper(); return e.do("GET", path, "", "") }
func (e *env) deleted(path string) reply { e.Helper(); return e.do("DELETE", path, "", "") }

func (e *env) merge(path, patch string) reply {
	e.Helper()
	return e.do("PATCH", path, "application/merge-patch+json", patch)
}

// post creates and must get a 201.
func (e *env) post(path string, o object) reply {
	e.Helper()
	r := e.do("POST", path, "application/json", encode(o))
	if r.code != http.StatusCreated {
		e.Fatalf("POST %s = %d %s", path, r.code, r.raw)
	}
	return r
}

// claim creates a claim at the pool; extra is merged into its spec.
func (e *env) claim(name, pool string, extra object) reply {
	e.Helper()
	spec := object{"warmPoolRef": object{"name": pool}}
	maps.Copy(spec, extra)
	return e.post(claimsPath, object{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
		"metadata": object{"name": name, "namespace": "sandbox-sim"}, "spec": spec,
	})
}

// sandbox creates a Sandbox from the template task.
func (e *env) sandbox(name string, extra object) reply {
	e.Helper()
	spec := object{"operatingMode": "Running", "service": true, "podTemplate": at(e.Get("sandboxtemplates", "task"), "spec", "podTemplate")}
	maps.Copy(spec, extra)
	return e.post(sandboxesPath, object{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
		"metadata": object{"name": name, "namespace": "sandbox-sim"}, "spec": spec,
	})
}

// A state is what one object looked like from a time on; nil is gone.
type state struct {
	after  time.Duration
	object object
	key    string
}

// states looks at an object each millisecond, after the first second each five,
// and returns each change of what key says of it; the first is now.
func (e *env) states(resource, name string, d time.Duration, key func(object) string) []state {
	e.Helper()
	var out []state
	step := time.Millisecond
	for begin := time.Now(); time.Since(begin) <= d; time.Sleep(step) {
		if time.Since(begin) == time.Second {
			step = 5 * time.Millisecond
		}
		synctest.Wait() // everything due at this instant is done
		s := state{after: time.Since(begin), object: e.Get(resource, name), key: "gone"}
		if s.object != nil {
			s.key = key(s.object)
		}
		if len(out) == 0 || out[len(out)-1].key != s.key {
			out = append(out, s)
		}
	}
	return out
}

// ready is the Ready condition's status and reason, - without one.
func ready(o object) string {
	c := condition(o, "Ready")
	if c == nil {
		return "-"
	}
	return text(c, "status") + " " + text(c, "reason")
}

func condition(o object, kind string) object {
	l, _ := at(o, "status", "conditions").([]any)
	for _, c := range l {
		if text(c, "type") == kind {
			return c.(object)
		}
	}
	return nil
}

func at(v any, path ...string) any {
	for _, p := range path {
		o, _ := v.(object)
		v = o[p]
	}
	return v
}

func text(v any, path ...string) string { s, _ := at(v, path...).(string); return s }

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// expectStates compares times and keys.
func expectStates(t testing.TB, got []state, want ...string) {
	t.Helper()
	var l []string
	for _, s := range got {
		l = append(l, s.after.String()+" "+s.key)
	}
	if strings.Join(l, "\n") != strings.Join(want, "\n") {
		t.Errorf("states:\n  %s\nwant:\n  %s", strings.Join(l, "\n  "), strings.Join(want, "\n  "))
	}
}
