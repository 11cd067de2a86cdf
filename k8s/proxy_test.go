package k8s_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
)

// A dialler that goes nowhere and tells where it was sent.
type dialler struct {
	mu   sync.Mutex // guards last
	last string
}

func (d *dialler) dial(_ context.Context, _, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = address
	return nil, errors.New("nobody is there")
}

// The environment is set once: net/http remembers what it has seen of it.
func TestWhichProxyIsUsed(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		t.Setenv(name, "http://env.proxy.test:3128")
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		t.Setenv(name, "172.20.0.0/16,direct.test")
	}
	dir := mount(t, map[string]string{"token": "T", "namespace": "ns", "ca.crt": string(newAuthority(t, "ca").pem())})
	inCluster, err := k8s.InClusterAt(dir, env("KUBERNETES_SERVICE_HOST", "api.test", "KUBERNETES_SERVICE_PORT", "443"))
	if err != nil {
		t.Fatal(err)
	}
	fromKubeconfig, err := k8s.ParseKubeconfig(kubeconfig(t,
		fields{"server": "https://api.test", "proxy-url": "http://kube.proxy.test:3129"}, fields{"token": "t"}), "")
	if err != nil {
		t.Fatal(err)
	}
	explicit := k8s.Config{Server: "https://api.test", Token: withToken, Namespace: "ns"}
	for _, c := range []struct {
		why  string
		cfg  k8s.Config
		edit func(*k8s.Config)
		want string
	}{
		{"a pod goes straight to its API server, whatever the environment says", inCluster, nil, "api.test:443"},
		{"so does a configuration that names no proxy", explicit, nil, "api.test:443"},
		{"the environment counts if it is asked for", explicit, func(c *k8s.Config) { c.Proxy = http.ProxyFromEnvironment }, "env.proxy.test:3128"},
		{"then a host of NO_PROXY is reached directly", explicit, func(c *k8s.Config) {
			c.Proxy, c.Server = http.ProxyFromEnvironment, "https://direct.test"
		}, "direct.test:443"},
		{"and an address within a range of NO_PROXY", explicit, func(c *k8s.Config) {
			c.Proxy, c.Server = http.ProxyFromEnvironment, "https://172.20.0.1"
		}, "172.20.0.1:443"},
		{"but not one beside the range", explicit, func(c *k8s.Config) {
			c.Proxy, c.Server = http.ProxyFromEnvironment, "https://172.21.0.1"
		}, "env.proxy.test:3128"},
		{"a kubeconfig's proxy-url comes before the environment", fromKubeconfig, nil, "kube.proxy.test:3129"},
		{"the field comes before both", fromKubeconfig, func(c *k8s.Config) { c.Proxy = http.ProxyFromEnvironment }, "env.proxy.test:3128"},
	} {
		t.Run(c.why, func(t *testing.T) {
			var d dialler
			c.cfg.DialContext = d.dial
			if c.edit != nil {
				c.edit(&c.cfg)
			}
			err := get(t.Context(), newClient(t, c.cfg))
			apiError(t, err, k8s.Unreachable)
			if d.last != c.want {
				t.Errorf("dialled %s, want %s", d.last, c.want)
			}
		})
	}
}

func TestAProxySeesNeitherTokenNorRequest(t *testing.T) {
	s, server, _ := serveTLS(t, always(200, claim("a")))
	var saw []string
	proxy := &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		saw = append(saw, r.Method+" "+r.Host+" "+r.Header.Get("Authorization"))
		up, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		down, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n")
		var wg sync.WaitGroup
		for _, way := range [][2]net.Conn{{up, down}, {down, up}} {
			wg.Go(func() {
				buf := make([]byte, 32<<10)
				for {
					n, err := way[0].Read(buf)
					if err != nil {
						break
					}
					way[1].Write(buf[:n])
				}
				way[1].Close()
			})
		}
		wg.Wait()
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { proxy.Serve(l) })
	cfg, err := k8s.ParseKubeconfig(kubeconfig(t, fields{
		"server": s.URL, "certificate-authority-data": wrapped(caOf(s.Certificate().Raw)), "proxy-url": "http://" + l.Addr().String(),
	}, fields{"token": secret}), "")
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t, cfg)
	if err := get(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	server.one(t)
	client.CloseIdleConnections()
	proxy.Close()
	wg.Wait()
	if want := "CONNECT " + strings.TrimPrefix(s.URL, "https://") + " "; len(saw) != 1 || saw[0] != want {
		t.Errorf("the proxy saw %q, want %q alone", saw, want)
	}
}
