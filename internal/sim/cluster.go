package sim

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/uuid"
)

// A Cluster is an API server with everything behind it. It is an http.Handler.
type Cluster struct {
	cfg  Config
	root string // folder of the pods' files
	temp bool   // root is ours to remove

	mu         sync.Mutex // guards what follows, and all of the world
	world      *world
	closed     bool
	servers    []*http.Server
	requests   []Request
	forgotten  int // requests that ResetRequests took out of the log
	unmodelled []string

	wg    sync.WaitGroup // everything that runs; added to with mu held and closed unset, or by one of its own
	awake chan struct{}  // has room for one: the agenda has a new first task
	done  chan struct{}  // closed by Close
}

// New starts a cluster. In a testing/synctest bubble it is created, used and
// closed inside the bubble. It fails where a guest's programs cannot be confined
// and no pod could be as in a real cluster.
func New(cfg Config) (*Cluster, error) {
	c := &Cluster{cfg: cfg.withDefaults(), awake: make(chan struct{}, 1), done: make(chan struct{})}
	c.root = c.cfg.Root
	if c.root == "" {
		root, err := os.MkdirTemp("", "sandlot-sim-")
		if err != nil {
			return nil, fmt.Errorf("sim: %w", err)
		}
		c.root, c.temp = root, true
	}
	c.world = newWorld(c)
	if err := c.populate(); err != nil {
		c.removeRoot()
		return nil, err
	}
	if err := c.tryGuest(); err != nil {
		c.removeRoot()
		return nil, err
	}
	c.wg.Go(c.loop)
	return c, nil
}

// populate makes the objects that are there from the beginning.
func (c *Cluster) populate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ns := range []string{"default", "kube-system", settings.namespace, c.cfg.Namespace} {
		c.world.create(namespaces, object{
			"metadata": object{"name": ns, "labels": object{"kubernetes.io/metadata.name": ns}},
			"spec":     object{"finalizers": list{"kubernetes"}}, "status": object{"phase": "Active"},
		})
	}
	c.world.create(configs, object{"metadata": object{"name": settings.name, "namespace": settings.namespace}, "data": object{"allowed-label-domains": "sandbox.users.io"}})
	for _, l := range []struct {
		resource *resource
		objects  []map[string]any
	}{{templates, c.cfg.Templates}, {pools, c.cfg.Pools}} {
		for _, o := range l.objects {
			if err := c.apply(l.resource, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// tryGuest finds out whether pods can be run here at all.
func (c *Cluster) tryGuest() error {
	s, err := guest.New(guest.Config{Token: uuid.New(), Workspace: c.root, Confine: true})
	if err != nil {
		return fmt.Errorf("sim: no pod can run here: %w", err)
	}
	return s.Close()
}

func (c *Cluster) removeRoot() {
	if c.temp {
		os.RemoveAll(c.root)
	}
}

// loop is the one goroutine of controller, garbage collector and kubelet.
func (c *Cluster) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.mu.Lock()
		wait, ok := c.world.run(16) // others want the lock, too
		c.mu.Unlock()
		var due <-chan time.Time
		if ok {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-due:
		case <-c.awake:
		case <-c.done:
			return
		}
	}
}

// wake makes loop look at the agenda.
func (c *Cluster) wake() {
	select {
	case c.awake <- struct{}{}:
	default:
	}
}

// spawn runs f beside the loop; mu is held.
func (c *Cluster) spawn(f func()) {
	if !c.closed {
		c.wg.Go(f)
	}
}

// Serve answers on l, beside the caller, until Close, which closes l. For TLS, l
// is what tls.NewListener returns.
func (c *Cluster) Serve(l net.Listener) {
	server := &http.Server{Handler: c, ErrorLog: log.New(io.Discard, "", 0)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.Close()
		return
	}
	c.servers = append(c.servers, server)
	c.wg.Go(func() { server.Serve(l) })
}

// Close ends everything, waits for it and removes what the cluster made.
// Requests that are being answered are cut. A second call does nothing more
// than wait.
func (c *Cluster) Close() {
	c.mu.Lock()
	var guests []*guestRun
	servers := c.servers
	if !c.closed {
		c.closed = true
		close(c.done)
		for _, s := range c.world.pods {
			if s.guest != nil {
				guests = append(guests, s.guest)
			}
		}
		if n := c.cfg.Network; n != nil {
			for host := range c.world.records {
				n.RemoveHost(host)
			}
		}
	}
	c.mu.Unlock()
	for _, s := range servers {
		s.Close()
	}
	var stopping sync.WaitGroup
	for _, g := range guests {
		stopping.Go(func() { g.stop() })
	}
	stopping.Wait()
	c.wg.Wait()
	c.removeRoot()
}

// Token is the bearer token that is accepted.
func (c *Cluster) Token() string { return c.cfg.Token }

// Namespace is where the templates, the pools and the account are.
func (c *Cluster) Namespace() string { return c.cfg.Namespace }

// Unmodelled lists the requests that were answered 501 because nobody looked up
// what a real server answers. A test that uses a Cluster fails when there are
// any.
func (c *Cluster) Unmodelled() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.unmodelled...)
}

// DialPod connects to an address of a pod or to a Service's name, as a host in
// the cluster would.
func (c *Cluster) DialPod(ctx context.Context, network, address string) (net.Conn, error) {
	if n := c.cfg.Network; n != nil {
		return n.DialContext(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	var d net.Dialer
	if net.ParseIP(host) != nil {
		return d.DialContext(ctx, network, address)
	}
	c.mu.Lock()
	ips := c.world.records[strings.ToLower(strings.TrimSuffix(host, "."))]
	c.mu.Unlock()
	if len(ips) == 0 {
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	return d.DialContext(ctx, network, net.JoinHostPort(ips[0], port))
}
