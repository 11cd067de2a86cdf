package policy

import (
	"context"
	"fmt"

	"github.com/sandlot-go/sandlot/k8s"
)

// resolve asks the Resolver for its hosts and translates them.
func (p *egressPlan) resolve(ctx context.Context) (*boundary, error) {
	hosts, err := p.config.Policy.(Resolver).Resolve(ctx)
	if err != nil {
		return nil, fmt.Errorf("policy: the resolver of the allowed hosts failed: %w", err)
	}
	return p.translate(hosts)
}

// resource is the kind of object that the configuration translates to.
func (e *Egress) resource() k8s.Resource {
	if e.Policy.Kind().named() {
		return k8s.CiliumNetworkPolicies
	}
	return k8s.NetworkPolicies
}

// evaluate judges a pod by what was read: the named object, then who reaches the agent, then the union of what is let out.
func (v *Verifier) evaluate(judge func(*snapshot, Pod) egressOutcome, s *snapshot, pod Pod) (*Report, error) {
	c := v.config
	report := &Report{Unread: s.unread, Notes: s.notes}
	if !pod.Known {
		report.Notes = append(report.Notes[:len(report.Notes):len(report.Notes)], "judged on the labels that the pod will carry, before it exists")
	}
	refuse := func(e *Error) (*Report, error) {
		e.Subject, e.PodLabels = pod.Subject, pod.Labels
		return nil, e
	}
	var out egressOutcome
	if judge != nil {
		out = judge(s, pod)
		report.Egress = selecting(out.examined)
		report.Notes = append(report.Notes[:len(report.Notes):len(report.Notes)], out.notes...)
		if out.named != nil {
			return refuse(out.named)
		}
	}
	if !c.Ingress.InsecureUnverified {
		engine := v.ingressEngine()
		closed := judgeIngress(c.Ingress.judge(pod, v.perSandboxKey()), s.policies, engine, c.AgentPort)
		report.Ingress = selecting(closed.examined)
		if e := closed.refusalError(s.requiredUnread(engine)); e != nil {
			e.Direction, e.AgentPort = ingress.name, c.AgentPort
			return refuse(e)
		}
	}
	if out.union != nil {
		return refuse(out.union)
	}
	return report, nil
}

// evaluate judges what a pod may reach.
func (p *egressPlan) evaluate(b *boundary, s *snapshot, pod Pod) egressOutcome {
	var union outcome
	if p.config.Verify == Union {
		union = judgeUnion(b.manifest, b.allowance, s.policies, p.config.Engine, pod)
	}
	out := egressOutcome{examined: union.examined, notes: union.notes}
	if e := p.checkNamed(b, s); e != nil {
		e.Examined, e.Culprit = union.examined, union.blamed()
		out.named = e
	}
	if p.config.Verify == Union {
		if e := union.refusalError(s.requiredUnread(p.config.Engine)); e != nil {
			e.Direction, e.Kind = egress.name, p.config.Policy.Kind()
			out.union = e
		}
	}
	return out
}

// checkNamed compares the named object, as it was listed or read by itself, with the translation.
func (p *egressPlan) checkNamed(b *boundary, s *snapshot) *Error {
	resource := p.config.resource()
	name := b.manifest.Name()
	path, _ := resource.Path(p.v.config.Namespace, name)
	e := &Error{Direction: egress.name, Kind: p.config.Policy.Kind(), ResourceKind: resource.Kind, Path: path}
	live := s.named
	if p.config.Verify == Union {
		list := s.core
		if resource == k8s.CiliumNetworkPolicies {
			list = s.cilium
		}
		for _, u := range s.requiredUnread(p.config.Engine) {
			if u.Resource == resource.Plural+"."+resource.Group {
				return nil // refused as not evaluable
			}
		}
		for _, item := range list {
			if item.Name() == name {
				live = item
			}
		}
	}
	if live == nil {
		e.Refusal = NotApplied
		return e
	}
	if d := compareNamed(b.manifest, live); d != nil {
		e.Refusal, e.Field, e.Detail = Mismatch, d.field, d.reason
		return e
	}
	return nil
}

// blamed returns the policy that a refusal is about.
func (o outcome) blamed() *Examined {
	if o.culprit < 0 || o.culprit >= len(o.examined) {
		return nil
	}
	return new(o.examined[o.culprit])
}

// refusalError returns the refusal of an outcome, nil for a pass. Without a required collection nothing passes.
func (o outcome) refusalError(unread []Unread) *Error {
	e := &Error{Refusal: o.refusal, Culprit: o.blamed(), Examined: o.examined, Unread: unread}
	switch {
	case len(unread) > 0 && (o.refusal == "" || o.culprit < 0):
		e.Refusal, e.Culprit = PolicyNotEvaluable, nil
	case o.refusal == "":
		return nil
	}
	return e
}

// selecting returns the policies that select the pod: a namespace may hold thousands that do not.
func selecting(examined []Examined) []Examined {
	var out []Examined
	for _, e := range examined {
		if e.Verdict != DoesNotSelect {
			out = append(out, e)
		}
	}
	return out
}
