package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

const writeBound = 30 * time.Second // for one change of a policy, after the fence

// Owner is the object that a sandbox's policy goes away with.
type Owner struct {
	Kind string // SandboxClaim or Sandbox
	Name string
	UID  string
}

var ownerKinds = []k8s.Resource{k8s.SandboxClaims, k8s.Sandboxes}

// A Narrower writes the policy of one sandbox. The object is named after the owner's uid, selects the sandbox's pod alone and is
// removed by the garbage collector with its owner, so that a host that crashes leaves nothing open.
type Narrower interface {
	// Set makes hosts the list of this sandbox; an empty one takes the policy away. What the list opens comes on top of the
	// configured policy. Changes are made one after the other in the order of the calls, so that the last list is the one in
	// force. When ctx ends, Set returns its cause: a change that had not begun is not made, one that had goes on and is over
	// before the next begins.
	//
	// A list that is refused with a [*HostError] changes nothing. Set returns when the object is stored as it was sent; the
	// network plugin enforces it a moment later.
	Set(ctx context.Context, hosts []string) error

	// Close says that the sandbox was given back. The policy itself goes away with its owner.
	Close()
}

// narrower is the Narrower of an egressPlan.
type narrower struct {
	p    *egressPlan
	t    target
	n    *Narrowing
	kind Kind

	mu       sync.Mutex // guards what follows
	released bool
	tail     chan struct{} // closed when the change before the next one is over
}

func (p *egressPlan) narrower(owner Owner) (Narrower, error) {
	namespace := p.v.config.Namespace
	if owner.UID == "" {
		return nil, &OwnerUIDError{Name: owner.Name, Namespace: namespace}
	}
	for _, k := range ownerKinds {
		if k.Kind != owner.Kind {
			continue
		}
		t := target{
			namespace: namespace,
			name:      PerSandboxNamePrefix + owner.UID,
			selector:  map[string]string{p.perSandboxKey(): owner.Name},
			owner:     map[string]any{"apiVersion": k.APIVersion(), "kind": owner.Kind, "name": owner.Name, "uid": owner.UID},
		}
		idle := make(chan struct{})
		close(idle)
		return &narrower{p: p, t: t, n: p.config.PerSandbox.narrowing(p.config.Policy.Kind()), kind: KindStatic, tail: idle}, nil
	}
	return nil, fmt.Errorf("policy: the owner of a sandbox's policy is a SandboxClaim or a Sandbox, not %q", owner.Kind)
}

func (n *narrower) Set(ctx context.Context, hosts []string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	manifest, err := n.manifest(hosts)
	if err != nil {
		return err
	}
	n.mu.Lock()
	if n.released {
		n.mu.Unlock()
		return ErrReleased
	}
	before, over := n.tail, make(chan struct{})
	caller := ctx
	work := func(ctx context.Context) (struct{}, error) { return struct{}{}, n.take(ctx, caller, before, manifest) }
	f := launch(ctx, n.p.v.work, 0, work, func(*flight[struct{}]) { close(over) })
	if n.p.v.work.ctx.Err() == nil {
		n.tail = over
	}
	n.mu.Unlock()
	_, err = f.wait(ctx)
	return err
}

func (n *narrower) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.released = true
}

// manifest translates a list, to nil when it is empty. It also holds the result against the rules of the fence.
func (n *narrower) manifest(hosts []string) (k8s.Object, error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	canonical := make([]string, len(hosts))
	for i, entry := range hosts {
		canonical[i] = strings.ToLower(entry)
	}
	if err := checkHosts("perSandbox.narrowing", canonical, n.n); err != nil {
		return nil, err
	}
	narrowing := n.n
	if !narrowing.active() {
		narrowing = nil
	}
	e := n.p.config
	manifest := n.t.cilium(e.DNS, canonical, narrowing)
	fence := admission{labelKey: n.p.perSandboxKey(), dns: e.DNS}
	if rule, why := fence.refusedBy("CREATE", manifest); rule != 0 {
		return nil, fmt.Errorf("policy: the sandbox's policy would break rule %d of its own fence: %s", rule, why)
	}
	return manifest, nil
}

// take waits for its turn, which comes when every earlier change is over, and makes one change. Each change is bounded, and so
// is the wait.
func (n *narrower) take(ctx, caller context.Context, before <-chan struct{}, manifest k8s.Object) error {
	<-before
	if caller.Err() != nil {
		return context.Cause(caller)
	}
	ctx, cancel := context.WithTimeout(ctx, fenceBound+writeBound)
	defer cancel()
	if err := n.p.proveFence(ctx); err != nil {
		return err
	}
	if manifest == nil {
		return n.remove(ctx)
	}
	if err := n.write(ctx, manifest); err != nil {
		return err
	}
	return n.readBack(ctx, manifest)
}

// remove takes the policy away. One that is not there is success.
func (n *narrower) remove(ctx context.Context) error {
	_, err := n.p.v.client.Delete(ctx, k8s.CiliumNetworkPolicies, n.t.name, k8s.DeleteOptions{})
	switch k8s.KindOf(err) {
	case k8s.NotFound, k8s.NotServed, k8s.Gone:
		return nil
	}
	return n.failed("delete", err)
}

func (n *narrower) write(ctx context.Context, manifest k8s.Object) error {
	_, err := n.p.v.client.Create(ctx, k8s.CiliumNetworkPolicies, manifest)
	if kind := k8s.KindOf(err); kind != k8s.Exists && kind != k8s.Conflict {
		return n.failed("create", err)
	}
	_, err = n.p.v.client.MergePatch(ctx, k8s.CiliumNetworkPolicies, n.t.name, replacing(manifest))
	return n.failed("change", err)
}

// replacing returns a merge patch that also takes away what an object of that name may have besides: a merge keeps every field
// that it does not name.
func replacing(manifest k8s.Object) k8s.Object {
	patch := manifest.Clone()
	patch["specs"] = nil
	spec, _ := objectOf(patch["spec"])
	for _, field := range []string{"ingress", "ingressDeny", "egressDeny", "enableDefaultDeny", "nodeSelector"} {
		spec[field] = nil
	}
	if selector, ok := objectOf(spec["endpointSelector"]); ok {
		selector["matchExpressions"] = nil
	}
	return patch
}

// readBack compares what is stored with what was sent.
func (n *narrower) readBack(ctx context.Context, manifest k8s.Object) error {
	path, _ := k8s.CiliumNetworkPolicies.Path(n.t.namespace, n.t.name)
	e := &Error{Direction: egress.name, Kind: n.kind, ResourceKind: k8s.CiliumNetworkPolicies.Kind, Path: path, Subject: "the sandbox's own policy"}
	live, err := readNamed(ctx, n.p.v.client, k8s.CiliumNetworkPolicies, n.t.name)
	if err != nil {
		return err
	}
	if live == nil {
		e.Refusal = NotApplied
		return e
	}
	if d := compareNamed(manifest, live); d != nil {
		e.Refusal, e.Field, e.Detail = Mismatch, d.field, d.reason
		return e
	}
	return nil
}

// failed wraps the failure of a write and says who refused it.
func (n *narrower) failed(verb string, err error) error {
	if err == nil {
		return nil
	}
	hint := ""
	if e, ok := errors.AsType[*k8s.APIError](err); ok && e.Kind == k8s.Forbidden {
		hint = "; grant create, patch and delete on ciliumnetworkpolicies of API group cilium.io by a Role"
		if strings.Contains(e.Message, "ValidatingAdmissionPolicy") {
			hint = "; an admission policy refused it, not RBAC"
		}
	}
	return fmt.Errorf("policy: %s %s %s: %w%s", verb, k8s.CiliumNetworkPolicies.Kind, n.t.name, err, hint)
}
