package acquire

import (
	"context"
	"fmt"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// verifyPlan judges the network policies by the labels that the pod will carry,
// where they are known before anything is created: without a pool. A refusal
// leaves nothing behind then.
func (a *attempt) verifyPlan(body k8s.Object) error {
	if a.b.cfg.Pool != "" {
		return nil
	}
	a.enter(StageVerify)
	return a.check(policy.Pod{
		Subject: fmt.Sprintf("to create Sandbox %s in namespace %s", a.name, a.b.client.Namespace()),
		Labels:  body.StringMap("spec", "podTemplate", "metadata", "labels"),

		HostNetwork: body.Field("spec", "podTemplate", "spec", "hostNetwork") == true,
	})
}

// verify judges the network policies that select the pod, by the labels and
// container ports that it really has, less those that an adopted pod is about to
// lose.
func (a *attempt) verify(pod podbind.Pod) error {
	a.enter(StageVerify)
	p := policy.PodOf(pod.Object)
	if a.b.cfg.Pool != "" {
		p.Labels = podbind.AdoptedLabels(p.Labels)
	}
	p.Subject = fmt.Sprintf("the pod bound to Sandbox %s in namespace %s", a.state.Sandbox, a.b.client.Namespace())
	return a.check(p)
}

func (a *attempt) check(pod policy.Pod) error {
	report, err := a.b.verifier.Check(a.ctx, pod)
	if a.ctx.Err() != nil {
		return a.timedOut("the network policies were not read", context.Cause(a.ctx), nil)
	}
	if err != nil {
		return err
	}
	a.report.Policies = *report
	return nil
}

// narrower is what the handle narrows its own policy with; nil where none is
// configured.
func (a *attempt) narrower() (policy.Narrower, error) {
	if !a.b.verifier.HasPerSandbox() {
		return nil, nil
	}
	return a.b.verifier.Narrower(policy.Owner{Kind: a.resource.Kind, Name: a.name, UID: a.uid})
}

// SetNetworkPolicy narrows what may leave this sandbox to the given hosts, within
// what Config.Egress allows all of them. It needs Config.Egress.PerSandbox. Of
// concurrent calls the last list stays. The policy goes with the sandbox.
func (s *Sandbox) SetNetworkPolicy(ctx context.Context, hosts []string) error {
	if err := s.usable("set the network policy"); err != nil {
		return err
	}
	if s.narrower == nil {
		return fmt.Errorf("acquire: the network policy of sandbox %s cannot be set: Config.Egress.PerSandbox is not configured", s.sandbox)
	}
	return s.explain(s.narrower.Set(ctx, hosts))
}
