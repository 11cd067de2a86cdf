package k8s

import (
	"context"
	"errors"
	"net/url"
	"time"
)

// A Client talks to one API server on behalf of one namespace. It is safe for
// concurrent use. Clients that come from each other through [Client.In] share
// their connections.
type Client struct {
	core      *core // behind a pointer, so that no formatting verb reaches a secret
	namespace string
}

// core is what the clients of all namespaces share.
type core struct {
	cfg        Config
	base       *url.URL
	transports *transports
	asking     chan struct{} // a slot for each call of cfg.Token that goes on
	clock      clock
}

// New returns a client. It does no I/O besides reading Config.CAFile, and
// reports everything that can be known to be wrong without a server.
func New(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	base, err := parseServer(cfg.Server)
	if err != nil {
		return nil, err
	}
	if err := cfg.check(base); err != nil {
		return nil, err
	}
	t, err := newTransports(cfg)
	if err != nil {
		return nil, err
	}
	co := &core{cfg: cfg, base: base, transports: t, asking: make(chan struct{}, maxAsking)}
	return &Client{core: co, namespace: cfg.Namespace}, nil
}

// Namespace returns the namespace that the client works in.
func (c *Client) Namespace() string { return c.namespace }

// In returns a client for another namespace over the same connections.
func (c *Client) In(namespace string) (*Client, error) {
	if err := CheckNamespace(namespace); err != nil {
		return nil, err
	}
	return &Client{core: c.core, namespace: namespace}, nil
}

// String returns the server and the namespace.
func (c *Client) String() string {
	return "k8s.Client(" + c.core.base.String() + ", " + c.namespace + ")"
}

// GoString is String.
func (c *Client) GoString() string { return c.String() }

// ClockOffset returns how far the server's clock is ahead of this one, as seen
// from the Date headers of its answers, and reports whether any answer has told.
// A Date names whole seconds: the offset is zero unless the clocks certainly
// differ, and then good to about half a second.
func (c *Client) ClockOffset() (offset time.Duration, known bool) { return c.core.clock.offset() }

// CloseIdleConnections closes the connections that are kept for later requests.
func (c *Client) CloseIdleConnections() { c.core.transports.closeIdle() }

// errBound is the cause of a context that ended by Config.RequestTimeout.
var errBound = errors.New("k8s: Config.RequestTimeout has passed")

// do makes one request and reads its answer whole. Whatever happens, the end of
// ctx comes first.
func (c *Client) do(ctx context.Context, q *call) (reply, error) {
	if ctx.Err() != nil {
		return reply{}, context.Cause(ctx)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, c.core.cfg.RequestTimeout, errBound)
	defer cancel()
	r, err := c.core.exchange(bounded, q)
	if ended(ctx) {
		return reply{}, context.Cause(ctx)
	}
	return r, err
}

// ended reports whether ctx is over. Of two deadlines at the same instant, ours
// and the caller's, ours may strike first; then this waits for the other, so
// that the caller's end is not taken for a failure.
func ended(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	if d, ok := ctx.Deadline(); !ok || time.Now().Before(d) {
		return false
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return ctx.Err() != nil
}
