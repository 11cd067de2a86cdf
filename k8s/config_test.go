package k8s_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

func TestWhatNewRefuses(t *testing.T) {
	for _, c := range []struct {
		why   string
		edit  func(*k8s.Config)
		field string
	}{
		{"no server", func(c *k8s.Config) { c.Server = "" }, "Server"},
		{"no scheme", func(c *k8s.Config) { c.Server = "api.example:6443" }, "Server"},
		{"another scheme", func(c *k8s.Config) { c.Server = "unix:///run/api.sock" }, "Server"},
		{"no host", func(c *k8s.Config) { c.Server = "https://" }, "Server"},
		{"a port and no host", func(c *k8s.Config) { c.Server = "https://:6443" }, "Server"},
		{"an empty port", func(c *k8s.Config) { c.Server = "https://h:" }, "Server"},
		{"port 0", func(c *k8s.Config) { c.Server = "https://h:0" }, "Server"},
		{"port 65536", func(c *k8s.Config) { c.Server = "https://h:65536" }, "Server"},
		{"a user", func(c *k8s.Config) { c.Server = "https://" + secret + "@h" }, "Server"},
		{"a user and password in what is no URL", func(c *k8s.Config) { c.Server = "https://u:" + secret + "@h:x" }, "Server"},
		{"a query", func(c *k8s.Config) { c.Server = "https://h/?a=b" }, "Server"},
		{"an empty query", func(c *k8s.Config) { c.Server = "https://h?" }, "Server"},
		{"a fragment", func(c *k8s.Config) { c.Server = "https://h/#" }, "Server"},
		{"a path with dots", func(c *k8s.Config) { c.Server = "https://h/a/../b" }, "Server"},
		{"a path with escapes", func(c *k8s.Config) { c.Server = "https://h/a%2fb" }, "Server"},
		{"a path with two slashes", func(c *k8s.Config) { c.Server = "https://h//a" }, "Server"},
		{"control characters", func(c *k8s.Config) { c.Server = "https://h\n" }, "Server"},
		{"plain http", func(c *k8s.Config) { c.Server = "http://api.example" }, "Server"},
		{"plain http to a host that begins like a loopback", func(c *k8s.Config) { c.Server = "http://127.0.0.1.example" }, "Server"},
		{"plain http with a CA", func(c *k8s.Config) { c.Server, c.CA = "http://127.0.0.1", []byte("x") }, "Server"},
		{"plain http through a proxy", func(c *k8s.Config) { c.Server, c.Proxy = "http://127.0.0.1", http.ProxyFromEnvironment }, "Proxy"},
		{"two CAs", func(c *k8s.Config) { c.CA, c.CAFile = []byte("x"), "y" }, "CAFile"},
		{"no credential", func(c *k8s.Config) { c.Token = nil }, "Token"},
		{"no credential on insecure http", func(c *k8s.Config) { c.Server, c.InsecureHTTP, c.Token = "http://h", true, nil }, "Token"},
		{"no namespace", func(c *k8s.Config) { c.Namespace = "" }, "Namespace"},
		{"a namespace that climbs", func(c *k8s.Config) { c.Namespace = "../x" }, "Namespace"},
		{"a bound of less than a second", func(c *k8s.Config) { c.RequestTimeout = time.Second - 1 }, "RequestTimeout"},
		{"a negative bound", func(c *k8s.Config) { c.RequestTimeout = -1 }, "RequestTimeout"},
		{"a user agent that ends the header", func(c *k8s.Config) { c.UserAgent = "a\r\nX: y" }, "UserAgent"},
		{"a negative object limit", func(c *k8s.Config) { c.MaxObjectBytes = -1 }, "MaxObjectBytes"},
		{"a list limit over 4 GiB", func(c *k8s.Config) { c.MaxListBytes = 1<<32 + 1 }, "MaxListBytes"},
	} {
		cfg := k8s.Config{Server: "https://h", Token: withToken, Namespace: "ns"}
		c.edit(&cfg)
		_, err := k8s.New(cfg)
		e, ok := errors.AsType[*k8s.ConfigError](err)
		if !ok || e.Field != c.field {
			t.Errorf("%s: got %v, want a ConfigError about %s", c.why, err, c.field)
			continue
		}
		if strings.Contains(err.Error(), secret) || !strings.HasPrefix(err.Error(), "k8s: Config."+c.field) {
			t.Errorf("%s: %q", c.why, err)
		}
	}
}

func TestNewReportsEverythingAtOnce(t *testing.T) {
	_, err := k8s.New(k8s.Config{Server: "http://h", RequestTimeout: 1, MaxListBytes: -1})
	for _, field := range []string{"Server", "Token", "Namespace", "RequestTimeout", "MaxListBytes"} {
		if err == nil || !strings.Contains(err.Error(), "Config."+field+": ") {
			t.Errorf("%v does not mention %s", err, field)
		}
	}
}

func TestWhatNewTakes(t *testing.T) {
	for why, cfg := range map[string]k8s.Config{
		"nothing but what is required": {Server: "https://h", Token: withToken, Namespace: "ns"},
		"a path before the API":        {Server: "https://h:6443/k8s/clusters/c-1/", Token: withToken, Namespace: "ns"},
		"plain http to this host":      {Server: "http://127.0.0.1:8001", Token: withToken, Namespace: "ns"},
		"kubectl proxy":                {Server: "http://localhost:8001", Namespace: "ns"},
		"plain http to IPv6 loopback":  {Server: "http://[::1]:8001", Namespace: "ns"},
		"plain http on demand":         {Server: "http://h", InsecureHTTP: true, Token: withToken, Namespace: "ns"},
		"the least bound":              {Server: "https://h", Token: withToken, Namespace: "ns", RequestTimeout: k8s.MinRequestTimeout},
		"limits of one byte and most":  {Server: "https://h", Token: withToken, Namespace: "ns", MaxObjectBytes: 1, MaxListBytes: 1 << 32},
	} {
		if _, err := k8s.New(cfg); err != nil {
			t.Errorf("%s: %v", why, err)
		}
	}
	if k8s.DefaultRequestTimeout != 30*time.Second || k8s.MinRequestTimeout != time.Second {
		t.Error("the bounds have changed")
	}
}

func TestAServerBehindAPath(t *testing.T) {
	s, server, cfg := serveTLS(t, always(200, claim("a")))
	cfg.Server = s.URL + "/k8s/clusters/c-1/"
	cfg.UserAgent = "host/1.0"
	err := get(t.Context(), newClient(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	r := server.one(t)
	if want := "/k8s/clusters/c-1" + claimsPath + "/a"; r.Path != want || r.Header.Get("User-Agent") != "host/1.0" {
		t.Errorf("got %s by %q, want %s by host/1.0", r.Path, r.Header.Get("User-Agent"), want)
	}
}
