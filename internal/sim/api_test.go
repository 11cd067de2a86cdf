package sim_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

const plainClaim = `{"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxClaim","metadata":{"name":"c"},"spec":{"warmPoolRef":{"name":"pool"}}}`

// TestAnswers are single requests to a fresh cluster with a claim c.
func TestAnswers(t *testing.T) {
	with := func(field, value string) string {
		return strings.Replace(plainClaim, `"name":"c"}`, `"name":"d"}`, 1)[:len(plainClaim)-1] + `,"` + field + `":` + value + `}`
	}
	spec := func(rest string) string {
		return strings.Replace(strings.Replace(plainClaim, `"name":"c"}`, `"name":"d"}`, 1), `{"name":"pool"}}`, `{"name":"pool"},`+rest+`}`, 1)
	}
	meta := func(rest string) string { return strings.Replace(plainClaim, `{"name":"c"}`, rest, 1) }
	strict := "?fieldValidation=Strict"
	for _, tt := range []struct {
		name, method, path, kind, body string
		code                           int
		message                        string // a part of it
	}{
		{"a version of the server", "GET", "/version", "", "", 200, ""},
		{"a list of a namespace that is missing is empty", "GET", strings.Replace(claimsPath, "sandbox-sim", "nope", 1), "", "", 200, `"items":[]`},
		{"a list of all namespaces", "GET", "/apis/extensions.agents.x-k8s.io/v1beta1/sandboxclaims", "", "", 200, `"name":"c"`},
		{"a namespace", "GET", "/api/v1/namespaces/sandbox-sim", "", "", 200, `"phase":"Active"`},
		{"an escaped slash climbs out of its segment", "GET", claimsPath + "/..%2Fsandboxclaims", "", "", 501, "subresource"},
		{"a resource without its definition", "GET", "/apis/agents.x-k8s.io/v1beta1/namespaces/sandbox-sim/boxes", "", "", 404, "404 page not found"},
		{"its deletion", "DELETE", "/apis/nothing.example/v1/namespaces/sandbox-sim/boxes/b", "", "", 404, "404 page not found"},

		{"another API version in the body", "POST", claimsPath, "application/json", strings.Replace(plainClaim, "v1beta1", "v1", 1), 400, "the API version in the data (extensions.agents.x-k8s.io/v1) does not match the expected API version (extensions.agents.x-k8s.io/v1beta1)"},
		{"no name", "POST", claimsPath, "application/json", meta("{}"), 422, "metadata.name: Required value: name or generateName is required"},
		{"a generated name", "POST", claimsPath, "application/json", meta(`{"generateName":"x-"}`), 201, `"generateName":"x-"`},
		{"a bad label", "POST", claimsPath, "application/json", meta(`{"name":"d","labels":{"a b":"c d"}}`), 422, `metadata.labels: Invalid value: \"c d\": a valid label must be`},
		{"a bad annotation key", "POST", claimsPath, "application/json", meta(`{"name":"d","annotations":{"a/b/c":""}}`), 422, "a valid label key must consist of"},
		{"a name of 254 characters", "POST", claimsPath, "application/json", meta(`{"name":"` + strings.Repeat("a", 254) + `"}`), 422, "must be no more than 253 characters"},
		{"a list in place of an object", "POST", claimsPath, "application/json", spec(`"lifecycle":[]`), 422, `spec.lifecycle in body must be of type object: \"array\"`},
		{"a number in place of text", "POST", claimsPath, "application/json", spec(`"lifecycle":{"shutdownTime":1}`), 422, `spec.lifecycle.shutdownTime in body must be of type date-time: \"int64\"`},
		{"null is nothing", "POST", claimsPath, "application/json", spec(`"lifecycle":{"shutdownTime":null}`), 201, `"lifecycle":{"shutdownPolicy":"Retain"}`},
		{"null does not do where something is required", "POST", claimsPath, "application/json", strings.Replace(plainClaim, `"pool"`, "null", 1), 422, "spec.warmPoolRef.name: Required value"},
		{"null in a list", "POST", claimsPath, "application/json", spec(`"env":[null]`), 422, `spec.env[0] in body must be of type object: \"null\"`},
		{"a whole number with a point", "POST", claimsPath, "application/json", spec(`"lifecycle":{"ttlSecondsAfterFinished":1.0}`), 201, `"ttlSecondsAfterFinished":1}`},
		{"a number of another type than its choices", "POST", claimsPath, "application/json", spec(`"lifecycle":{"shutdownPolicy":1}`), 422, `Unsupported value: 1: supported values: \"Delete\"`},
		{"labels that are a number", "POST", claimsPath, "application/json", meta(`{"name":"d","labels":5}`), 400, "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string"},
		{"a label that is a number", "POST", claimsPath, "application/json", meta(`{"name":"d","labels":{"a":true}}`), 400, "json: cannot unmarshal bool into Go struct field ObjectMeta.labels of type string"},
		{"no kind", "POST", claimsPath, "application/json", "{}", 400, "the object provided is unrecognized (must be of type SandboxClaim): Object 'Kind' is missing in '{}' ({})"},
		{"another content type", "POST", claimsPath, "text/plain", plainClaim, 415, "accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"null takes the default", "POST", claimsPath, "application/json", spec(`"lifecycle":{"shutdownPolicy":null}`), 201, `"shutdownPolicy":"Retain"`},
		{"a negative number", "POST", claimsPath, "application/json", spec(`"lifecycle":{"ttlSecondsAfterFinished":-1}`), 422, "spec.lifecycle.ttlSecondsAfterFinished in body should be greater than or equal to 0"},
		{"a missing field of a list's element", "POST", claimsPath, "application/json", spec(`"env":[{"name":"a"}]`), 422, "spec.env[0].value: Required value"},
		{"a stamp with a blank", "POST", claimsPath, "application/json", spec(`"lifecycle":{"shutdownTime":"2030-01-01 00:00:00Z"}`), 422, "must be of type date-time"},
		{"a bare date", "POST", claimsPath, "application/json", spec(`"lifecycle":{"shutdownTime":"2030-01-01"}`), 422, "must be of type date-time"},
		{"a stamp with an offset and nanoseconds", "POST", claimsPath, "application/json", spec(`"lifecycle":{"shutdownTime":"2030-01-01T00:00:00.123456789+02:00"}`), 201, ""},
		{"an unknown field at the top, strictly", "POST", claimsPath + strict, "application/json", with("nope", "1"), 400, `strict decoding error: unknown field \"nope\"`},
		{"two of them, one in the metadata", "POST", claimsPath + strict, "application/json", strings.Replace(spec(`"nope":1`), `{"name":"d"}`, `{"name":"d","nope":1}`, 1), 400, `strict decoding error: unknown field \"metadata.nope\", unknown field \"spec.nope\"`},
		{"unknown fields ignored", "POST", claimsPath + "?fieldValidation=Ignore", "application/json", spec(`"nope":1`), 201, ""},
		{"status is not for creators", "POST", claimsPath + strict, "application/json", with("status", `{"sandbox":{"name":"forged"}}`), 201, ""},
		{"a dry run of what exists", "POST", claimsPath + "?dryRun=All", "application/json", plainClaim, 409, "already exists"},

		{"an unknown field in a patch, strictly", "PATCH", claimsPath + "/c" + strict, mergeType, `{"spec":{"nope":1}}`, 422, `strict decoding error: unknown field`},
		{"a JSON patch", "PATCH", claimsPath + "/c", "application/json-patch+json", `[{"op":"test","path":"/spec/warmPoolRef/name","value":"pool"},{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`, 200, `"labels":{"a":"b"}`},
		{"a JSON patch whose test fails", "PATCH", claimsPath + "/c", "application/json-patch+json", `[{"op":"test","path":"/spec/warmPoolRef/name","value":"other"}]`, 422, "the server rejected our request due to an error in our request"},
		{"a JSON patch that is none", "PATCH", claimsPath + "/c", "application/json-patch+json", `{}`, 400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"},
		{"an operation that is a number", "PATCH", claimsPath + "/c", "application/json-patch+json", `[{"op":1}]`, 400, "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"},
		{"a patch that is no JSON", "PATCH", claimsPath + "/c", mergeType, `{`, 400, "invalid JSON patch"},
		{"a merge patch that is no object", "PATCH", claimsPath + "/c", mergeType, "[]", 400, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{"renaming", "PATCH", claimsPath + "/c", mergeType, `{"metadata":{"name":"d"}}`, 400, "the name of the object (d) does not match the name on the URL (c)"},
		{"moving", "PATCH", claimsPath + "/c", mergeType, `{"metadata":{"namespace":"d"}}`, 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{"a patch of what is not there", "PATCH", claimsPath + "/d", mergeType, `{}`, 404, `sandboxclaims.extensions.agents.x-k8s.io \"d\" not found`},
		{"a patch of the status that is not", "PATCH", claimsPath + "/c", mergeType, `{"status":{"sandbox":{"name":"forged"}}}`, 200, `"generation":1`},
		{"a patch of the status that is", "PATCH", claimsPath + "/c/status", mergeType, `{"status":{"sandbox":{"name":"forged"}},"spec":{"warmPoolRef":{"name":"x"}}}`, 200, `"spec":{"warmPoolRef":{"name":"pool"}},"status":{"sandbox":{"name":"forged"}}`},
		{"the status by itself", "GET", claimsPath + "/c/status", "", "", 200, `"name":"c"`},

		{"a wrong resource version", "DELETE", claimsPath + "/c", "application/json", `{"preconditions":{"resourceVersion":"1"}}`, 409, "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record"},
		{"an unknown propagation policy", "DELETE", claimsPath + "/c?propagationPolicy=Sideways", "", "", 422, `DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"`},
		{"an unknown field selector", "GET", claimsPath + "?fieldSelector=spec.x%3D1", "", "", 400, "field label not supported: spec.x"},
		{"a field selector with two values", "GET", claimsPath + "?fieldSelector=metadata.name%3Da%3Db", "", "", 400, "invalid field selector: unescaped character in value: 61"},
		{"a limit that is no number", "GET", claimsPath + "?limit=x", "", "", 400, `strconv.ParseInt: parsing \"x\": invalid syntax`},
		{"a negative limit is none", "GET", claimsPath + "?limit=-1", "", "", 200, `"name":"c"`},
		{"a resource version that is no number", "GET", claimsPath + "?resourceVersion=abc", "", "", 400, `invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax`},
		{"a match without a version", "GET", claimsPath + "?resourceVersionMatch=NotOlderThan", "", "", 422, "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{"a token and a version", "GET", claimsPath + "?resourceVersion=5&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NTAwLCJzdGFydCI6Ii9jXHUwMDAwIn0", "", "", 400, "specifying resource version is not allowed when using continue"},
		{"a dry run of a deletion", "DELETE", claimsPath + "/c?dryRun=All", "", "", 200, `"status":"Success"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubbleUnchecked(t, sim.Config{Pools: []map[string]any{}}, func(e *env) {
				e.claim("c", "pool", nil)
				got := e.do(tt.method, tt.path, tt.kind, tt.body)
				if got.code != tt.code || !strings.Contains(got.raw, tt.message) {
					t.Errorf("%d %s\nwant %d with %s", got.code, got.raw, tt.code, tt.message)
				}
				if tt.code >= 400 && tt.code != 404 && (got.body["kind"] != "Status" || got.body["code"] != float64(tt.code)) {
					t.Errorf("no Status of its own code: %s", got.raw)
				}
				if unmodelled := e.Unmodelled(); (tt.code == 501) != (len(unmodelled) == 1) {
					t.Errorf("code %d, Unmodelled %q", tt.code, unmodelled)
				}
			})
		})
	}
}

// TestUnmodelled is about requests that a real server answers in a way that
// nobody looked up: they must not pass for anything else.
func TestUnmodelled(t *testing.T) {
	for _, tt := range []struct{ name, method, path, kind, body string }{
		{"PUT", "PUT", claimsPath + "/c", "application/json", plainClaim},
		{"HEAD", "HEAD", claimsPath + "/c", "", ""},
		{"deleting a collection", "DELETE", claimsPath, "", ""},
		{"server-side apply", "PATCH", claimsPath + "/c", "application/apply-patch+yaml", "{}"},
		{"YAML", "POST", claimsPath, "application/yaml", "a: b"},
		{"creating a pod", "POST", podsPath, "application/json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`},
		{"an unknown parameter", "GET", claimsPath + "?pretty=true", "", ""},
		{"a parameter given twice", "GET", claimsPath + "?limit=1&limit=2", "", ""},
		{"an exact list", "GET", claimsPath + "?resourceVersion=1&resourceVersionMatch=Exact", "", ""},
		{"a group that every cluster has", "GET", "/apis/apps/v1/namespaces/sandbox-sim/deployments", "", ""},
		{"a resource of a group that every cluster has", "GET", "/api/v1/namespaces/sandbox-sim/secrets", "", ""},
		{"the deprecated version", "GET", strings.Replace(claimsPath, "v1beta1", "v1alpha1", 1), "", ""},
		{"a subresource", "GET", claimsPath + "/c/scale", "", ""},
		{"a longer path", "GET", claimsPath + "/c/status/x", "", ""},
		{"an empty segment", "GET", strings.Replace(claimsPath, "/namespaces", "//namespaces", 1), "", ""},
		{"another path", "GET", "/metrics", "", ""},
		{"an unknown option of a deletion", "DELETE", claimsPath + "/c", "application/json", `{"orphanDependents":true}`},
		{"watching from the future", "GET", claimsPath + "?watch=1&resourceVersion=99999999", "", ""},
		{"an initial list by watch", "GET", claimsPath + "?watch=1&sendInitialEvents=true", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubbleUnchecked(t, sim.Config{Pools: []map[string]any{}}, func(e *env) {
				e.claim("c", "pool", nil)
				got := e.do(tt.method, tt.path, tt.kind, tt.body)
				if got.code != http.StatusNotImplemented {
					t.Errorf("%d %s, want 501", got.code, got.raw)
				}
				if list := e.Unmodelled(); len(list) != 1 || !strings.HasPrefix(list[0], tt.method+" ") {
					t.Errorf("Unmodelled = %q, want the one request", list)
				}
			})
		})
	}
	t.Run("a representation other than JSON", func(t *testing.T) {
		bubbleUnchecked(t, sim.Config{}, func(e *env) {
			for _, accept := range []string{"application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
				req, _ := http.NewRequestWithContext(e.Context(), "GET", "http://10.0.0.1:443"+claimsPath, nil)
				req.Header.Set("Authorization", "Bearer "+e.Token())
				req.Header.Set("Accept", accept)
				resp, err := e.transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusNotImplemented {
					t.Errorf("Accept: %s: %d, want 501", accept, resp.StatusCode)
				}
			}
		})
	})
}

func TestDirectories(t *testing.T) {
	bubble(t, sim.Config{Unserved: []string{"ciliumnetworkpolicies"}}, func(e *env) {
		for path, want := range map[string]string{
			"/readyz":                    "ok",
			"/apis":                      `"groups":[{"name":"agents.x-k8s.io"`,
			"/api/v1":                    `"name":"pods"`,
			"/apis/cilium.io":            "404 page not found",
			"/apis/networking.k8s.io/v1": `"name":"networkpolicies"`,
			"/apis/cilium.io/v2/namespaces/sandbox-sim/ciliumnetworkpolicies": "404 page not found",
		} {
			if r := e.get(path); !strings.Contains(r.raw, want) || strings.HasPrefix(want, "404") != (r.code == 404) {
				t.Errorf("%s: %d %s, want %s", path, r.code, r.raw, want)
			}
		}
	})
}

func TestAccess(t *testing.T) {
	var asked []string
	cfg := sim.Config{Allow: func(verb, resource, name string) bool {
		asked = append(asked, verb+" "+resource+" "+name)
		return verb != "watch" && resource != "sandboxclaims/status"
	}}
	bubble(t, cfg, func(e *env) {
		e.claim("c", "pool", nil)
		if r := e.get(claimsPath + "?watch=true"); r.code != 403 || !strings.Contains(r.raw, "cannot watch resource") {
			t.Errorf("watch: %d %s, want 403", r.code, r.raw)
		}
		if r := e.merge(claimsPath+"/c/status", "{}"); r.code != 403 || !strings.Contains(r.raw, `cannot patch resource \"sandboxclaims/status\"`) {
			t.Errorf("patch of the status: %d %s, want 403", r.code, r.raw)
		}
		e.get(claimsPath)
		e.deleted(claimsPath + "/c")
		want := []string{"create sandboxclaims ", "watch sandboxclaims ", "patch sandboxclaims/status c", "list sandboxclaims ", "delete sandboxclaims c"}
		if !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
		for _, path := range []string{"/readyz", "/version"} {
			if r, err := e.sendAs("", "GET", path, "", ""); err != nil || r.code != 200 {
				t.Errorf("anonymous %s: %d %v, want 200", path, r.code, err)
			}
		}
		r, err := e.sendAs("", "GET", "/apis", "", "")
		if err != nil || r.code != 403 || !strings.Contains(r.raw, `forbidden: User \"system:anonymous\" cannot get path \"/apis\"`) {
			t.Errorf("anonymous /apis: %d %s %v, want 403", r.code, r.raw, err)
		}
		if r, err := e.sendAs("Basic "+e.Token(), "GET", "/apis", "", ""); err != nil || r.code != 401 {
			t.Errorf("Basic: %d %v, want 401", r.code, err)
		}
	})
}

func TestRequestLog(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.claim("c", "pool", nil)
		e.sleep(time.Second)
		e.get(claimsPath + "/c?resourceVersion=0")
		e.deleted(claimsPath + "/nope")
		var got []string
		for i, r := range e.Requests() {
			if r.N != i+1 {
				t.Errorf("request %d has number %d", i, r.N)
			}
			got = append(got, r.String())
		}
		if want := []string{"create sandboxclaims", "get sandboxclaims/c", "delete sandboxclaims/nope"}; !slices.Equal(got, want) {
			t.Errorf("log %q, want %q", got, want)
		}
		log := e.Requests()
		if log[0].Code != 201 || log[1].Code != 200 || log[2].Code != 404 {
			t.Errorf("codes %d, %d, %d; want 201, 200, 404", log[0].Code, log[1].Code, log[2].Code)
		}
		if d := log[1].Time.Sub(log[0].Time); d != time.Second {
			t.Errorf("%v between the first two, want 1s", d)
		}
		if log[1].Query.Get("resourceVersion") != "0" || log[0].ContentType != "application/json" || !strings.Contains(string(log[0].Body), "SandboxClaim") {
			t.Errorf("log lacks query, content type or body: %+v", log[:2])
		}
		e.ResetRequests()
		e.get(claimsPath)
		if log := e.Requests(); len(log) != 1 || log[0].N != 4 {
			t.Errorf("after the reset: %v", log)
		}
	})
}

func TestServerClock(t *testing.T) {
	ahead := func() time.Time { return time.Now().Add(time.Hour) }
	bubble(t, sim.Config{Now: ahead}, func(e *env) {
		r := e.claim("c", "pool", object{"lifecycle": object{"shutdownTime": ahead().Add(10 * time.Second).UTC().Format(time.RFC3339), "shutdownPolicy": "Delete"}})
		if got, want := r.header.Get("Date"), ahead().UTC().Format(http.TimeFormat); got != want {
			t.Errorf("Date: %s, want %s", got, want)
		}
		if got, want := text(r.body, "metadata", "creationTimestamp"), ahead().UTC().Format(time.RFC3339); got != want {
			t.Errorf("creationTimestamp %s, want %s", got, want)
		}
		expectStates(t, e.states("sandboxclaims", "c", 11*time.Second, ready), "0s -", "30ms True DependenciesReady", "10s False ClaimExpired", "10.01s gone")
	})
}
