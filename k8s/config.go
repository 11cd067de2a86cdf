package k8s

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"time"
)

// Limits and defaults.
const (
	DefaultRequestTimeout = 30 * time.Second
	MinRequestTimeout     = time.Second

	defaultMaxObject = 3 << 20 // what an API server takes and stores at most
	defaultMaxList   = 64 << 20
	maxLimit         = 1 << 32
)

// A Config says where an API server is and how it and the client prove
// themselves to each other. [InCluster] and [ParseKubeconfig] make one.
type Config struct {
	// Server is the https URL of the API server, with a path if it is behind
	// one. Plain http is taken to the loopback interface, and elsewhere only
	// with InsecureHTTP.
	Server string

	// CA holds the PEM certificates that the server's must descend from. CAFile
	// names a file of them instead, which is read again when it changes. They
	// replace the system's roots; without either the system's are used.
	CA     []byte
	CAFile string

	// Token is asked for the bearer token on every request. It should heed its
	// context; if it does not, the request still ends in time. A source that
	// caches should look at [Refused]. It may be nil only if there is a
	// ClientCertificate, or on plain http to the loopback interface, where a
	// proxy such as kubectl's adds the credential.
	Token func(ctx context.Context) (string, error)

	// ClientCertificate is asked for a certificate when a connection is made.
	ClientCertificate func(ctx context.Context) (*tls.Certificate, error)

	// Namespace is that of all namespaced resources. It is required.
	Namespace string

	// ServerName is the name that the server's certificate must be for; "" = the
	// host of Server.
	ServerName string

	// InsecureHTTP allows plain http to any host, where everyone on the way reads
	// the token.
	InsecureHTTP bool

	// Proxy returns the proxy for a request; nil = none. The environment is not
	// looked at unless this is http.ProxyFromEnvironment. A kubeconfig's
	// proxy-url is put here and may be replaced.
	Proxy func(*http.Request) (*url.URL, error)

	// DialContext makes the connections; nil = a net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// RequestTimeout bounds one request from asking for the token to the last
	// byte of the answer; of a list each page, of a watch the time to its first
	// byte. 0 = 30 s; less than 1 s is refused.
	RequestTimeout time.Duration

	// UserAgent names the client in the server's audit log; "" = "sandlot" and
	// its version.
	UserAgent string

	// Warning is told of the warnings that come with an answer, in the goroutine
	// of the request; nil = they are dropped.
	Warning func(Warning)

	// MaxObjectBytes and MaxListBytes bound one object and one page of a list;
	// 0 = 3 MiB, the API server's own limit, and 64 MiB. All pages of a list
	// together may be four times as large as one.
	MaxObjectBytes, MaxListBytes int64
}

// A ConfigError reports a field of a [Config] that cannot be right.
type ConfigError struct {
	Field   string
	Problem string
	Err     error // the failure underneath, if any
}

func (e *ConfigError) Error() string {
	if e.Err != nil {
		return "k8s: Config." + e.Field + ": " + e.Problem + ": " + e.Err.Error()
	}
	return "k8s: Config." + e.Field + ": " + e.Problem
}

func (e *ConfigError) Unwrap() error { return e.Err }

func (c Config) withDefaults() Config {
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.UserAgent == "" {
		c.UserAgent = "sandlot/" + Version + " (" + runtime.GOOS + "/" + runtime.GOARCH + ")"
	}
	if c.MaxObjectBytes == 0 {
		c.MaxObjectBytes = defaultMaxObject
	}
	if c.MaxListBytes == 0 {
		c.MaxListBytes = defaultMaxList
	}
	if c.DialContext == nil {
		c.DialContext = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	return c
}

// check reports everything that is wrong with a Config, not just the first. It
// is given the parsed Server.
func (c Config) check(server *url.URL) error {
	var all []error
	add := func(field, format string, args ...any) {
		all = append(all, &ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	loopback := isLoopback(server.Hostname())
	plain := server.Scheme == "http"
	if plain && !loopback && !c.InsecureHTTP {
		add("Server", "plain http would show the token to everyone on the way; use https, or set InsecureHTTP")
	}
	if plain && (len(c.CA) > 0 || c.CAFile != "") {
		add("Server", "is plain http, but there is a CA to verify it with; use https")
	}
	if plain && c.Proxy != nil {
		add("Proxy", "a proxy of a plain http server would be handed the token; use https")
	}
	if len(c.CA) > 0 && c.CAFile != "" {
		add("CAFile", "is set together with CA; use one of them")
	}
	if c.Token == nil && c.ClientCertificate == nil && !(plain && loopback) {
		add("Token", "there is no credential; set Token or ClientCertificate")
	}
	if err := CheckNamespace(c.Namespace); err != nil {
		all = append(all, &ConfigError{Field: "Namespace", Problem: "cannot be used", Err: err})
	}
	if c.RequestTimeout < MinRequestTimeout {
		add("RequestTimeout", "is %v, the least is %v", c.RequestTimeout, MinRequestTimeout)
	}
	if strings.IndexFunc(c.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		add("UserAgent", "has characters that a header cannot hold")
	}
	if c.MaxObjectBytes < 0 || c.MaxObjectBytes > maxLimit {
		add("MaxObjectBytes", "is %d, it must be between 0 and %d", c.MaxObjectBytes, int64(maxLimit))
	}
	if c.MaxListBytes < 0 || c.MaxListBytes > maxLimit {
		add("MaxListBytes", "is %d, it must be between 0 and %d", c.MaxListBytes, int64(maxLimit))
	}
	return errors.Join(all...)
}

// parseServer reads Config.Server. Its errors do not repeat the URL, which may
// hold a password.
func parseServer(s string) (*url.URL, error) {
	bad := func(problem string) (*url.URL, error) {
		return nil, &ConfigError{Field: "Server", Problem: problem}
	}
	if s == "" {
		return bad("is empty; it is the https URL of the API server")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Opaque != "":
		return bad("is not a URL such as https://kubernetes.example:6443")
	case u.Scheme != "https" && u.Scheme != "http":
		return bad("must begin with https://")
	case u.User != nil:
		return bad("must not contain a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(s, "#"):
		return bad("must not contain a query or fragment")
	case u.Hostname() == "":
		return bad("has no host")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if !validPort(port) {
			return bad("has a port that is none")
		}
	}
	base := strings.TrimRight(u.Path, "/")
	for i, segment := range strings.Split(base, "/") {
		if segment == "." || segment == ".." || segment == "" && i > 0 || u.RawPath != "" {
			return bad("has a path that is not in its shortest form")
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: base}, nil
}

func validPort(s string) bool {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
		if n = n*10 + int(c-'0'); n > 65535 {
			return false
		}
	}
	return n > 0
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// Version is the version of the module, as its User-Agent says it. What a build
// knows of it costs more to ask for than it is worth.
const Version = "0.1.0"
