package policy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

const (
	coreList     = "/apis/networking.k8s.io/v1/namespaces/lab-7/networkpolicies"
	ciliumList   = "/apis/cilium.io/v2/namespaces/lab-7/ciliumnetworkpolicies"
	widerList    = "/apis/cilium.io/v2/ciliumclusterwidenetworkpolicies"
	adminList    = "/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies"
	baselineList = "/apis/policy.networking.k8s.io/v1alpha1/baselineadminnetworkpolicies"
	fencePath    = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/fence"
	bindingPath  = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/"
)

// cluster is an API server in memory: what is stored at a path, a hook that may answer instead, and a log.
type cluster struct {
	t      testing.TB
	client *k8s.Client
	dial   chan net.Conn

	mu      sync.Mutex
	stored  map[string]map[string]any // by path of the object
	lists   map[string]string         // collections that are served, and their kind
	log     []string
	bodies  []map[string]any // of writes
	queries []string         // of lists
	answer  func(r *http.Request) (code int, body string)
}

// newCluster serves NetworkPolicies, and the other kinds that are given by their collection.
func newCluster(t testing.TB, served ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, dial: make(chan net.Conn), stored: map[string]map[string]any{}, lists: map[string]string{coreList: "NetworkPolicy"}}
	for _, list := range served {
		c.lists[list] = map[string]string{ciliumList: "CiliumNetworkPolicy", widerList: "CiliumClusterwideNetworkPolicy",
			adminList: "AdminNetworkPolicy", baselineList: "BaselineAdminNetworkPolicy"}[list]
	}
	server := &http.Server{Handler: c}
	pipes := pipeListener{c.dial, make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(pipes)
	}()
	client, err := k8s.New(k8s.Config{
		Server: "http://127.0.0.1:1", Namespace: "lab-7", Token: func(context.Context) (string, error) { return "s3cr3t-7", nil },
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			near, far := net.Pipe()
			select {
			case c.dial <- far:
				return near, nil
			case <-pipes.closed:
				return nil, net.ErrClosed
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.client = client
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	return c
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l pipeListener) Close() error   { close(l.closed); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// put stores objects given as JSON in the collection.
func (c *cluster) put(list string, objects ...string) {
	c.t.Helper()
	for _, raw := range objects {
		o := parse(c.t, raw)[0]
		c.mu.Lock()
		c.stored[list+"/"+o.Name()] = o
		c.mu.Unlock()
	}
}

// apply stores what the verifier says an operator must apply.
func (c *cluster) apply(v *policy.Verifier) {
	c.t.Helper()
	m, err := v.Manifest(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	list := coreList
	if m.Text("kind") == "CiliumNetworkPolicy" {
		list = ciliumList
	}
	c.put(list, text(m))
}

func (c *cluster) remove(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stored, path)
}

func (c *cluster) object(path string) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored[path]
}

// requests returns the log, and begins a new one.
func (c *cluster) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := c.log
	c.log = nil
	return log
}

// setAnswer installs a hook. Code 0 lets the request through.
func (c *cluster) setAnswer(f func(r *http.Request) (int, string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.log = append(c.log, r.Method+" "+r.URL.Path)
	answer := c.answer
	c.mu.Unlock()
	code, out := 0, ""
	if answer != nil {
		code, out = answer(r)
	}
	if code == 0 {
		code, out = c.serve(r, body)
	} else if out == "" {
		out = status(code, r.URL.Path)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, out)
}

// status is a Status as a server writes it.
func status(code int, at string) string {
	reason := map[int]string{403: "Forbidden", 404: "NotFound", 409: "AlreadyExists", 410: "Expired", 401: "Unauthorized"}[code]
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"said no","code":%d,"details":{"name":%q}}`, reason, code, path.Base(at))
}

func (c *cluster) serve(r *http.Request, body []byte) (int, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := r.URL.Path
	if kind, ok := c.lists[at]; ok && r.Method == "GET" {
		c.queries = append(c.queries, r.URL.RawQuery)
		items := []any{}
		for p, o := range c.stored {
			if path.Dir(p) == at {
				items = append(items, o)
			}
		}
		return 200, text(map[string]any{"kind": kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	}
	o, exists := c.stored[at]
	switch r.Method {
	case "GET":
		if exists {
			return 200, text(o)
		}
	case "DELETE":
		if exists {
			delete(c.stored, at)
			return 200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`
		}
	case "POST":
		var posted map[string]any
		decode(c.t, body, &posted)
		c.bodies = append(c.bodies, posted)
		name, _ := posted["metadata"].(map[string]any)["name"].(string)
		if _, taken := c.stored[at+"/"+name]; taken {
			return 409, status(409, at+"/"+name)
		}
		c.stored[at+"/"+name] = posted
		return 201, text(posted)
	case "PATCH":
		var patch map[string]any
		decode(c.t, body, &patch)
		c.bodies = append(c.bodies, patch)
		if !exists {
			break
		}
		merged := mergePatch(o, patch).(map[string]any)
		c.stored[at] = merged
		return 200, text(merged)
	}
	if strings.HasPrefix(at, "/apis/cilium.io/") && c.lists[ciliumList] == "" {
		return 404, "404 page not found"
	}
	return 404, status(404, at)
}

// mergePatch is RFC 7386.
func mergePatch(to, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if m, ok := to.(map[string]any); ok {
		for k, v := range m {
			out[k] = v
		}
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = mergePatch(out[k], v)
		}
	}
	return out
}

// verifier makes one for template task and closes it at the end.
func (c *cluster) verifier(config policy.Config) *policy.Verifier {
	c.t.Helper()
	config.Namespace, config.Template = "lab-7", "task"
	v, err := policy.New(c.client, config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(v.Close)
	return v
}

// sandbox is a pod of template task.
func sandbox(extra ...string) policy.Pod {
	labels := map[string]string{"sandbox.namzu.ai/template": "task"}
	for i := 0; i+1 < len(extra); i += 2 {
		labels[extra[i]] = extra[i+1]
	}
	return policy.Pod{Subject: "the pod bound to Sandbox x", Labels: labels, Known: true, Ports: []policy.ContainerPort{{Name: "agent", Port: 1024}}}
}

// baseline lets the host reach the agent, and nobody else.
const baseline = `{"kind":"NetworkPolicy","metadata":{"name":"base","namespace":"lab-7"},"spec":{"podSelector":{"matchExpressions":[{"key":"sandbox.namzu.ai/template","operator":"Exists"}]},` +
	`"policyTypes":["Ingress"],"ingress":[{"from":[{"podSelector":{"matchLabels":{"namzu.ai/component":"host"}}}],"ports":[{"protocol":"TCP","port":1024}]}]}}`
