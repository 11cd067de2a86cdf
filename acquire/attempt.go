package acquire

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/transport"
)

const namePrefix = "namzu-task-"

// An attempt is one create on its way. It belongs to one goroutine.
type attempt struct {
	b        *Backend
	resource k8s.Resource
	caller   context.Context // the caller's
	ctx      context.Context // the caller's, bounded by the ready timeout
	cancel   context.CancelFunc

	name   string
	labels map[string]string // that the pod must carry
	expiry time.Time         // the stamp that is sent
	uid    string            // of the object, once known
	state  podbind.State
	podRef podbind.Pod // once known

	started   bool // a POST may have had an effect
	ambiguous bool // a POST went unanswered: it may have an effect yet
	agent     *transport.Agent

	stage   Stage
	since   time.Time
	report  Report
	counter requestCounter
}

func (b *Backend) attempt(caller context.Context) *attempt {
	a := &attempt{b: b, resource: b.resource(), caller: caller, name: namePrefix + uuid.New(), stage: StageOptions, since: time.Now()}
	ctx := k8s.WithTrace(caller, &k8s.Trace{Request: a.counter.count})
	a.ctx, a.cancel = context.WithTimeoutCause(ctx, b.cfg.ReadyTimeout, errReadyTimeout)
	a.expiry = b.now().Add(b.cfg.TTL).Truncate(time.Second)
	a.labels = maps.Clone(b.cfg.PodLabels)
	if own := b.verifier.Labels(a.name); len(own) > 0 {
		if a.labels == nil {
			a.labels = map[string]string{}
		}
		maps.Copy(a.labels, own)
	}
	return a
}

// enter begins the next stage and books the time of the last one.
func (a *attempt) enter(s Stage) {
	now := time.Now()
	if a.stage != StageOptions {
		a.report.add(a.stage, now.Sub(a.since))
	}
	a.stage, a.since = s, now
}

func (a *attempt) end() { a.cancel() }

// remaining is what is left of the budget.
func (a *attempt) remaining() time.Duration {
	deadline, _ := a.ctx.Deadline()
	return time.Until(deadline)
}

// sleep waits within the budget.
func (a *attempt) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	}
}

// get reads an object, with the retries that a read inside the budget gets.
func (a *attempt) get(r k8s.Resource, name string) (k8s.Object, error) {
	return k8s.RetryRead(a.ctx, k8s.Backoff{}, func(ctx context.Context) (k8s.Object, error) {
		return a.b.client.Get(ctx, r, name)
	})
}

// body is what is posted: a claim on the pool, or a Sandbox copied from the
// template. A claim carries no environment and no volumes: each makes the
// controller start cold instead of taking a pool member.
func (a *attempt) body() (k8s.Object, error) {
	cfg := &a.b.cfg
	if cfg.Pool != "" {
		return a.claimBody(), nil
	}
	a.enter(StageTemplate)
	a.b.verifier.Prefetch(a.ctx)
	template, err := a.get(k8s.SandboxTemplates, cfg.Template)
	if err != nil {
		return nil, a.timedOut("SandboxTemplate "+cfg.Template+" was not read", err, nil)
	}
	return podbind.SandboxBody(template, podbind.SandboxSpec{
		Name:         a.name,
		Namespace:    a.b.client.Namespace(),
		Expiry:       a.expiry,
		RuntimeClass: cfg.RuntimeClass,
		Labels:       a.labels,
	})
}

func (a *attempt) claimBody() k8s.Object {
	cfg := &a.b.cfg
	metadata := map[string]any{"name": a.name, "namespace": a.b.client.Namespace()}
	if len(cfg.ClaimLabels) > 0 {
		metadata["labels"] = anyMap(cfg.ClaimLabels)
	}
	spec := map[string]any{
		"warmPoolRef": map[string]any{"name": cfg.Pool},
		"lifecycle":   map[string]any{"shutdownTime": podbind.Stamp(a.expiry), "shutdownPolicy": "Delete"},
	}
	if len(a.labels) > 0 {
		spec["additionalPodMetadata"] = map[string]any{"labels": anyMap(a.labels)}
	}
	return k8s.Object{
		"apiVersion": k8s.SandboxClaims.Group + "/" + k8s.SandboxClaims.Version,
		"kind":       k8s.SandboxClaims.Kind,
		"metadata":   metadata,
		"spec":       spec,
	}
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func formatLabels(labels map[string]string) string { return podbind.FormatLabels(labels) }

// refuse names every control of the options that cannot be enforced on one
// sandbox, in one error.
func (b *Backend) refuse(o Options) error {
	var names []string
	for _, control := range []struct {
		name  string
		asked bool
	}{
		{"environment variables", len(o.Env) > 0}, {"memory limit", o.MemoryLimitMiB != 0},
		{"network egress policy", o.Egress != nil}, {"process limit", o.MaxProcesses != 0},
	} {
		if control.asked {
			names = append(names, control.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &Error{
		Stage: StageOptions, Reason: ReasonInvalidRequest, Namespace: b.client.Namespace(), Kind: b.resource().Kind,
		Err: fmt.Errorf("cannot enforce per-sandbox %s: set it in SandboxTemplate %s", strings.Join(names, ", "), b.cfg.Template),
	}
}

// A requestCounter counts the requests of one create.
type requestCounter struct {
	mu                sync.Mutex
	requests, retries int
	seen              map[string]bool
}

// count books one request. A repetition of one whose answer was a failure is a
// retry; looking at a claim again because it is not ready is not.
func (c *requestCounter) count(r k8s.RequestInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests += max(1, r.Sent)
	key := r.Method + " " + r.Path
	if c.seen[key] {
		c.retries++
	}
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	c.seen[key] = r.Kind != ""
}

func (c *requestCounter) totals() (requests, retries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, c.retries
}
