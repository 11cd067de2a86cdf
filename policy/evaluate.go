package policy

import (
	"context"
	"fmt"

	"github.com/sandlot-go/sandlot/k8s"
)

// resolve asks the Resolver for its hosts and translates them.
func (v *Verifier) resolve(ctx context.Context) (*boundary, error) {
	hosts, err := v.config.Egress.Policy.(Resolver).Resolve(ctx)
	if err != nil {
		return nil, fmt.Errorf("policy: the resolver of the allowed hosts failed: %w", err)
	}
	return v.translate(hosts)
}

// resource is the kind of object that the configuration translates to.
func (e *Egress) resource() k8s.Resource {
	if e.Policy.Kind().named() {
		return k8s.CiliumNetworkPolicies
	}
	return k8s.NetworkPolicies
}

// evaluate judges a pod by what was read: the named object, then who reaches the agent, then the union of what is let out.
func (c Config) evaluate(b *boundary, s *snapshot, pod Pod, perSandboxKey string) (*Report, error) {
	report := &Report{Unread: s.unread, Notes: s.notes}
	if !pod.Known {
		report.Notes = append(report.Notes[:len(report.Notes):len(report.Notes)], "judged on the labels that the pod will carry, before it exists")
	}
	refuse := func(e *Error) (*Report, error) {
		e.Subject, e.PodLabels = pod.Subject, pod.Labels
		return nil, e
	}
	var union outcome
	if b != nil && c.Egress.Verify == Union {
		union = judgeUnion(b.manifest, b.allowance, s.policies, c.Egress.Engine, pod)
		report.Egress = selecting(union.examined)
		report.Notes = append(report.Notes[:len(report.Notes):len(report.Notes)], union.notes...)
	}
	if b != nil {
		if e := c.checkNamed(b, s); e != nil {
			e.Examined, e.Culprit = union.examined, union.blamed()
			return refuse(e)
		}
	}
	if !c.Ingress.InsecureUnverified {
		engine := c.Ingress.engine(c.Egress)
		closed := judgeIngress(c.Ingress.judge(pod, perSandboxKey), s.policies, engine, c.AgentPort)
		report.Ingress = selecting(closed.examined)
		if e := closed.refusalError(s.requiredUnread(engine)); e != nil {
			e.Direction, e.AgentPort = ingress.name, c.AgentPort
			return refuse(e)
		}
	}
	if b != nil && c.Egress.Verify == Union {
		if e := union.refusalError(s.requiredUnread(c.Egress.Engine)); e != nil {
			e.Direction, e.Kind = egress.name, c.Egress.Policy.Kind()
			return refuse(e)
		}
	}
	return report, nil
}

// checkNamed compares the named object, as it was listed or read by itself, with the translation.
func (c Config) checkNamed(b *boundary, s *snapshot) *Error {
	resource := c.Egress.resource()
	name := b.manifest.Name()
	path, _ := resource.Path(c.Namespace, name)
	e := &Error{Direction: egress.name, Kind: c.Egress.Policy.Kind(), ResourceKind: resource.Kind, Path: path}
	live := s.named
	if c.Egress.Verify == Union {
		list := s.core
		if resource == k8s.CiliumNetworkPolicies {
			list = s.cilium
		}
		for _, u := range s.requiredUnread(c.Egress.Engine) {
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
