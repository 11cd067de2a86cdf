package policy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

const (
	fenceBound  = 20 * time.Second // for reading both objects
	fenceMaxAge = 5 * time.Minute  // how long a proof lasts
)

// fenceMemo remembers that the fence stood, for a while. Concurrent callers share one reading.
type fenceMemo struct {
	mu      sync.Mutex // guards what follows
	epoch   int
	until   time.Time
	reading *flight[struct{}]
}

func (m *fenceMemo) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	m.until = time.Time{}
	m.reading = nil
}

// proveFence returns nil while the admission policy that fences what this host writes is proved to stand.
func (p *egressPlan) proveFence(ctx context.Context) error {
	m := &p.fence
	m.mu.Lock()
	if time.Now().Before(m.until) {
		m.mu.Unlock()
		return nil
	}
	if m.reading == nil {
		epoch, began := m.epoch, time.Now()
		work := func(ctx context.Context) (struct{}, error) { return struct{}{}, p.readFence(ctx) }
		m.reading = launch(ctx, p.v.work, fenceBound, work, func(f *flight[struct{}]) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if epoch != m.epoch {
				return
			}
			m.reading = nil
			if f.err == nil {
				m.until = began.Add(fenceMaxAge)
			}
		})
	}
	f := m.reading
	m.mu.Unlock()
	_, err := f.wait(ctx)
	return err
}

// readFence reads the admission policy, then its binding: without one it does nothing.
func (p *egressPlan) readFence(ctx context.Context) error {
	own := p.config.PerSandbox
	fence, err := p.readFencePart(ctx, k8s.ValidatingAdmissionPolicies, own.AdmissionPolicyName)
	if err != nil {
		return err
	}
	binding, err := p.readFencePart(ctx, k8s.ValidatingAdmissionPolicyBindings, own.bindingName())
	if err != nil {
		return err
	}
	fail := func(r k8s.Resource, name, detail string) error {
		path, _ := r.Path("", name)
		return &FenceError{Problem: FenceIneffective, Kind: r.Kind, Name: name, Path: path, Detail: detail}
	}
	if detail := fenceGap(fence); detail != "" {
		return fail(k8s.ValidatingAdmissionPolicies, own.AdmissionPolicyName, detail)
	}
	if detail := bindingGap(binding, own.AdmissionPolicyName, p.v.config.Namespace, p.v.config.NamespaceLabels); detail != "" {
		return fail(k8s.ValidatingAdmissionPolicyBindings, own.bindingName(), detail)
	}
	return nil
}

func (p *egressPlan) readFencePart(ctx context.Context, r k8s.Resource, name string) (k8s.Object, error) {
	o, err := k8s.RetryRead(ctx, k8s.Backoff{}, func(ctx context.Context) (k8s.Object, error) { return p.v.client.Get(ctx, r, name) })
	if err == nil {
		return o, nil
	}
	path, _ := r.Path("", name)
	e := &FenceError{Kind: r.Kind, Name: name, Path: path}
	switch k8s.KindOf(err) {
	case k8s.NotFound, k8s.NotServed, k8s.Gone:
		e.Problem = FenceMissing
		return nil, e
	case k8s.Unauthorized, k8s.Forbidden:
		e.Problem, e.Err = FenceUnreadable, err
		return nil, e
	}
	return nil, fmt.Errorf("policy: get %s %s: %w", r.Kind, name, err)
}

// fenceGap says why an admission policy refuses nothing that this host writes, "" when it may refuse something. That it refuses
// the right things cannot be read from it.
func fenceGap(fence k8s.Object) string {
	spec, ok := objectOf(fence["spec"])
	if !ok {
		return "it has no spec"
	}
	if mode := spec["failurePolicy"]; mode != nil && mode != "Fail" {
		return fmt.Sprintf("its failurePolicy is %s, so that an error admits everything", jsonText(mode))
	}
	if present(spec, "paramKind") {
		return "what it refuses depends on parameters"
	}
	if rules, ok := listField(spec, "validations"); !ok || len(rules) == 0 {
		return "it has no validations"
	}
	constraints, _ := objectOf(spec["matchConstraints"])
	rules, _ := listField(constraints, "resourceRules")
	for _, operation := range []string{"CREATE", "UPDATE"} {
		if !slices.ContainsFunc(rules, func(v any) bool { return fenceCovers(v, operation) }) {
			return fmt.Sprintf("it does not look at %s of ciliumnetworkpolicies", operation)
		}
	}
	return ""
}

func fenceCovers(v any, operation string) bool {
	m, _ := objectOf(v)
	has := func(key string, wanted ...string) bool {
		list, _ := stringList(m, key)
		return slices.ContainsFunc(list, func(s string) bool { return s == "*" || slices.Contains(wanted, s) })
	}
	names, ok := stringList(m, "resourceNames")
	return ok && len(names) == 0 && has("apiGroups", "cilium.io") && has("apiVersions", "v2") && has("operations", operation) &&
		has("resources", "ciliumnetworkpolicies", "ciliumnetworkpolicies/*", "*/*")
}

// bindingGap says why a binding does not put the admission policy in force here.
func bindingGap(binding k8s.Object, fence, namespace string, labels map[string]string) string {
	spec, ok := objectOf(binding["spec"])
	if !ok {
		return "it has no spec"
	}
	if spec["policyName"] != fence {
		return fmt.Sprintf("it is for policy %s", jsonText(spec["policyName"]))
	}
	if actions, ok := stringList(spec, "validationActions"); !ok || !slices.Contains(actions, "Deny") {
		return fmt.Sprintf("its validationActions are %s, without Deny", jsonText(spec["validationActions"]))
	}
	if present(spec, "paramRef") {
		return "what it refuses depends on parameters"
	}
	match, _ := objectOf(spec["matchResources"])
	if !present(match, "namespaceSelector") {
		return ""
	}
	pod := Pod{Namespace: namespace, NamespaceLabels: labels}
	if answer, _ := readSelector(match["namespaceSelector"], true, nil).match(pod.namespaceLabel); answer == no {
		return "it is not for namespace " + namespace
	}
	return ""
}
