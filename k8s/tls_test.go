package k8s_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// withCertificate makes a test server use another one than its own.
func withCertificate(c func() *tls.Certificate) func(*httptest.Server) {
	return func(s *httptest.Server) {
		s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{*c()}, NextProtos: []string{"h2", "http/1.1"}}, nil
		}}
	}
}

func TestOnlyTheGivenCAIsTrusted(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	cert := ours.issue("api", "127.0.0.1", "kubernetes.default.svc")
	_, server, cfg := serveTLS(t, always(200, claim("a")), withCertificate(func() *tls.Certificate { return &cert }))

	for _, c := range []struct {
		why  string
		edit func(*k8s.Config)
		ok   bool
	}{
		{"the right CA", func(c *k8s.Config) { c.CA = ours.pem() }, true},
		{"the right CA among others", func(c *k8s.Config) { c.CA = append(theirs.pem(), ours.pem()...) }, true},
		{"another name that the certificate has", func(c *k8s.Config) { c.CA, c.ServerName = ours.pem(), "kubernetes.default.svc" }, true},
		{"no CA, so the system's", func(c *k8s.Config) { c.CA = nil }, false},
		{"another CA", func(c *k8s.Config) { c.CA = theirs.pem() }, false},
		{"the right CA, but another name", func(c *k8s.Config) { c.CA, c.ServerName = ours.pem(), "evil.example" }, false},
	} {
		t.Run(c.why, func(t *testing.T) {
			cfg := cfg
			c.edit(&cfg)
			client := newClient(t, cfg)
			before := len(server.requests())
			err := get(t.Context(), client)
			if c.ok {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e := apiError(t, err, k8s.Unreachable)
			if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || !e.NotApplied || k8s.SafeToRetry(err) {
				t.Errorf("%v: NotApplied %v, SafeToRetry %v, want true, false", err, e.NotApplied, k8s.SafeToRetry(err))
			}
			if !strings.Contains(err.Error(), "the CA that the client was given") {
				t.Errorf("%q does not say where to look", err)
			}
			if n := len(server.requests()) - before; n != 0 {
				t.Errorf("a server that is not trusted saw %d requests", n)
			}
		})
	}
}

func TestACAWithoutCertificatesIsRefusedAtOnce(t *testing.T) {
	_, key := pair(t, newAuthority(t, "ca").issue("x"))
	good := newAuthority(t, "ca").pem()
	for why, pem := range map[string]string{
		"blank":                      "\n",
		"no PEM":                     "certificate",
		"a key":                      string(key),
		"a certificate that is none": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"a good one and a broken":    string(good) + "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
	} {
		file := filepath.Join(t.TempDir(), "ca.crt")
		write(t, file, pem)
		for field, cfg := range map[string]k8s.Config{"CA": {CA: []byte(pem)}, "CAFile": {CAFile: file}} {
			cfg.Server, cfg.Token, cfg.Namespace = "https://127.0.0.1", withToken, "ns"
			_, err := k8s.New(cfg)
			if e, ok := errors.AsType[*k8s.ConfigError](err); !ok || e.Field != field {
				t.Errorf("%s: got %v, want a ConfigError about %s", why, err, field)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE") {
				t.Errorf("%s: %v", why, err)
			}
		}
	}
	if _, err := k8s.New(k8s.Config{Server: "https://h", Token: withToken, Namespace: "ns", CAFile: "/does/not/exist"}); err == nil {
		t.Error("a CA file that does not exist was accepted")
	}
}

func TestACAFileIsReadAgainWhenItChanges(t *testing.T) {
	old, next := newAuthority(t, "old"), newAuthority(t, "next")
	oldCert, nextCert := old.issue("api", "127.0.0.1"), next.issue("api", "127.0.0.1")
	var current atomic.Pointer[tls.Certificate]
	current.Store(&oldCert)
	var connections atomic.Int64
	closed := make(chan struct{}, 10)
	_, _, cfg := serveTLS(t, always(200, claim("a")), withCertificate(func() *tls.Certificate {
		connections.Add(1)
		return current.Load()
	}), func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				closed <- struct{}{}
			}
		}
	})
	file := filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, string(old.pem()))
	cfg.CA, cfg.CAFile = nil, file
	client := newClient(t, cfg)
	ask := func(why string, wantConnections int64) {
		t.Helper()
		if err := get(t.Context(), client); err != nil {
			t.Fatalf("%s: %v", why, err)
		}
		if got := connections.Load(); got != wantConnections {
			t.Errorf("%s: %d connections so far, want %d", why, got, wantConnections)
		}
	}
	ask("at first", 1)
	ask("with the file unchanged", 1)
	write(t, file, string(old.pem()))
	ask("with the file written again", 1)

	current.Store(&nextCert)
	write(t, file, "half a cert")
	ask("with the file half written, what was trusted stays trusted", 1)
	client.CloseIdleConnections()
	if err := get(t.Context(), client); k8s.KindOf(err) != k8s.Unreachable {
		t.Fatalf("the new certificate is not trusted yet, got %v", err)
	}
	write(t, file, string(next.pem()))
	ask("with the new CA", 3)

	// What was connected under the old CA is neither used nor kept under the new
	// one. Three connections have been closed: the first by hand, and two whose
	// handshake failed.
	write(t, file, string(old.pem()))
	if err := get(t.Context(), client); k8s.KindOf(err) != k8s.Unreachable {
		t.Errorf("a connection that the CA no longer vouches for was used: %v", err)
	}
	for range 4 {
		select {
		case <-closed:
		case <-time.After(5 * time.Second):
			t.Fatal("a connection that the CA no longer vouches for is kept")
		}
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		_, _, cfg := serveTLS(t, always(200, claim("a")), func(s *httptest.Server) {
			s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
		})
		if err := get(t.Context(), newClient(t, cfg)); (err == nil) != ok {
			t.Errorf("%s: got %v", tls.VersionName(version), err)
		}
	}
}

// wantClientCertificate makes a test server ask for certificates of ca, and
// hands the name of each client to seen.
func wantClientCertificate(ca *authority, optional bool) func(*httptest.Server) {
	return func(s *httptest.Server) {
		pool := x509.NewCertPool()
		pool.AddCert(ca.cert)
		s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
		if optional {
			s.TLS.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
}

func TestAClientCertificateIsShown(t *testing.T) {
	ca := newAuthority(t, "clients")
	cert := ca.issue("host")
	var name atomic.Value
	_, server, cfg := serveTLS(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		name.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
		reply(w, 200, claim("a"))
	}, wantClientCertificate(ca, false))
	cfg.Token = nil
	cfg.ClientCertificate = func(context.Context) (*tls.Certificate, error) { return &cert, nil }
	if err := get(t.Context(), newClient(t, cfg)); err != nil {
		t.Fatal(err)
	}
	if name.Load() != "host" {
		t.Errorf("the server saw %v, want host", name.Load())
	}
	if a, ok := server.one(t).Header["Authorization"]; ok {
		t.Errorf("without a token there is no Authorization, got %q", a)
	}
	for why, source := range map[string]func(context.Context) (*tls.Certificate, error){
		"none at all": func(context.Context) (*tls.Certificate, error) { return nil, nil },
		"of another CA": func(context.Context) (*tls.Certificate, error) {
			c := newAuthority(t, "other").issue("host")
			return &c, nil
		},
	} {
		cfg.ClientCertificate = source
		if kind := k8s.KindOf(get(t.Context(), newClient(t, cfg))); kind != k8s.Unreachable {
			t.Errorf("%s: got kind %q, want unreachable", why, kind)
		}
	}
	lost := errors.New("the card was pulled out")
	cfg.ClientCertificate = func(context.Context) (*tls.Certificate, error) { return nil, lost }
	err := get(t.Context(), newClient(t, cfg))
	if e := apiError(t, err, k8s.Credential); !errors.Is(err, lost) || !e.NotApplied {
		t.Errorf("got %v, NotApplied %v", err, e.NotApplied)
	}
}

// An API server looks at the certificate of the connection on every request. So
// an expired one is refused although a new one is there, until there is a new
// connection.
func TestA401MakesANewConnectionIfThereIsANewCertificate(t *testing.T) {
	ca := newAuthority(t, "clients")
	first, next := ca.issue("first"), ca.issue("next")
	current := &first
	expired := false
	_, server, cfg := serveTLS(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if expired && r.TLS.PeerCertificates[0].Subject.CommonName == "first" {
			reply(w, 401, failure(401, "Unauthorized"))
			return
		}
		reply(w, 200, claim("a"))
	}, wantClientCertificate(ca, false))
	cfg.Token = nil
	cfg.ClientCertificate = func(context.Context) (*tls.Certificate, error) { return current, nil }
	client := newClient(t, cfg)
	if err := get(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	expired = true
	apiError(t, get(t.Context(), client), k8s.Unauthorized)
	if n := len(server.requests()); n != 2 {
		t.Fatalf("%d requests, want 2: the same certificate is not shown again", n)
	}
	current = &next
	if err := get(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if n := len(server.requests()); n != 4 {
		t.Errorf("%d requests, want 4: one refused, one repeated", n)
	}
}

func TestRequestsShareTheirConnection(t *testing.T) {
	var connections atomic.Int64
	_, server, cfg := serveTLS(t, always(200, `{"kind":"Pod","metadata":{"name":"a"}}`), func(s *httptest.Server) {
		s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { connections.Add(1); return nil, nil }}
	})
	client := newClient(t, cfg)
	other, err := client.In("other")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*k8s.Client{client, other, client} {
		if _, err := c.Get(t.Context(), k8s.Pods, "a"); err != nil {
			t.Fatal(err)
		}
	}
	log := server.requests()
	if connections.Load() != 1 || log[1].Path != "/api/v1/namespaces/other/pods/a" || other.Namespace() != "other" {
		t.Errorf("%d connections, second path %s", connections.Load(), log[1].Path)
	}
	if _, err := client.In("Not A Namespace"); err == nil {
		t.Error("a namespace that cannot be was accepted")
	}
}
