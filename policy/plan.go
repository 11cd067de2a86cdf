package policy

import (
	"context"
	"sync"

	"github.com/sandlot-go/sandlot/k8s"
)

// A Boundary is what may leave a sandbox: an *[Egress]. It is an interface so that a program that configures none is not made
// larger by the code that translates, judges and narrows one.
type Boundary interface {
	// plan checks the configuration and returns what a Verifier works with; nil for a nil *Egress.
	plan(v *Verifier) (plan, error)
}

// A plan is the configured boundary at work for one Verifier.
type plan interface {
	engine() Engine
	need(r *reading)
	labels(objectName string) map[string]string
	perSandboxKey() string // "" without policies of single sandboxes

	begin(ctx context.Context) // asks a Resolver, if there is one to be asked
	manifest(ctx context.Context) (k8s.Object, error)
	judge(ctx context.Context) (func(s *snapshot, pod Pod) egressOutcome, error)
	forget()

	narrower(owner Owner) (Narrower, error)
}

// egressOutcome is what a plan found. The two refusals are kept apart because who reaches the agent is told between them.
type egressOutcome struct {
	examined []Examined // nil unless the union was judged
	notes    []string
	named    *Error
	union    *Error
}

// egressPlan is the plan of an Egress.
type egressPlan struct {
	v      *Verifier
	config *Egress // with its defaults
	target target  // of the named object
	fence  fenceMemo

	mu        sync.Mutex // guards what follows
	epoch     int        // grows with forget
	boundary  *boundary
	resolving *flight[*boundary]
}

// boundary is the translation with what it allows.
type boundary struct {
	manifest  k8s.Object
	allowance allowance
}

func (e *Egress) plan(v *Verifier) (plan, error) {
	if e == nil {
		return nil, nil
	}
	p := &egressPlan{v: v, config: e.clone()}
	if err := p.config.validate(v.config.Workspace); err != nil {
		return nil, err
	}
	var err error
	if p.target, err = p.config.target(v.config.Namespace, v.config.Template); err != nil {
		return nil, err
	}
	if _, later := p.config.Policy.(Resolver); !later {
		var hosts []string
		if s, ok := p.config.Policy.(Static); ok {
			hosts = s.AllowedHosts
		}
		if p.boundary, err = p.translate(hosts); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *egressPlan) translate(hosts []string) (*boundary, error) {
	manifest, err := p.config.translate(p.target, hosts)
	if err != nil {
		return nil, err
	}
	a, err := allowanceOf(manifest, p.v.config.Namespace)
	if err != nil {
		return nil, err
	}
	return &boundary{manifest: manifest, allowance: a}, nil
}

func (p *egressPlan) engine() Engine { return p.config.Engine }

func (p *egressPlan) need(r *reading) {
	r.egressUnion, r.egressEngine = p.config.Verify == Union, p.config.Engine
	if !r.egressUnion {
		r.named, r.namedKind = p.target.name, p.config.resource()
	}
}

func (p *egressPlan) labels(objectName string) map[string]string {
	labels, err := p.config.podLabels(p.config.perSandboxLabel(objectName))
	if err != nil {
		// The one collision there can be was refused by New.
		panic(err)
	}
	return labels
}

func (p *egressPlan) perSandboxKey() string {
	if p.config.PerSandbox == nil {
		return ""
	}
	return p.config.PerSandbox.labelKey()
}

func (p *egressPlan) begin(ctx context.Context) { p.startResolving(ctx) }

func (p *egressPlan) manifest(ctx context.Context) (k8s.Object, error) {
	b, err := p.startResolving(ctx).wait(ctx)
	if err != nil {
		return nil, err
	}
	return b.manifest.Clone(), nil
}

func (p *egressPlan) judge(ctx context.Context) (func(*snapshot, Pod) egressOutcome, error) {
	b, err := p.startResolving(ctx).wait(ctx)
	if err != nil {
		return nil, err
	}
	return func(s *snapshot, pod Pod) egressOutcome { return p.evaluate(b, s, pod) }, nil
}

func (p *egressPlan) forget() {
	p.mu.Lock()
	p.epoch++
	if p.config.Policy.Kind() == KindResolver {
		p.boundary, p.resolving = nil, nil
	}
	p.mu.Unlock()
	p.fence.forget()
}

// startResolving returns the translation, after the Resolver's answer if there is one.
func (p *egressPlan) startResolving(ctx context.Context) *flight[*boundary] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boundary != nil {
		done := &flight[*boundary]{done: make(chan struct{}), value: p.boundary}
		close(done.done)
		return done
	}
	if p.resolving != nil {
		return p.resolving
	}
	epoch := p.epoch
	f := launch(ctx, p.v.work, resolveBound, p.resolve, func(f *flight[*boundary]) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if epoch != p.epoch {
			return
		}
		p.resolving = nil
		if f.err == nil {
			p.boundary = f.value
		}
	})
	if p.v.work.ctx.Err() == nil {
		p.resolving = f
	}
	return f
}
