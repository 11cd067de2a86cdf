package acquire_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/leak"
	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

func TestMain(m *testing.M) {
	guest.RunLauncher()
	os.Exit(leak.Check(m.Run()))
}

// A world is a simulated cluster, the network it is reached by, and a host that
// creates sandboxes in it. All of it lives in one synctest bubble.
type world struct {
	t       testing.TB
	net     *memnet.Network
	sim     *sim.Cluster
	server  *http.Server
	client  *k8s.Client
	backend *acquire.Backend

	mu     sync.Mutex
	leaks  []acquire.Leak
	dials  int          // connections to the API server
	from   int          // the first that refuse is asked about
	refuse func() error // nil: none is refused
	guest  int          // connections to guests
}

type setup struct {
	sim     func(*sim.Config)
	client  func(*k8s.Config)
	backend func(*acquire.Config)
}

const apiAddress = "10.0.0.1:443"

// newWorld builds a world; close it before the bubble ends.
func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{t: t, net: &memnet.Network{}}
	simConfig := sim.Config{Network: w.net, Root: t.TempDir()}
	if s.sim != nil {
		s.sim(&simConfig)
	}
	cluster, err := sim.New(simConfig)
	if err != nil {
		t.Fatal(err)
	}
	w.sim = cluster
	listener, err := w.net.Listen("tcp", apiAddress)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: cluster}
	w.server = server
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(listener)
	}()
	clientConfig := k8s.Config{
		Server:       "http://" + apiAddress,
		InsecureHTTP: true,
		Namespace:    cluster.Namespace(),
		Token:        func(context.Context) (string, error) { return cluster.Token(), nil },
		DialContext:  w.dial,
	}
	if s.client != nil {
		s.client(&clientConfig)
	}
	client, err := k8s.New(clientConfig)
	if err != nil {
		t.Fatal(err)
	}
	w.client = client
	backendConfig := acquire.Config{
		Template:    "task",
		Pool:        "pool",
		Ingress:     policy.Ingress{InsecureUnverified: true}, // see policy_test.go
		DialContext: w.dialGuest,
		OnLeak:      w.leaked,
	}
	if s.backend != nil {
		s.backend(&backendConfig)
	}
	w.backend, err = acquire.New(client, backendConfig)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cluster.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.backend.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		client.CloseIdleConnections()
		server.Close()
		<-served
		cluster.Close()
		if odd := cluster.Unmodelled(); len(odd) > 0 {
			t.Errorf("the simulator was asked for what it does not model: %q", odd)
		}
	})
	return w
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dials++
	refuse := w.refuse
	if w.dials < w.from {
		refuse = nil
	}
	w.mu.Unlock()
	if refuse != nil {
		if err := refuse(); err != nil {
			return nil, err
		}
	}
	return w.net.DialContext(ctx, network, address)
}

// refuseFrom asks refuse about the n-th connection from now on and all later
// ones.
func (w *world) refuseFrom(n int, refuse func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dials, w.from, w.refuse = 0, n, refuse
}

func (w *world) dialGuest(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.guest++
	w.mu.Unlock()
	return w.net.DialContext(ctx, network, address)
}

func (w *world) leaked(l acquire.Leak) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaks = append(w.leaks, l)
}

func (w *world) leakStates() []acquire.LeakState {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []acquire.LeakState
	for _, l := range w.leaks {
		out = append(out, l.State)
	}
	return out
}

// ours lists the claims and directly created Sandboxes that exist.
func (w *world) ours() []string {
	var out []string
	for _, resource := range []string{"sandboxclaims", "sandboxes"} {
		for _, o := range w.sim.List(resource) {
			if name := k8s.Object(o).Name(); strings.HasPrefix(name, "namzu-task-") {
				out = append(out, resource+"/"+name)
			}
		}
	}
	return out
}

// nothingLeft fails the test unless the cluster holds nothing of ours, now or
// once the controller has had a moment.
func (w *world) nothingLeft() {
	w.t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	if left := w.ours(); len(left) > 0 {
		w.t.Errorf("left in the cluster: %q", left)
	}
}

// log lists the requests since the last reset, as "VERB resource".
func (w *world) log() []string {
	var out []string
	for _, r := range w.sim.Requests() {
		out = append(out, r.Verb+" "+r.Resource)
	}
	return out
}

// asError returns err as an *acquire.Error or fails the test.
func asError(t testing.TB, err error) *acquire.Error {
	t.Helper()
	e, ok := errors.AsType[*acquire.Error](err)
	if !ok {
		t.Fatalf("got error %T %v, want an *acquire.Error", err, err)
	}
	return e
}
