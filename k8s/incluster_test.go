package k8s_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
)

// mount writes a service account's folder.
func mount(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func env(kv ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == key {
				return kv[i+1]
			}
		}
		return ""
	}
}

// service is the environment that leads to a server.
func service(t *testing.T, server string) func(string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return env("KUBERNETES_SERVICE_HOST", u.Hostname(), "KUBERNETES_SERVICE_PORT", u.Port())
}

func TestInCluster(t *testing.T) {
	s, server, _ := serveTLS(t, accept("T2"))
	dir := mount(t, map[string]string{"token": "T2\n", "namespace": "ns\n", "ca.crt": string(caOf(s.Certificate().Raw))})
	// A pod whose environment names a proxy: it is for others.
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	cfg, err := k8s.InClusterAt(dir, service(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Proxy != nil {
		t.Error("a pod's requests to its own API server go through no proxy")
	}
	client := newClient(t, cfg)
	if client.Namespace() != "ns" {
		t.Errorf("namespace is %q, want ns", client.Namespace())
	}
	if err := get(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if r := server.one(t); r.Proto != 2 {
		t.Errorf("the request came over HTTP/%d, want 2", r.Proto)
	}
}

func TestARotatedTokenFileIsSeenByTheNextRequest(t *testing.T) {
	var accepted string
	s, server, _ := serveTLS(t, func(n int, w http.ResponseWriter, r *http.Request) { accept(accepted)(n, w, r) })
	dir := mount(t, map[string]string{"token": "T0", "namespace": "ns", "ca.crt": string(caOf(s.Certificate().Raw))})
	cfg, err := k8s.InClusterAt(dir, service(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t, cfg)
	// Tokens of one length, written within one tick of the file's clock.
	for _, token := range []string{"T1", "T2", "T3"} {
		accepted = token
		write(t, filepath.Join(dir, "token"), token+"\r\n")
		if err := get(t.Context(), client); err != nil {
			t.Fatalf("with %s: %v", token, err)
		}
	}
	if n := len(server.requests()); n != 3 {
		t.Errorf("%d requests, want 3: no token was refused", n)
	}
	// The kubelet replaces a link to a folder.
	accepted = "T4"
	write(t, filepath.Join(dir, "new"), "T4")
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), client); err != nil {
		t.Fatalf("after a rename: %v", err)
	}
	// A pod that is gone keeps its token, which is refused for good.
	accepted = "another"
	before := len(server.requests())
	apiError(t, get(t.Context(), client), k8s.Unauthorized)
	if n := len(server.requests()) - before; n != 1 {
		t.Errorf("an unchanged token was shown %d times, want once", n)
	}
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	err = get(t.Context(), client)
	apiError(t, err, k8s.Credential)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap fs.ErrNotExist", err)
	}
}

func TestWhatInClusterRefuses(t *testing.T) {
	good := map[string]string{"token": "T", "namespace": "ns", "ca.crt": "x"}
	host, port := "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
	for _, c := range []struct {
		why    string
		files  map[string]string
		getenv func(string) string
		text   string
	}{
		{"no environment", good, env(), "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must both be set"},
		{"no port", good, env(host, "10.0.0.1"), "must both be set"},
		{"no host", good, env(port, "443"), "must both be set"},
		{"a port that is none", good, env(host, "10.0.0.1", port, "https"), "is no port"},
		{"port 0", good, env(host, "10.0.0.1", port, "0"), "is no port"},
		{"port 65536", good, env(host, "10.0.0.1", port, "65536"), "is no port"},
		{"a host that is a path", good, env(host, "a/b", port, "443"), "is no host"},
		{"no token", map[string]string{"namespace": "ns"}, env(host, "10.0.0.1", port, "443"), "automountServiceAccountToken"},
		{"an empty token", map[string]string{"token": "\n"}, env(host, "10.0.0.1", port, "443"), "the token is empty"},
		{"a file of no bounds", map[string]string{"token": strings.Repeat("x", k8s.MaxFile+1)}, env(host, "10.0.0.1", port, "443"), "has more than"},
	} {
		_, err := k8s.InClusterAt(mount(t, c.files), c.getenv)
		if err == nil || !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), "k8s: ") {
			t.Errorf("%s: got %v, want %q", c.why, err, c.text)
		}
	}
	cfg, err := k8s.InClusterAt(mount(t, map[string]string{"token": "T", "ca.crt": "x"}), env(host, "10.0.0.1", port, "443"))
	if err != nil {
		t.Fatalf("without a namespace file: %v", err)
	}
	if _, err := k8s.New(cfg); err == nil || !strings.Contains(err.Error(), "Config.Namespace") || !strings.Contains(err.Error(), "empty") {
		t.Errorf("New must ask for the namespace, got %v", err)
	}
	t.Setenv(host, "")
	if _, err := k8s.InCluster(); err == nil || !strings.Contains(err.Error(), "not in a cluster") {
		t.Errorf("outside of a cluster: got %v", err)
	}
}

func TestServiceHosts(t *testing.T) {
	for _, c := range []struct{ host, want, dialled string }{
		{"10.96.0.1", "https://10.96.0.1:443", "10.96.0.1"},
		{"kubernetes.default.svc", "https://kubernetes.default.svc:443", "kubernetes.default.svc"},
		{"fd00::1", "https://[fd00::1]:443", "fd00::1"},
		{"[fd00::1]", "https://[fd00::1]:443", "fd00::1"},
		{"fe80::1%eth0", "https://[fe80::1%25eth0]:443", "fe80::1%eth0"},
		{"fe80::1%25eth0", "https://[fe80::1%25eth0]:443", "fe80::1%eth0"},
		{"[fe80::1%25eth0]", "https://[fe80::1%25eth0]:443", "fe80::1%eth0"},
	} {
		got, err := k8s.ServiceURL(c.host, "443")
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.host, got, err, c.want)
			continue
		}
		if u, err := url.Parse(got); err != nil || u.Hostname() != c.dialled {
			t.Errorf("%s: %s is read as host %q, %v", c.host, got, u.Hostname(), err)
		}
		if _, err := k8s.New(k8s.Config{Server: got, Token: withToken, Namespace: "ns"}); err != nil {
			t.Errorf("%s: New: %v", c.host, err)
		}
	}
}
