package k8s_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
)

type fields map[string]any

// kubeconfig writes a minified kubeconfig.
func kubeconfig(t testing.TB, cluster, user fields) []byte {
	t.Helper()
	b, err := json.MarshalIndent(fields{
		"kind": "Config", "apiVersion": "v1", "preferences": fields{}, "current-context": "c",
		"contexts": []any{fields{"name": "c", "context": fields{"cluster": "k", "user": "u", "namespace": "ns"}}},
		"clusters": []any{fields{"name": "k", "cluster": cluster}},
		"users":    []any{fields{"name": "u", "user": user}},
	}, "", "    ")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wrapped is base64 in lines of 76 columns, indented as a YAML block is.
func wrapped(data []byte) string {
	s := base64.StdEncoding.EncodeToString(data)
	var lines []string
	for len(s) > 76 {
		lines, s = append(lines, s[:76]), s[76:]
	}
	return strings.Join(append(lines, s), "\r\n    ") + "\n"
}

func TestKubeconfigWithEverythingEmbedded(t *testing.T) {
	ca := newAuthority(t, "clients")
	s, server, _ := serveTLS(t, accept(secret), wantClientCertificate(ca, false))
	cert, key := pair(t, ca.issue("host"))
	cfg, err := k8s.ParseKubeconfig(kubeconfig(t,
		fields{"server": s.URL, "certificate-authority-data": wrapped(caOf(s.Certificate().Raw)), "tls-server-name": "example.com", "extensions": []any{}},
		fields{"token": secret, "client-certificate-data": wrapped(cert), "client-key-data": wrapped(key)},
	), "")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Namespace != "ns" || cfg.ServerName != "example.com" || cfg.Proxy != nil {
		t.Errorf("namespace %q, server name %q, proxy %v", cfg.Namespace, cfg.ServerName, cfg.Proxy != nil)
	}
	if err := get(t.Context(), newClient(t, cfg)); err != nil {
		t.Fatal(err)
	}
	server.one(t)
}

// What a kubeconfig names by a path keeps working when its owner replaces it.
func TestKubeconfigFilesStayFiles(t *testing.T) {
	ca := newAuthority(t, "clients")
	names := make(chan string, 10)
	accepted := "T1"
	s, _, _ := serveTLS(t, func(n int, w http.ResponseWriter, r *http.Request) {
		names <- r.TLS.PeerCertificates[0].Subject.CommonName
		accept(accepted)(n, w, r)
	}, wantClientCertificate(ca, false))
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "pki", "ca.crt"), string(caOf(s.Certificate().Raw)))
	replace := func(name, token string) {
		cert, key := pair(t, ca.issue(name))
		write(t, filepath.Join(dir, "pki", "tls.crt"), string(cert))
		write(t, filepath.Join(dir, "tls.key"), string(key))
		write(t, filepath.Join(dir, "token"), token+"\n")
	}
	cfg, err := k8s.ParseKubeconfig(kubeconfig(t,
		fields{"server": s.URL, "certificate-authority": "pki/ca.crt"},
		// The token file wins over a token that was embedded when it was young.
		fields{"token": "old", "tokenFile": filepath.Join(dir, "token"), "client-certificate": "pki/tls.crt", "client-key": "./tls.key"},
	), dir)
	if err != nil {
		t.Fatal(err)
	}
	replace("first", "T1")
	client := newClient(t, cfg)
	if err := get(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	replace("second", "T2")
	accepted = "T2"
	client.CloseIdleConnections()
	if err := get(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if a, b := <-names, <-names; a != "first" || b != "second" {
		t.Errorf("the server saw %s and then %s, want first and second", a, b)
	}
	if err := os.Remove(filepath.Join(dir, "tls.key")); err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
	apiError(t, get(t.Context(), client), k8s.Credential)
}

func TestWhatParseKubeconfigRefuses(t *testing.T) {
	cert, key := pair(t, newAuthority(t, "ca").issue("x"))
	_, otherKey := pair(t, newAuthority(t, "ca").issue("y"))
	b64 := base64.StdEncoding.EncodeToString
	https := fields{"server": "https://h"}
	for _, c := range []struct {
		why           string
		cluster, user fields
		text          string
	}{
		{"exec", https, fields{"exec": fields{"command": "aws", "args": []string{secret}}}, "an entry exec: programs are not run from here; set Config.Token"},
		{"auth-provider", https, fields{"auth-provider": fields{"name": "gcp"}}, "an entry auth-provider: Kubernetes has removed it; set Config.Token"},
		{"a user name", https, fields{"username": "admin", "password": secret}, "an entry username"},
		{"impersonation", https, fields{"token": secret, "as": "system:admin"}, "an entry as: impersonation"},
		{"impersonation of groups", https, fields{"token": secret, "as-groups": []string{"x"}}, "an entry as: impersonation"},
		{"no verification", fields{"server": "https://h", "insecure-skip-tls-verify": true}, fields{"token": secret}, "insecure-skip-tls-verify is set"},
		{"a token that no header can hold", https, fields{"token": secret + "\n" + secret}, "blanks, control"},
		{"secrets left out", https, fields{"token": "REDACTED"}, "config view --raw"},
		{"data left out", https, fields{"client-certificate-data": "DATA+OMITTED", "client-key-data": "DATA+OMITTED"}, "config view --raw"},
		{"CA data left out", fields{"server": "https://h", "certificate-authority-data": "DATA+OMITTED"}, fields{}, "config view --raw"},
		{"CA data that is no base64", fields{"server": "https://h", "certificate-authority-data": "%%%"}, fields{}, "certificate-authority-data is not base64"},
		{"a certificate without its key", https, fields{"client-certificate-data": b64(cert)}, "only one of client-certificate and client-key"},
		{"a key without its certificate", https, fields{"client-key": "tls.key"}, "only one of client-certificate and client-key"},
		{"a key of another certificate", https, fields{"client-certificate-data": b64(cert), "client-key-data": b64(otherKey)}, "belongs together"},
		{"a key that is raw PEM", https, fields{"client-certificate-data": b64(cert), "client-key-data": string(key)}, "client-key-data is not base64"},
		{"a proxy that is no URL", fields{"server": "https://h", "proxy-url": "http://u:" + secret + "@%"}, fields{}, "proxy-url is not a URL"},
		{"a proxy of another kind", fields{"server": "https://h", "proxy-url": "ftp://u:" + secret + "@h"}, fields{}, "proxy-url must begin with"},
		{"a server that is a number", fields{"server": 7}, fields{}, "server cannot be a JSON number"},
	} {
		_, err := k8s.ParseKubeconfig(kubeconfig(t, c.cluster, c.user), "")
		if err == nil || !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), "k8s: kubeconfig: ") {
			t.Errorf("%s: got %v, want %q", c.why, err, c.text)
			continue
		}
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: a secret is in %v", c.why, err)
		}
	}
	for _, c := range []struct{ why, in, text string }{
		{"YAML", "apiVersion: v1\nkind: Config\n", "kubectl config view --raw --minify -o json"},
		{"nothing", "", "is not JSON"},
		{"half of it", `{"current-context":`, "is not JSON"},
		{"an array", `[]`, "is not JSON"},
		{"no current context", `{"contexts":[]}`, "no current-context"},
		{"a current context that is not there", `{"current-context":"c"}`, `no context "c"`},
		{"a cluster that is not there", `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k"}}]}`, `no cluster "k"`},
		{"a user that is not there", `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],"clusters":[{"name":"k"}]}`, `no user "u"`},
		{"megabytes", "{" + strings.Repeat(" ", 4<<20), "at most"},
	} {
		if _, err := k8s.ParseKubeconfig([]byte(c.in), ""); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %q", c.why, err, c.text)
		}
	}
}

func TestKubeconfigTakesTheCurrentContext(t *testing.T) {
	cfg, err := k8s.ParseKubeconfig([]byte(`{"current-context":"b",
		"contexts":[{"name":"a","context":{"cluster":"ka","user":"ua"}},{"name":"b","context":{"cluster":"kb","user":"ub"}}],
		"clusters":[{"name":"ka","cluster":{"server":"https://a"}},{"name":"kb","cluster":{"server":"https://b"}}],
		"users":[{"name":"ua","user":{"exec":{"command":"x"}}},{"name":"ub","user":{"token":"tb","exec":null}}]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	token, err := cfg.Token(context.Background())
	if cfg.Server != "https://b" || token != "tb" || err != nil || cfg.Namespace != "default" {
		t.Errorf("server %s, token %s, %v, namespace %s", cfg.Server, token, err, cfg.Namespace)
	}
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add(kubeconfig(f, fields{"server": "https://h", "certificate-authority-data": "QUJD"}, fields{"token": "t"}))
	f.Add(kubeconfig(f, fields{"server": "https://h", "proxy-url": "socks5://h:1"}, fields{"exec": fields{}}))
	f.Add([]byte(`{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k"}}],"clusters":[{"name":"k","cluster":null}]}`))
	f.Add([]byte(`{"current-context":7}`))
	f.Add([]byte("apiVersion: v1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := k8s.ParseKubeconfig(data, "/dir")
		if err != nil {
			if len(err.Error()) > 8<<10 {
				t.Fatalf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		if cfg.Namespace == "" || cfg.InsecureHTTP {
			t.Fatalf("%+v", cfg)
		}
		if cfg.CAFile == "" { // New would read that file
			if c, err := k8s.New(cfg); err == nil {
				c.CloseIdleConnections()
			}
		}
	})
}
