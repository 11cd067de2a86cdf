package sim_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

// TestAgainstALiveServer sends the same requests to a real API server with the
// custom resources and an agent-sandbox controller, and to the simulator, and
// compares the answers. It needs an administrator's token and a namespace
// without a claim named sim-c or sim-d and without a pool named nopool.
func TestAgainstALiveServer(t *testing.T) {
	server, ns := os.Getenv("RIG_SERVER"), os.Getenv("RIG_NAMESPACE")
	if server == "" {
		t.Skip("RIG_SERVER is not set: no live API server (with RIG_CA, RIG_ADMIN_TOKEN_FILE, RIG_NAMESPACE)")
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(os.Getenv(name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return data
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(read("RIG_CA")) {
		t.Fatal("RIG_CA holds no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	c, err := sim.New(sim.Config{Namespace: ns, Pools: []map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fake := httptest.NewServer(c)
	defer fake.Close()

	ask := func(base, token, method, path, kind, body string) reply {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if kind != "" {
			req.Header.Set("Content-Type", kind)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return reply{code: resp.StatusCode, header: resp.Header, raw: string(data)}
	}
	token := strings.TrimSpace(string(read("RIG_ADMIN_TOKEN_FILE")))
	both := func(method, path, kind, body string) (real, simulated reply) {
		t.Helper()
		return ask(server, token, method, path, kind, body), ask(fake.URL, c.Token(), method, path, kind, body)
	}
	claims := strings.Replace(claimsPath, "sandbox-sim", ns, 1)
	sandboxes := strings.Replace(sandboxesPath, "sandbox-sim", ns, 1)
	policies := strings.Replace(policiesPath, "sandbox-sim", ns, 1)
	const dry = "?dryRun=All"
	claim := func(name, spec string) string {
		return `{"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxClaim","metadata":{"name":"` + name + `"},"spec":{"warmPoolRef":{"name":"nopool"}` + spec + `}}`
	}
	sandbox := func(spec string) string {
		return `{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox","metadata":{"name":"sim-d"},"spec":` + spec + `}`
	}
	both("DELETE", claims+"/sim-c", "", "")
	both("POST", claims, "application/json", claim("sim-c", ""))
	for _, base := range []struct{ url, token string }{{server, token}, {fake.URL, c.Token()}} {
		// Until the controller has refused it; each answer is asked for anew.
		for end := time.Now().Add(10 * time.Second); !strings.Contains(ask(base.url, base.token, "GET", claims+"/sim-c", "", "").raw, "WarmPoolNotFound"); {
			if time.Now().After(end) {
				t.Fatalf("%s: the claim was not looked at", base.url)
			}
		}
	}
	defer both("DELETE", claims+"/sim-c", "", "")

	for _, tt := range []struct{ method, path, kind, body string }{
		{"GET", claims + "/sim-c", "", ""},
		{"GET", claims + "/sim-d", "", ""},
		{"GET", claims + "?fieldSelector=metadata.name%3Dsim-d", "", ""},
		{"GET", claims + "?labelSelector=a+in+()", "", ""},
		{"GET", claims + "?labelSelector=a%3D%3D%3Db", "", ""},
		{"GET", claims + "?labelSelector=a/b/c", "", ""},
		{"GET", claims + "?fieldSelector=spec.x%3D1", "", ""},
		{"GET", claims + "?limit=x", "", ""},
		{"GET", claims + "?resourceVersion=abc", "", ""},
		{"GET", claims + "?continue=bm9uc2Vuc2U", "", ""},
		{"GET", claims + "?resourceVersion=5&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NTAwLCJzdGFydCI6Ii9jXHUwMDAwIn0", "", ""},
		{"GET", claims + "?resourceVersionMatch=NotOlderThan", "", ""},
		{"GET", "/apis/agents.x-k8s.io/v9/namespaces/" + ns + "/sandboxes", "", ""},
		{"GET", "/apis/agents.x-k8s.io/v1beta1/namespaces/" + ns + "/boxes", "", ""},
		{"GET", strings.Replace(claims, ns, "no-such-namespace", 1), "", ""},
		{"POST", strings.Replace(claims, ns, "no-such-namespace", 1), "application/json", claim("sim-d", "")},
		{"POST", claims, "application/json", claim("sim-c", "")},
		{"POST", claims + dry, "application/json", claim("sim-c", "")},
		{"POST", claims + dry, "application/json", claim("sim-d", "")},
		{"POST", claims, "application/json", "{not json"},
		{"POST", claims, "application/json", "{}"},
		{"POST", claims, "text/plain", claim("sim-d", "")},
		{"POST", claims, "application/json", claim("Sim_D", "")},
		{"POST", claims, "application/json", claim("", "")},
		{"POST", claims + dry, "application/json", claim("sim-d", `,"nope":1`)},
		{"POST", claims + "?fieldValidation=Strict", "application/json", claim("sim-d", `,"nope":1`)},
		{"POST", claims, "application/json", claim("sim-d", `,"lifecycle":[]`)},
		{"POST", claims, "application/json", claim("sim-d", `,"lifecycle":{"shutdownTime":1}`)},
		{"POST", claims, "application/json", claim("sim-d", `,"lifecycle":{"shutdownTime":"2030-01-01"}`)},
		{"POST", claims + dry, "application/json", claim("sim-d", `,"lifecycle":{"shutdownTime":null,"ttlSecondsAfterFinished":1.0}`)},
		{"POST", claims, "application/json", claim("sim-d", `,"lifecycle":{"ttlSecondsAfterFinished":-1}`)},
		{"POST", claims, "application/json", claim("sim-d", `,"lifecycle":{"shutdownPolicy":1}`)},
		{"POST", claims, "application/json", claim("sim-d", `,"env":[null]`)},
		{"POST", claims, "application/json", claim("sim-d", `,"env":[{"name":"a"}]`)},
		{"POST", sandboxes, "application/json", sandbox(`{}`)},
		{"POST", sandboxes + dry, "application/json", sandbox(`{"podTemplate":{"metadata":{"labels":null},"spec":{"containers":[{"name":"a","ports":[{"containerPort":1}]}]}}}`)},
		{"POST", sandboxes, "application/json", sandbox(`{"podTemplate":{"spec":{"containers":[{"name":"a"},{"name":"a"}]}}}`)},
		{"POST", sandboxes, "application/json", sandbox(`{"podTemplate":{"spec":{"containers":[{"name":"a","resources":{"limits":{"memory":"much"}}}]}}}`)},
		{"POST", sandboxes + "?fieldValidation=Strict", "application/json", sandbox(`{"podTemplate":{"spec":{"containers":[{"name":"a","env":[{"name":"x","nope":1}]}],"nope":3}}}`)},
		{"PATCH", claims + "/sim-c", mergeType, `{"spec":{"nope":1}}`},
		{"PATCH", claims + "/sim-c", mergeType, `{"metadata":{"name":"sim-d"}}`},
		{"PATCH", claims + "/sim-c", mergeType, `[]`},
		{"PATCH", claims + "/sim-c", mergeType, `{`},
		{"PATCH", claims + "/sim-c", "application/json", `{}`},
		{"PATCH", claims + "/sim-c", "application/json-patch+json", `[{"op":"test","path":"/spec/warmPoolRef/name","value":"other"}]`},
		{"PATCH", claims + "/sim-c", "application/json-patch+json", `[{"op":1}]`},
		{"PATCH", claims + "/sim-c", "application/json-patch+json", `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`},
		{"PATCH", claims + "/sim-c", mergeType, `{"metadata":{"resourceVersion":"1"}}`},
		{"PATCH", claims + "/sim-c", mergeType, `{"status":{"sandbox":{"name":"forged"}}}`},
		{"DELETE", claims + "/sim-c?propagationPolicy=Sideways", "", ""},
		{"DELETE", claims + "/sim-c", "application/json", `{"preconditions":{"uid":"00000000-0000-4000-8000-000000000016"}}`},
		{"DELETE", claims + "/sim-c" + dry, "", ""},
		{"DELETE", claims + "/sim-c?propagationPolicy=Foreground", "", ""},
		{"DELETE", claims + "/sim-d", "", ""},
		{"DELETE", policies + "/sim-d", "", ""},
	} {
		t.Run(tt.method+" "+tt.path+" "+tt.body, func(t *testing.T) {
			real, simulated := both(tt.method, tt.path, tt.kind, tt.body)
			if real.code != simulated.code {
				t.Fatalf("live %d %s\nsimulated %d %s", real.code, real.raw, simulated.code, simulated.raw)
			}
			for _, h := range []string{"Content-Type", "Warning", "Retry-After"} {
				if real.header.Get(h) != simulated.header.Get(h) {
					t.Errorf("%s: live %q, simulated %q", h, real.header.Get(h), simulated.header.Get(h))
				}
			}
			var bodies [2]any
			for i, r := range []reply{real, simulated} {
				if json.Unmarshal([]byte(r.raw), &bodies[i]) != nil {
					bodies[i] = r.raw
				}
				if meta, ok := at(bodies[i], "metadata").(object); ok {
					delete(meta, "managedFields")
				}
			}
			if want, got := mask(t, bodies[0]), mask(t, bodies[1]); want != got {
				t.Errorf("simulated differs from live: %s", firstDifference(got, want))
			}
		})
	}
}
