package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// outside is a cluster on the loopback interface behind TLS, outside of any
// bubble.
func outside(t *testing.T, cfg sim.Config) (c *sim.Cluster, do func(method, path, body string) (int, string, error)) {
	t.Helper()
	c, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	server := httptest.NewTLSServer(c)
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	client := server.Client()
	return c, func(method, path, body string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		req.Header.Set("Authorization", "Bearer "+c.Token())
		if method == "PATCH" {
			req.Header.Set("Content-Type", mergeType)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(data), err
	}
}

// TestOutsideABubble is the whole way of a claim over TLS and real sockets.
func TestOutsideABubble(t *testing.T) {
	c, do := outside(t, sim.Config{Pools: []map[string]any{sim.Pool("pool", "task", 2)}})
	if code, body, err := do("POST", claimsPath, plainClaim); err != nil || code != 201 {
		t.Fatalf("POST: %d %s %v", code, body, err)
	}
	var claim object
	for claim = c.Get("sandboxclaims", "c"); ready(claim) != "True DependenciesReady"; claim = c.Get("sandboxclaims", "c") {
		// A watch wakes at each change; its first event may already be the last.
		if code, body, err := do("GET", claimsPath+"?watch=1&timeoutSeconds=1&resourceVersion="+text(claim, "metadata", "resourceVersion"), ""); err != nil || code != 200 {
			t.Fatalf("watch: %d %s %v", code, body, err)
		}
	}
	pod := c.Get("pods", text(claim, "status", "sandbox", "name"))
	for _, host := range []string{text(pod, "status", "podIP"), text(pod, "metadata", "name") + ".sandbox-sim.svc.cluster.local"} {
		frames, err := ask(t.Context(), c, host, wire.Request{Op: wire.OpExecute, Token: text(pod, "metadata", "uid"), Body: wire.ExecuteBody{Command: "echo", Args: []string{"hello"}}})
		if err != nil || !strings.Contains(strings.Join(frames, ""), "hello") {
			t.Errorf("%s: %q %v", host, frames, err)
		}
	}
	if !strings.HasPrefix(text(pod, "status", "podIP"), "127.67.") {
		t.Errorf("pod address %s, want one of 127.67.0.0/16", text(pod, "status", "podIP"))
	}
	_, err := c.DialPod(t.Context(), "tcp", "nobody.sandbox-sim.svc.cluster.local:1024")
	if dns, ok := errors.AsType[*net.DNSError](err); !ok || !dns.IsNotFound {
		t.Errorf("an unknown name: %v", err)
	}
	if code, body, err := do("DELETE", claimsPath+"/c", ""); err != nil || code != 200 {
		t.Errorf("DELETE: %d %s %v", code, body, err)
	}
	if got := c.Unmodelled(); len(got) > 0 {
		t.Errorf("not modelled: %q", got)
	}
}

// TestResetsOverTLS: over real sockets the client sees them as such.
func TestResetsOverTLS(t *testing.T) {
	fault := func(r *sim.Request) *sim.Fault {
		return map[string]*sim.Fault{"create": {ResetAfter: true}, "get": {ResetBefore: true}, "list": {Cut: 5}}[r.Verb]
	}
	c, do := outside(t, sim.Config{Pools: []map[string]any{}, Fault: fault})
	if code, _, err := do("POST", claimsPath, plainClaim); !errors.Is(err, syscall.ECONNRESET) || c.Get("sandboxclaims", "c") == nil {
		t.Errorf("POST: %d %v, want ECONNRESET and an effect", code, err)
	}
	if code, _, err := do("GET", claimsPath+"/c", ""); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("GET: %d %v, want ECONNRESET", code, err)
	}
	if code, body, err := do("GET", claimsPath, ""); code != 200 || len(body) != 5 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("list: %d %q %v, want five bytes and an unexpected end", code, body, err)
	}
}

// TestHTTP2 works but for hijacking: a reset is one of the stream.
func TestHTTP2(t *testing.T) {
	c, err := sim.New(sim.Config{Pools: []map[string]any{}, Fault: func(r *sim.Request) *sim.Fault { return &sim.Fault{ResetBefore: r.Verb == "get"} }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server := httptest.NewUnstartedServer(c)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for path, want := range map[string]bool{claimsPath: true, claimsPath + "/c": false} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil)
		req.Header.Set("Authorization", "Bearer "+c.Token())
		resp, err := server.Client().Do(req)
		if want != (err == nil) {
			t.Errorf("%s: %v, want an answer: %t", path, err, want)
		}
		if err == nil {
			if resp.ProtoMajor != 2 {
				t.Errorf("%s: %s, want HTTP/2", path, resp.Proto)
			}
			resp.Body.Close()
		}
	}
}

// TestManyClientsAtOnce is for the race detector.
func TestManyClientsAtOnce(t *testing.T) {
	c, do := outside(t, sim.Config{Pools: []map[string]any{sim.Pool("pool", "task", 3)}, Bind: 2 * time.Millisecond, PodReady: 2 * time.Millisecond, PodDelete: time.Millisecond})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("c", i)
			body := strings.Replace(plainClaim, `"name":"c"`, fmt.Sprintf(`"name":%q`, name), 1)
			for _, step := range []struct {
				method, path, body string
				code               int
			}{
				{"POST", claimsPath, body, 201},
				{"GET", claimsPath + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D" + name, "", 200},
				{"PATCH", claimsPath + "/" + name, `{"spec":{"lifecycle":{"shutdownTime":"2040-01-01T00:00:00Z"}}}`, 200},
				{"GET", podsPath + "?limit=2", "", 200},
				{"DELETE", claimsPath + "/" + name, "", 200},
				{"GET", claimsPath + "/" + name, "", 404},
			} {
				if code, answer, err := do(step.method, step.path, step.body); err != nil || code != step.code {
					t.Errorf("%s %s: %d %s %v, want %d", step.method, step.path, code, answer, err, step.code)
				}
				c.Requests()
				c.List("pods")
			}
		})
	}
	wg.Wait()
	if got := c.Unmodelled(); len(got) > 0 {
		t.Errorf("not modelled: %q", got)
	}
}

// TestTwoClustersAtOnce share the loopback interface.
func TestTwoClustersAtOnce(t *testing.T) {
	seen := make(map[string]bool)
	for range 2 {
		c, _ := outside(t, sim.Config{Pools: []map[string]any{sim.Pool("pool", "task", 2)}})
		for _, pod := range c.List("pods") {
			if ip := text(pod, "status", "podIP"); seen[ip] || ip == "" {
				t.Errorf("address %q is not there or twice", ip)
			} else {
				seen[ip] = true
			}
		}
	}
}

func TestCloseRemovesWhatItMade(t *testing.T) {
	root := t.TempDir()
	c, err := sim.New(sim.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	c.Close()
	if _, err := os.Stat(root); err != nil {
		t.Errorf("the given root: %v", err)
	}
	if err := c.WaitReady(t.Context()); err == nil {
		t.Error("a closed cluster got ready")
	}
	if _, err := sim.New(sim.Config{Templates: []map[string]any{{"metadata": object{"name": "Bad_Name"}}}}); err == nil || !strings.Contains(err.Error(), "Bad_Name") {
		t.Errorf("New with a bad template: %v", err)
	}
	if _, err := sim.New(sim.Config{Root: root + "/missing"}); err == nil {
		t.Error("New with a root that is missing succeeded")
	}
}

// TestBrokenGuestIsTold: a guest that cannot be started shows as its pod's
// state, and WaitReady does not wait for it.
func TestBrokenGuestIsTold(t *testing.T) {
	c, err := sim.New(sim.Config{Guest: func(_ map[string]any, c *guest.Config) { c.Workspace = "/does/not/exist" }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.WaitReady(t.Context()); err == nil || !strings.Contains(err.Error(), "guest could not be started") {
		t.Errorf("WaitReady = %v", err)
	}
}
