package sim_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/sim"
)

// FuzzServe: whatever is asked, the answer is one of an API server, and the
// cluster lives on.
func FuzzServe(f *testing.F) {
	c, err := sim.New(sim.Config{Pools: []map[string]any{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	f.Add("GET", claimsPath+"?limit=1&labelSelector=a%3Db", "", "")
	f.Add("POST", claimsPath, "application/json", plainClaim)
	f.Add("PATCH", claimsPath+"/c", mergeType, `{"metadata":{"finalizers":["a/b"],"ownerReferences":[{"kind":"SandboxClaim","uid":"x"}]},"spec":null}`)
	f.Add("PATCH", claimsPath+"/c/status", "application/json-patch+json", `[{"op":"add","path":"/status","value":{"conditions":[{}]}}]`)
	f.Add("DELETE", claimsPath+"/c?propagationPolicy=Foreground", "application/json", `{"preconditions":{"uid":"x"}}`)
	f.Add("GET", sandboxesPath+"?watch=1&resourceVersion=1", "", "")
	f.Add("POST", sandboxesPath, "application/json", `{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox","metadata":{"generateName":"s-"},"spec":{"podTemplate":{"spec":{"containers":[{"name":"a"}]}}}}`)
	f.Add("GET", "/apis/agents.x-k8s.io/v1beta1", "", "")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, method, path, kind, body string) {
		req, err := http.NewRequest(method, "http://sim/"+strings.TrimPrefix(path, "/"), strings.NewReader(body))
		if err != nil {
			return
		}
		req.RequestURI = req.URL.RequestURI()
		req.Header.Set("Authorization", "Bearer "+c.Token())
		req.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, req.WithContext(gone)) // a watch ends with its client
		switch w.Code {
		case 200, 201, 400, 404, 409, 410, 413, 415, 422, 501, 504:
		default:
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		c.ResetRequests()
	})
}
