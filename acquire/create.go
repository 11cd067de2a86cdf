package acquire

import (
	"context"

	"github.com/sandlot-go/sandlot/policy"
)

// Options are of one create. Zero is what a pool's template gives.
type Options struct {
	// Dir is where programs start that name no directory of their own. "" is the
	// guest's workspace. It must lie in the workspace and is made if missing.
	Dir string

	// The controls below are limits of a pod and belong into the SandboxTemplate.
	// No create can set them on a pod that runs already, or give its claim an
	// environment without losing the warm pool. Create refuses them rather than
	// ignore them.
	Egress         policy.Boundary
	MemoryLimitMiB int
	MaxProcesses   int
	Env            map[string]string
}

// Create returns a sandbox that is ready, verified, deprivileged and leased. It
// returns an *Error when it fails; when ctx ends it returns context.Cause(ctx)
// itself. The sandbox must be released.
func (b *Backend) Create(ctx context.Context, options Options) (_ *Sandbox, err error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := b.refuse(options); err != nil {
		return nil, err
	}
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	a := b.attempt(ctx)
	defer a.end()
	defer func() { err = a.undo(err) }()

	body, err := a.body()
	if err != nil {
		return nil, err
	}
	if err := a.verifyPlan(body); err != nil {
		return nil, err
	}
	object, err := a.post(body)
	if err != nil {
		return nil, err
	}
	binding, err := a.bind(object)
	if err != nil {
		return nil, err
	}
	pod, host, err := a.pod(binding)
	if err != nil {
		return nil, err
	}
	if err := a.verify(pod); err != nil {
		return nil, err
	}
	sandbox, err := a.dial(options, pod, host)
	if err != nil {
		return nil, err
	}
	if err := a.probe(sandbox); err != nil {
		return nil, err
	}
	return a.handOver(sandbox)
}
