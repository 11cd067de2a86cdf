package acquire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// A Backend creates sandboxes of one configuration. It is safe for concurrent
// use.
type Backend struct {
	client   *k8s.Client
	cfg      Config
	verifier *policy.Verifier
	pace     pace
	reaper   *reaper

	mu      sync.Mutex
	closed  bool
	creates int           // in flight
	idle    chan struct{} // closed when creates falls to 0 after closed was set
	held    map[*Sandbox]struct{}
	noWatch bool // the account may not watch, or the server cannot
}

// New checks the configuration and returns a Backend. It sends nothing. The
// error joins everything that is refused.
func New(client *k8s.Client, config Config) (*Backend, error) {
	cfg := config.withDefaults()
	err := cfg.check()
	if client == nil {
		err = errors.Join(errors.New("acquire: the client is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	verifier, err := policy.New(client, policy.Config{
		Namespace: client.Namespace(), Template: cfg.Template, AgentPort: cfg.AgentPort,
		Egress: cfg.Egress, Ingress: cfg.Ingress, MaxAge: cfg.PolicyMaxAge,
	})
	if err != nil {
		return nil, err
	}
	for key := range verifier.Labels(namePrefix) {
		if _, taken := cfg.PodLabels[key]; taken {
			return nil, fmt.Errorf("acquire: Config.PodLabels cannot set %s, which Config.Egress sets", key)
		}
	}
	return &Backend{
		client:   client,
		cfg:      cfg,
		verifier: verifier,
		reaper:   newReaper(client, cfg.OnLeak),
		idle:     make(chan struct{}),
		held:     map[*Sandbox]struct{}{},
	}, nil
}

// EgressManifest is the policy object that Config.Egress stands for and an
// operator applies; nil without Config.Egress.
func (b *Backend) EgressManifest(ctx context.Context) (k8s.Object, error) {
	return b.verifier.Manifest(ctx)
}

// InvalidatePolicies forgets which pods were verified, so that the next create
// reads the network policies anew.
func (b *Backend) InvalidatePolicies() { b.verifier.Invalidate() }

// enter counts a create in, or refuses it because the Backend is closed.
func (b *Backend) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return &Error{Stage: StageOptions, Reason: ReasonClosed, Namespace: b.client.Namespace(), Kind: b.resource().Kind, Err: ErrClosed}
	}
	b.creates++
	return nil
}

func (b *Backend) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.creates--
	if b.closed && b.creates == 0 {
		close(b.idle)
	}
}

// resource is what this Backend creates.
func (b *Backend) resource() k8s.Resource {
	if b.cfg.Pool != "" {
		return k8s.SandboxClaims
	}
	return k8s.Sandboxes
}

// now is the API server's time, as well as it is known: stamps are judged by
// its clock, not by ours.
func (b *Backend) now() time.Time {
	offset, _ := b.client.ClockOffset()
	return time.Now().Add(offset)
}

// hold and forget keep the set of handles whose leases Close ends.
func (b *Backend) hold(s *Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[s] = struct{}{}
}

func (b *Backend) forget(s *Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, s)
}

func (b *Backend) abandonAll() {
	b.mu.Lock()
	held := slices.Collect(maps.Keys(b.held))
	b.mu.Unlock()
	for _, s := range held {
		s.abandon()
	}
}

// Close refuses new creates, waits for those in flight, ends the leases of all
// sandboxes without releasing them, and deletes what could not be deleted
// before. A sandbox that is still held is gone after its TTL at the latest.
//
// When ctx ends first, Close takes a second more for that, gives up what is left
// and returns an error that names it; everything has stopped then all the same. A second Close waits for
// nothing and returns nil.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	if first && b.creates == 0 {
		close(b.idle)
	}
	b.mu.Unlock()
	if !first {
		return nil
	}
	b.abandonAll()
	var errs []error
	select {
	case <-b.idle:
	case <-ctx.Done():
		select {
		case <-b.idle: // as well
		default:
			errs = append(errs, fmt.Errorf("acquire: Close did not wait for the creates in flight: %w", context.Cause(ctx)))
		}
	}
	b.abandonAll() // those that were created meanwhile
	b.verifier.Close()
	return errors.Join(append(errs, b.reaper.close(ctx))...)
}
