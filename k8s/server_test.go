package k8s_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/k8s"
)

// A request as the server saw it.
type request struct {
	Method, Path string
	Query        url.Values
	Header       http.Header
	Body         string
	Proto        int
	At           time.Time
}

// An api is a scripted API server. It logs each request before it answers.
type api struct {
	handle func(n int, w http.ResponseWriter, r *http.Request) // n counts from 1

	mu  sync.Mutex // guards log
	log []request
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.log = append(a.log, request{r.Method, r.URL.Path, r.URL.Query(), r.Header.Clone(), string(body), r.ProtoMajor, time.Now()})
	n := len(a.log)
	a.mu.Unlock()
	a.handle(n, w, r)
}

func (a *api) requests() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]request(nil), a.log...)
}

// one returns the only request there was.
func (a *api) one(t testing.TB) request {
	t.Helper()
	log := a.requests()
	if len(log) != 1 {
		t.Fatalf("the server saw %d requests, want 1: %+v", len(log), log)
	}
	return log[0]
}

const secret = "s3cr3t-t0ken.eyJhbGciOiJSUzI1NiJ9" // no real one

func withToken(context.Context) (string, error) { return secret, nil }

// serve starts a plain server in memory and returns a client of it. It is meant
// for bubbles, and ends with the test.
func serve(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request), edits ...func(*k8s.Config)) (*k8s.Client, *api) {
	t.Helper()
	a := &api{handle: handle}
	network := new(memnet.Network)
	l, err := network.Listen("tcp", "127.0.0.1:8001")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: a}
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(l) })
	cfg := k8s.Config{Server: "http://127.0.0.1:8001", Token: withToken, Namespace: "ns", DialContext: network.DialContext}
	for _, edit := range edits {
		edit(&cfg)
	}
	c, err := k8s.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		c.CloseIdleConnections()
		wg.Wait()
	})
	return c, a
}

// serveTLS starts a TLS server with HTTP/2 on the loopback interface and returns
// it with a configuration for it.
func serveTLS(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request), edits ...func(*httptest.Server)) (*httptest.Server, *api, k8s.Config) {
	t.Helper()
	a := &api{handle: handle}
	s := httptest.NewUnstartedServer(a)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet
	for _, edit := range edits {
		edit(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, a, k8s.Config{Server: s.URL, CA: caOf(s.Certificate().Raw), Token: withToken, Namespace: "ns"}
}

func newClient(t *testing.T, cfg k8s.Config) *k8s.Client {
	t.Helper()
	c, err := k8s.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func caOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// reply answers with JSON.
func reply(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	io.WriteString(w, body)
}

// always is a server with one answer.
func always(code int, body string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { reply(w, code, body) }
}

// play answers as was recorded.
func play(t testing.TB, name string) func(int, http.ResponseWriter, *http.Request) {
	a := recorded(t, name)
	return func(_ int, w http.ResponseWriter, _ *http.Request) {
		for k, v := range a.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(a.Code)
		w.Write(a.Body)
	}
}

func claim(name string) string {
	b, _ := json.Marshal(k8s.Object{
		"apiVersion": k8s.SandboxClaims.APIVersion(), "kind": "SandboxClaim",
		"metadata": k8s.Object{"name": name, "namespace": "ns", "resourceVersion": "5"},
	})
	return string(b)
}

func failure(code int, reason string) string {
	b, _ := json.Marshal(k8s.Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "the server says " + reason, "code": code})
	return string(b)
}

// hang keeps a request unanswered until the client has gone.
func hang(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// apiError returns the APIError in err and fails the test if it is of another
// kind.
func apiError(t testing.TB, err error, kind k8s.Kind) *k8s.APIError {
	t.Helper()
	if got := k8s.KindOf(err); got != kind {
		t.Fatalf("got kind %q (%v), want %q", got, err, kind)
	}
	e, _ := asAPIError(err)
	return e
}
