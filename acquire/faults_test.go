package acquire_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
)

// The ways in which a request can go wrong.
var faults = map[string]func(r *sim.Request) *sim.Fault{
	"reset before":     fixed(sim.Fault{ResetBefore: true}),
	"reset after":      fixed(sim.Fault{ResetAfter: true}),
	"401":              status(401, "Unauthorized", nil),
	"403":              status(403, "Forbidden", nil),
	"404":              named(404, "NotFound"),
	"404 plain":        fixed(sim.Fault{Code: 404, ContentType: "text/plain; charset=utf-8", Body: []byte("404 page not found\n")}),
	"409":              named(409, "AlreadyExists"),
	"429":              fixed(sim.Fault{Code: 429, ContentType: "text/plain; charset=utf-8", Body: []byte("Too many requests, please try again later.\n")}),
	"429, 1 s":         fixed(sim.Fault{Code: 429, ContentType: "text/plain; charset=utf-8", Header: http.Header{"Retry-After": {"1"}}, Body: []byte("Too many requests, please try again later.\n")}),
	"429, beyond":      fixed(sim.Fault{Code: 429, ContentType: "text/plain; charset=utf-8", Header: http.Header{"Retry-After": {"3600"}}, Body: []byte("Too many requests, please try again later.\n")}),
	"500":              status(500, "InternalError", nil),
	"503":              status(503, "ServiceUnavailable", nil),
	"hang":             fixed(sim.Fault{Hang: true}),
	"hang after":       fixed(sim.Fault{HangAfter: true}),
	"HTML":             fixed(sim.Fault{Code: 200, ContentType: "text/html", Body: []byte("<html><body>Please log in</body></html>")}),
	"half a body":      fixed(sim.Fault{Cut: 40}),
	"over the limit":   fixed(sim.Fault{Replace: func(b []byte) []byte { return append(b, strings.Repeat(" ", bodyLimit)...) }}),
	"wrong shape":      fixed(sim.Fault{Replace: func([]byte) []byte { return []byte(`{"kind":"Wrong","metadata":[],"status":"fine"}`) }}),
	"an array":         fixed(sim.Fault{Replace: func([]byte) []byte { return []byte(`[1,2,3]`) }}),
	"another's object": fixed(sim.Fault{Replace: func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), `"uid":"`, `"uid":"f`)) }}),
}

const bodyLimit = 1 << 20

func fixed(f sim.Fault) func(*sim.Request) *sim.Fault {
	return func(*sim.Request) *sim.Fault { f := f; return &f }
}

func status(code int, reason string, details map[string]any) func(*sim.Request) *sim.Fault {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"made up","reason":%q,"code":%d}`, reason, code)
	return fixed(sim.Fault{Code: code, ContentType: "application/json", Body: []byte(body)})
}

// named answers with a Status that names the asked object; a 404 to a POST names
// the namespace.
func named(code int, reason string) func(*sim.Request) *sim.Fault {
	return func(r *sim.Request) *sim.Fault {
		name, kind := r.Name, r.Resource
		if name == "" {
			name, kind = "sandbox-sim", "namespaces"
		}
		body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"made up","reason":%q,"details":{"name":%q,"kind":%q},"code":%d}`, reason, name, kind, code)
		return &sim.Fault{Code: code, ContentType: "application/json", Body: []byte(body)}
	}
}

// A request of a create, by verb and resource.
type request struct {
	direct         bool
	verb, resource string
}

func (r request) String() string {
	if r.direct {
		return r.verb + " " + r.resource + ", direct"
	}
	return r.verb + " " + r.resource
}

var (
	getTemplate = request{true, "get", "sandboxtemplates"}
	postSandbox = request{true, "create", "sandboxes"}
	getSandbox  = request{true, "get", "sandboxes"}
	directPod   = request{true, "get", "pods"}
	postClaim   = request{false, "create", "sandboxclaims"}
	getClaim    = request{false, "get", "sandboxclaims"}
	getPod      = request{false, "get", "pods"}
)

// The outcome of a create, "" for success.
type outcome = acquire.Reason

// matrix says what becomes of a create when a request goes wrong once, and when
// it goes wrong every time: of the template's GET, the POSTs, the looks at the
// object, and the GET of its pod.
var matrix = map[string]struct{ template, post, look, pod [2]outcome }{
	"reset before": {
		template: [2]outcome{"", acquire.ReasonAPIUnreachable},
		post:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		look:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		pod:      [2]outcome{"", acquire.ReasonAPIUnreachable},
	},
	"reset after": {
		template: [2]outcome{"", acquire.ReasonAPIUnreachable},
		post:     [2]outcome{"", ""}, // it is there, and found by its name
		look:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		pod:      [2]outcome{"", acquire.ReasonAPIUnreachable},
	},
	"401": { // with a new token the second try is taken
		template: [2]outcome{"", acquire.ReasonForbidden},
		post:     [2]outcome{"", acquire.ReasonForbidden},
		look:     [2]outcome{"", acquire.ReasonForbidden},
		pod:      [2]outcome{"", acquire.ReasonForbidden},
	},
	"403": {
		template: [2]outcome{acquire.ReasonForbidden, acquire.ReasonForbidden},
		post:     [2]outcome{acquire.ReasonForbidden, acquire.ReasonForbidden},
		look:     [2]outcome{acquire.ReasonForbidden, acquire.ReasonForbidden},
		pod:      [2]outcome{acquire.ReasonForbidden, acquire.ReasonForbidden},
	},
	"404": {
		template: [2]outcome{acquire.ReasonInvalidRequest, acquire.ReasonInvalidRequest},
		post:     [2]outcome{acquire.ReasonInvalidRequest, acquire.ReasonInvalidRequest},
		look:     [2]outcome{acquire.ReasonClaimDeleted, acquire.ReasonClaimDeleted},
		pod:      [2]outcome{"", ""}, // the Sandbox's selector finds it
	},
	"404 plain": {
		template: [2]outcome{acquire.ReasonNotServed, acquire.ReasonNotServed},
		post:     [2]outcome{acquire.ReasonNotServed, acquire.ReasonNotServed},
		look:     [2]outcome{acquire.ReasonNotServed, acquire.ReasonNotServed},
		pod:      [2]outcome{acquire.ReasonNotServed, acquire.ReasonNotServed},
	},
	"409": {
		template: [2]outcome{acquire.ReasonConflict, acquire.ReasonConflict},
		post:     [2]outcome{"", acquire.ReasonConflict}, // the second time it is free
		look:     [2]outcome{acquire.ReasonConflict, acquire.ReasonConflict},
		pod:      [2]outcome{acquire.ReasonConflict, acquire.ReasonConflict},
	},
	"429": {
		template: [2]outcome{"", acquire.ReasonAPIUnreachable},
		post:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		look:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		pod:      [2]outcome{"", acquire.ReasonAPIUnreachable},
	},
	"429, 1 s": {
		template: [2]outcome{"", acquire.ReasonAPIUnreachable},
		post:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		look:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		pod:      [2]outcome{"", acquire.ReasonAPIUnreachable},
	},
	"429, beyond": {
		template: [2]outcome{acquire.ReasonAPIUnreachable, acquire.ReasonAPIUnreachable},
		post:     [2]outcome{acquire.ReasonAPIUnreachable, acquire.ReasonAPIUnreachable},
		look:     [2]outcome{acquire.ReasonAPIUnreachable, acquire.ReasonAPIUnreachable},
		pod:      [2]outcome{acquire.ReasonAPIUnreachable, acquire.ReasonAPIUnreachable},
	},
	"500": {
		template: [2]outcome{"", acquire.ReasonAPIUnreachable},
		post:     [2]outcome{acquire.ReasonAPIUnreachable, acquire.ReasonAPIUnreachable}, // final for a POST
		look:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		pod:      [2]outcome{"", acquire.ReasonAPIUnreachable},
	},
	"503": {
		template: [2]outcome{"", acquire.ReasonAPIUnreachable},
		post:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		look:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		pod:      [2]outcome{"", acquire.ReasonAPIUnreachable},
	},
	"hang": {
		template: [2]outcome{"", acquire.ReasonAPITimeout},
		post:     [2]outcome{"", acquire.ReasonAPITimeout},
		look:     [2]outcome{"", acquire.ReasonAPITimeout},
		pod:      [2]outcome{"", acquire.ReasonAPITimeout},
	},
	"hang after": {
		template: [2]outcome{"", acquire.ReasonAPITimeout},
		post:     [2]outcome{"", ""},
		look:     [2]outcome{"", acquire.ReasonAPITimeout},
		pod:      [2]outcome{"", acquire.ReasonAPITimeout},
	},
	"HTML": {
		template: [2]outcome{acquire.ReasonProtocol, acquire.ReasonProtocol},
		post:     [2]outcome{"", acquire.ReasonProtocol},
		look:     [2]outcome{"", acquire.ReasonProtocol},
		pod:      [2]outcome{acquire.ReasonProtocol, acquire.ReasonProtocol},
	},
	"half a body": {
		template: [2]outcome{"", acquire.ReasonAPIUnreachable},
		post:     [2]outcome{"", ""},
		look:     [2]outcome{"", acquire.ReasonAPIUnreachable},
		pod:      [2]outcome{"", acquire.ReasonAPIUnreachable},
	},
	"over the limit": {
		template: [2]outcome{acquire.ReasonProtocol, acquire.ReasonProtocol},
		post:     [2]outcome{"", ""},
		look:     [2]outcome{acquire.ReasonProtocol, acquire.ReasonProtocol},
		pod:      [2]outcome{acquire.ReasonProtocol, acquire.ReasonProtocol},
	},
	"wrong shape": {
		template: [2]outcome{acquire.ReasonProtocol, acquire.ReasonProtocol},
		post:     [2]outcome{"", ""},
		look:     [2]outcome{"", acquire.ReasonProtocol},
		pod:      [2]outcome{acquire.ReasonProtocol, acquire.ReasonProtocol},
	},
	"an array": {
		template: [2]outcome{acquire.ReasonProtocol, acquire.ReasonProtocol},
		post:     [2]outcome{"", ""},
		look:     [2]outcome{"", acquire.ReasonProtocol},
		pod:      [2]outcome{acquire.ReasonProtocol, acquire.ReasonProtocol},
	},
	"another's object": {
		template: [2]outcome{"", ""},
		post:     [2]outcome{acquire.ReasonClaimDeleted, acquire.ReasonClaimDeleted}, // the next look shows another one; that is left alone
		look:     [2]outcome{acquire.ReasonClaimDeleted, acquire.ReasonClaimDeleted},
		pod:      [2]outcome{acquire.ReasonProbe, acquire.ReasonProbe}, // the guest does not know that token
	},
}

func TestFaultMatrix(t *testing.T) {
	for name, row := range matrix {
		for _, cell := range []struct {
			at   request
			want [2]outcome
		}{
			{getTemplate, row.template}, {postSandbox, row.post}, {getSandbox, row.look}, {directPod, row.pod},
			{postClaim, row.post}, {getClaim, row.look}, {getPod, row.pod},
		} {
			for i, times := range []string{"once", "always"} {
				t.Run(strings.Join([]string{name, cell.at.String(), times}, "/"), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testFault(t, name, cell.at, times == "always", cell.want[i]) })
				})
			}
		}
	}
}

func testFault(t *testing.T, name string, at request, always bool, want outcome) {
	w := newFaultyWorld(t, name, at, always)
	start := time.Now()
	sb, err := w.backend.Create(t.Context(), acquire.Options{})
	elapsed := time.Since(start)
	if w.hits() == 0 {
		t.Fatal("the fault was never met")
	}
	// The budget, one look at the pod, and the cleanup.
	if most := acquire.DefaultReadyTimeout + 17*time.Second; elapsed > most {
		t.Errorf("took %v, want at most %v", elapsed, most)
	}
	if want == "" {
		if err != nil {
			t.Fatalf("got %v, want a sandbox", err)
		}
		if out, err := sb.Command(t.Context(), "echo", "hi").Output(); err != nil || string(out) != "hi\n" {
			t.Errorf("command in the sandbox: %q, %v", out, err)
		}
		if err := sb.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		w.nothingLeft()
		return
	}
	if err == nil {
		sb.Release(t.Context())
		t.Fatalf("got a sandbox, want %s", want)
	}
	e := asError(t, err)
	if e.Reason != want {
		t.Errorf("got reason %s at stage %s, want %s: %v", e.Reason, e.Stage, want, err)
	}
	if e.Cleanup != nil {
		t.Errorf("cleanup: %v", e.Cleanup)
	}
	if name == "429, beyond" && (e.RetryAfter != time.Hour || elapsed > time.Second) {
		t.Errorf("Retry-After of an hour: got RetryAfter %v after %v, want it told at once", e.RetryAfter, elapsed)
	}
	if text := err.Error(); strings.Contains(text, w.sim.Token()) {
		t.Errorf("the error contains the token: %s", text)
	}
	if name == "another's object" && at.verb == "create" {
		return // by its uid the object is another's, which is never deleted
	}
	w.nothingLeft()
}

// A faultyWorld is a world in which one request goes wrong.
type faultyWorld struct {
	*world
	mu  sync.Mutex
	met int
}

func (w *faultyWorld) hits() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.met
}

func newFaultyWorld(t *testing.T, name string, at request, always bool) *faultyWorld {
	t.Helper()
	f := &faultyWorld{}
	f.world = newWorld(t, setup{
		sim: func(c *sim.Config) {
			c.MoreTokens = []string{"first", "second"}
			c.Fault = func(r *sim.Request) *sim.Fault {
				f.mu.Lock()
				defer f.mu.Unlock()
				if r.Verb != at.verb || r.Resource != at.resource {
					return nil
				}
				f.met++
				if f.met > 1 && !always {
					return nil
				}
				return faults[name](r)
			}
		},
		client: func(c *k8s.Config) {
			c.MaxObjectBytes = bodyLimit
			// Each request gets a token of its own, so that a refused one is not
			// just repeated.
			rotation := 0
			c.Token = func(context.Context) (string, error) {
				f.mu.Lock()
				defer f.mu.Unlock()
				rotation++
				return []string{"first", "second"}[rotation%2], nil
			}
		},
		backend: func(c *acquire.Config) {
			if at.direct {
				c.Pool, c.AgentAddress = "", acquire.ByPodIP
			}
		},
	})
	return f
}
