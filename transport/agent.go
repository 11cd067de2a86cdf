package transport

import (
	"context"
	"slices"
	"sync"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// An Agent is a host's session with one guest agent. It keeps no connection:
// the protocol wants a fresh one for every request. Its methods can be called
// concurrently.
type Agent struct {
	config Config
	part   int // bytes of content in one request; 0, except in tests: what fits

	mu     sync.Mutex // guards what follows
	bound  *binding
	flight *flight                 // the call of Refresh under way
	ends   map[*operation]struct{} // of the operations under way
	closed error                   // why the Agent is closed; nil while it is not
	active int                     // programs under way

	running sync.WaitGroup // operations and flights; added to under mu while not closed
}

// An operation is one call of the API, or one program.
type operation struct{ end context.CancelCauseFunc }

// New returns an Agent. It does no I/O.
func New(config Config) (*Agent, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Agent{
		config: config,
		bound:  newBinding(Endpoint{config.Host, config.Port, config.Token}, config.Restarted),
		ends:   make(map[*operation]struct{}),
	}, nil
}

// begin lets an operation into the Agent. Its context ends with the caller's
// and with Close. The function it returns must be called when it is over.
func (a *Agent) begin(ctx context.Context) (context.Context, func(), error) {
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	op := &operation{cancel}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed != nil {
		cancel(a.closed)
		return nil, nil, a.closed
	}
	a.ends[op] = struct{}{}
	a.running.Add(1)
	return ctx, func() {
		a.mu.Lock()
		delete(a.ends, op)
		a.mu.Unlock()
		cancel(nil)
		a.running.Done()
	}, nil
}

// aside runs f in a goroutine that Close waits for, with a context that ends
// with Close. Only an operation under way may call it.
func (a *Agent) aside(f func(context.Context)) {
	ctx, end, err := a.begin(context.Background())
	if err != nil {
		closed, cancel := context.WithCancelCause(context.Background())
		cancel(err)
		a.running.Go(func() { f(closed) })
		return
	}
	go func() {
		defer end()
		f(ctx)
	}()
}

// callerFirst is err, unless the context has ended: then that is the reason,
// whatever the operation made of it.
func callerFirst(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Close ends the operations under way and waits for them; those to come fail
// with ErrClosed. Programs are ended as by their context, with 2 seconds for
// the guest to confirm it. Close is idempotent and returns nil.
func (a *Agent) Close() error {
	a.shut(ErrClosed)
	a.running.Wait()
	return nil
}

// Abort is Close without waiting, for when the guest is known to be gone: what
// is under way and what is to come fail with an error that wraps both cause and
// ErrClosed. The first cause stays. Close must still be called.
func (a *Agent) Abort(cause error) { a.shut(&abortError{cause}) }

func (a *Agent) shut(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed != nil {
		return
	}
	a.closed = cause
	for op := range a.ends {
		op.end(cause)
	}
}

// Running is the number of programs that were started and are not known to have
// ended.
func (a *Agent) Running() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active
}

func (a *Agent) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active += n
}

func (a *Agent) current() *binding {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bound
}

// A binding is one guest behind the Agent: an endpoint and what is known about
// who listens there. Replies count for the binding that they came over, so that
// a late one of a pod that was replaced says nothing about its successor.
type binding struct {
	Endpoint
	restarted func(before, after string)
	greetings chan struct{} // an element for each connection whose request is not sent yet

	mu       sync.Mutex // guards what follows
	features Features
	known    bool // features are
	boot     string
}

func newBinding(e Endpoint, restarted func(before, after string)) *binding {
	return &binding{Endpoint: e, restarted: restarted, greetings: make(chan struct{}, maxGreetings)}
}

// Features are what a guest announces.
type Features []string

// Has reports whether the guest announces the feature.
func (f Features) Has(name string) bool { return slices.Contains(f, name) }

func (b *binding) learn(features []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.features, b.known = features, true
}

// booted notes the boot id of a reply; its absence means nothing.
func (b *binding) booted(id string) {
	if id == "" {
		return
	}
	b.mu.Lock()
	before := b.boot
	b.boot = id
	b.mu.Unlock()
	if before != "" && before != id && b.restarted != nil {
		b.restarted(before, id)
	}
}

// BootID is the last boot id that the guest has told, which changes when its
// process is another one; empty while none is known.
func (a *Agent) BootID() string {
	b := a.current()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.boot
}

// Health is how a guest is.
type Health struct {
	OK       bool
	Retiring bool // it has fenced itself for good and takes no more work
	Features Features
}

// Health asks the guest how it is. The address is not refreshed for it.
func (a *Agent) Health(ctx context.Context) (Health, error) {
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return Health{}, err
	}
	defer end()
	h, err := a.health(ctx, a.current())
	if err != nil {
		return Health{}, callerFirst(ctx, refusedError(wire.OpHealth, err))
	}
	return Health{OK: h.OK, Retiring: h.Retiring, Features: h.Features}, nil
}

// Features asks the guest what it can do, once.
func (a *Agent) Features(ctx context.Context) (Features, error) {
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	f, err := a.features(ctx, a.current())
	return slices.Clone(f), callerFirst(ctx, err)
}

func (a *Agent) health(ctx context.Context, b *binding) (wire.Health, error) {
	var h wire.Health
	err := a.call(ctx, b, wire.OpHealth, nil, smallReply, func(payload []byte) (err error) {
		h, err = wire.ParseHealth(payload)
		return err
	})
	if err == nil {
		b.learn(h.Features)
	}
	return h, err
}

func (a *Agent) features(ctx context.Context, b *binding) (Features, error) {
	b.mu.Lock()
	features, known := b.features, b.known
	b.mu.Unlock()
	if known {
		return features, nil
	}
	err := a.uncrowd(ctx, func() error {
		h, err := a.health(ctx, b)
		features = h.Features
		return err
	})
	return features, refusedError(wire.OpHealth, err)
}
