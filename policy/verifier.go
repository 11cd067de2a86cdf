package policy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

const (
	readBound    = 30 * time.Second // for all lists together
	resolveBound = 30 * time.Second // for one answer of a Resolver
	snapshotAge  = 10 * time.Second // how long lists serve further label sets
)

// A Verifier proves the boundary of sandboxes of one template. It is safe for concurrent use; all its callers share what it
// reads. Close it when it is no longer needed.
type Verifier struct {
	client *k8s.Client
	config Config
	work   *group
	egress plan // nil without a boundary

	mu       sync.Mutex // guards what follows
	epoch    int        // grows with Invalidate, so that older work is not kept
	snapshot *snapshot
	forget   *time.Timer // drops snapshot
	reading  *flight[*snapshot]
	passes   memo
	passesBy labelKeys // by which passes are told apart
}

// New returns a Verifier. It does no I/O and refuses every configuration that can be refused without a cluster, with a
// [*ConfigError] or a [*HostError].
func New(client *k8s.Client, config Config) (*Verifier, error) {
	if client == nil {
		return nil, invalidConfig("client", "", "is nil")
	}
	c := config.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	v := &Verifier{config: c, work: newGroup()}
	if c.Egress != nil {
		var err error
		if v.egress, err = c.Egress.plan(v); err != nil {
			return nil, err
		}
	}
	if err := c.Ingress.validate(); err != nil {
		return nil, err
	}
	var err error
	if v.client, err = client.In(c.Namespace); err != nil {
		return nil, err
	}
	return v, nil
}

// Labels returns the labels that a pod must carry for its policies to select it, besides those of its template. objectName is
// the claim's or Sandbox's name. It is empty when the configuration asks for none.
func (v *Verifier) Labels(objectName string) map[string]string {
	if v.egress == nil {
		return map[string]string{}
	}
	return v.egress.labels(objectName)
}

// DirectLabels returns all labels of a pod that is created without a claim, from those of its template.
func (v *Verifier) DirectLabels(templateLabels map[string]string, objectName string) map[string]string {
	return directLabels(v.config.Template, templateLabels, v.Labels(objectName))
}

// Manifest returns the object that the configuration translates to and an operator applies; nil without Egress. A Resolver is
// asked for its hosts if it was not yet.
func (v *Verifier) Manifest(ctx context.Context) (k8s.Object, error) {
	if v.egress == nil {
		return nil, nil
	}
	return v.egress.manifest(ctx)
}

// Prefetch begins to read what a check will need, and returns at once. It does nothing while a pass is remembered.
func (v *Verifier) Prefetch(ctx context.Context) {
	v.mu.Lock()
	idle := v.passes.any(time.Now())
	v.mu.Unlock()
	if idle || v.need().nothing() {
		return
	}
	v.startReading(ctx)
	if v.egress != nil {
		v.egress.begin(ctx)
	}
}

// Check proves the boundary of a pod. It returns an [*Error] when the boundary is not there or not proved, the failure of a
// request as it is, and the cause of ctx when that ends. A pass is remembered for pods with the same ports and the same
// values of all labels that any policy asks for.
func (v *Verifier) Check(ctx context.Context, pod Pod) (*Report, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if v.need().nothing() {
		return &Report{}, nil
	}
	if pod.HostNetwork {
		return nil, v.onNode(pod)
	}
	if pod.Namespace == "" {
		pod.Namespace = v.config.Namespace
	}
	if pod.NamespaceLabels == nil {
		pod.NamespaceLabels = v.config.NamespaceLabels
	}
	if pod.Namespace != v.config.Namespace {
		return nil, invalidConfig("namespace", pod.Namespace, "is not the namespace that policies are read for")
	}
	v.mu.Lock()
	report, ok := v.passes.find(memoKey(pod, v.matters(v.passesBy)), time.Now())
	epoch := v.epoch
	v.mu.Unlock()
	if ok {
		report = report.clone()
		report.Remembered = true
		return report, nil
	}
	lists := v.startReading(ctx)
	var judge func(*snapshot, Pod) egressOutcome
	if v.egress != nil {
		var err error
		if judge, err = v.egress.judge(ctx); err != nil {
			return nil, err
		}
	}
	s, err := lists.wait(ctx)
	if err != nil {
		return nil, err
	}
	report, refusal := v.evaluate(judge, s, pod)
	v.mu.Lock()
	defer v.mu.Unlock()
	if refusal != nil {
		// The next check is to see whether the operator has mended it.
		v.forgetLocked(s)
		return nil, refusal
	}
	if epoch == v.epoch {
		if !s.keys.equal(v.passesBy) { // what is remembered does not tell apart the pods that these policies do
			v.passes.clear()
			v.passesBy = s.keys
		}
		v.passes.store(memoKey(pod, v.matters(s.keys)), report, s.began.Add(v.config.MaxAge))
	}
	return report.clone(), nil
}

// onNode refuses a pod that no policy can protect.
func (v *Verifier) onNode(pod Pod) *Error {
	e := &Error{
		Refusal: NoCoveringPolicy, Direction: ingress.name, AgentPort: v.config.AgentPort, Subject: pod.Subject, PodLabels: pod.Labels,
		Detail: "the pod uses its node's network, where no policy applies to it",
	}
	if v.config.Ingress.InsecureUnverified {
		e.Refusal, e.Direction, e.AgentPort = NoEnforcingPolicy, egress.name, 0
	}
	return e
}

// Invalidate forgets everything that was read, and the answer of a Resolver.
func (v *Verifier) Invalidate() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.epoch++
	v.passes.clear()
	v.forgetLocked(v.snapshot)
	v.reading = nil
	if v.egress != nil {
		v.egress.forget()
	}
}

// Close ends what is going on and joins it. Later calls that need to read return [ErrClosed].
func (v *Verifier) Close() {
	v.work.close()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forgetLocked(v.snapshot)
}

// matters returns which labels of a pod tell it apart from others for policies that ask for keys. The label of a sandbox's own
// policy does not: its value is new on every pod, and the only policy that selects by it does not exist yet.
func (v *Verifier) matters(keys labelKeys) func(key string) bool {
	perSandbox := v.perSandboxKey()
	return func(key string) bool { return key != perSandbox && keys.has(key) }
}

func (v *Verifier) perSandboxKey() string {
	if v.egress == nil {
		return ""
	}
	return v.egress.perSandboxKey()
}

// HasPerSandbox reports whether sandboxes may have a policy of their own.
func (v *Verifier) HasPerSandbox() bool { return v.perSandboxKey() != "" }

// Narrower returns the Narrower of a sandbox. The configuration must have PerSandbox, which HasPerSandbox reports.
func (v *Verifier) Narrower(owner Owner) (Narrower, error) {
	if !v.HasPerSandbox() {
		return nil, errors.New("policy: egress.perSandbox is not configured; sandboxes have no policy of their own")
	}
	return v.egress.narrower(owner)
}

func (v *Verifier) ingressEngine() Engine {
	switch i := v.config.Ingress; {
	case i.Engine != "":
		return i.Engine
	case v.egress != nil:
		return v.egress.engine()
	}
	return Core
}

func (v *Verifier) need() reading {
	r := reading{ingress: !v.config.Ingress.InsecureUnverified, ingressEngine: v.ingressEngine()}
	if v.egress != nil {
		v.egress.need(&r)
	}
	return r
}

// startReading returns the lists to judge by: those that were just read, those that are being read, or new ones.
func (v *Verifier) startReading(ctx context.Context) *flight[*snapshot] {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.snapshot; s != nil && time.Since(s.began) < snapshotAge {
		done := &flight[*snapshot]{done: make(chan struct{}), value: s}
		close(done.done)
		return done
	}
	if v.reading != nil {
		return v.reading
	}
	epoch, need := v.epoch, v.need()
	work := func(ctx context.Context) (*snapshot, error) { return readSnapshot(ctx, v.client, need) }
	f := launch(ctx, v.work, readBound, work, func(f *flight[*snapshot]) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if epoch != v.epoch {
			return
		}
		v.reading = nil
		if f.err == nil {
			v.keepLocked(f.value)
		}
	})
	if v.work.ctx.Err() == nil {
		v.reading = f
	}
	return f
}

// keepLocked keeps a snapshot for further label sets, and only as long as it serves them: it may be large.
func (v *Verifier) keepLocked(s *snapshot) {
	v.forgetLocked(v.snapshot)
	v.snapshot = s
	v.forget = time.AfterFunc(snapshotAge, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.forgetLocked(s)
	})
}

func (v *Verifier) forgetLocked(s *snapshot) {
	if s == nil || v.snapshot != s {
		return
	}
	v.snapshot = nil
	v.forget.Stop()
}
