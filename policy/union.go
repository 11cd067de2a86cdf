package policy

import (
	"fmt"

	"github.com/sandlot-go/sandlot/k8s"
)

// policies are the objects that a judgement is made over.
type policies struct {
	core        []k8s.Object // NetworkPolicy
	cilium      []k8s.Object // CiliumNetworkPolicy
	clusterwide []k8s.Object // CiliumClusterwideNetworkPolicy
	admin       []k8s.Object // AdminNetworkPolicy
	baseline    []k8s.Object // BaselineAdminNetworkPolicy
}

// documents returns what there is to judge in one direction, in the order of the lists.
func (p policies) documents(engine Engine, d direction, namespace string) []document {
	docs := make([]document, 0, len(p.core))
	for i, item := range p.core {
		docs = append(docs, coreDocument(item, i, d, namespace))
	}
	if engine == Cilium {
		for i, item := range p.cilium {
			docs = append(docs, ciliumDocuments(item, i, d, k8s.CiliumNetworkPolicies.Kind, namespace)...)
		}
		for i, item := range p.clusterwide {
			docs = append(docs, ciliumDocuments(item, i, d, k8s.CiliumClusterwideNetworkPolicies.Kind, "")...)
		}
	}
	for i, item := range p.admin {
		docs = append(docs, adminDocument(item, i, d, AdminNetworkPolicies.Kind))
	}
	for i, item := range p.baseline {
		docs = append(docs, adminDocument(item, i, d, BaselineAdminNetworkPolicies.Kind))
	}
	return docs
}

// outcome is the answer of a whole judgement.
type outcome struct {
	refusal  Refusal // "" when it passes
	examined []Examined
	culprit  int // index in examined of the policy that the refusal is about, -1 for none
	notes    []string
}

// judgeUnion answers whether the policies that select the pod let out no more than the translation does, and whether one of
// them denies the rest.
func judgeUnion(manifest k8s.Object, a allowance, p policies, engine Engine, pod Pod) outcome {
	out := outcome{culprit: -1}
	enforced := false
	for _, doc := range p.documents(engine, egress, pod.Namespace) {
		e, counts := a.examine(doc, manifest, pod)
		enforced = enforced || counts
		out.examined = append(out.examined, e)
		if len(doc.denies) > 0 && e.Verdict == Within {
			out.notes = append(out.notes, fmt.Sprintf("%s/%s has deny rules: the sandbox may reach less than is configured", doc.kind, doc.name))
		}
	}
	out.decide(WidensEgress, PolicyWidensEgress, NoEnforcingPolicy, enforced || a.everything)
	return out
}

// decide finds the refusal: an opening before what cannot be judged, and that before a missing policy.
func (o *outcome) decide(opens Verdict, open, missing Refusal, covered bool) {
	for _, try := range []struct {
		verdict Verdict
		refusal Refusal
	}{{opens, open}, {NotEvaluable, PolicyNotEvaluable}} {
		for i, e := range o.examined {
			if e.Verdict == try.verdict {
				o.refusal, o.culprit = try.refusal, i
				return
			}
		}
	}
	if !covered {
		o.refusal = missing
	}
}

// examine judges one document and reports whether it counts as one that denies the rest.
func (a allowance) examine(doc document, manifest k8s.Object, pod Pod) (e Examined, enforces bool) {
	e = Examined{Kind: doc.kind, Name: doc.name}
	if doc.yields() {
		e.Verdict, e.Detail = NotEgressScoped, yieldsText
		return e, false
	}
	if doc.problem != "" {
		e.Verdict, e.Detail = NotEvaluable, doc.problem
		return e, false
	}
	selected, why := doc.selects(pod)
	if selected == no {
		e.Verdict = DoesNotSelect
		return e, false
	}
	// A policy that denies nothing by being there does not matter unless it admits something.
	if selected == unknown && !doc.admin {
		e.Verdict, e.Detail = NotEvaluable, why
		return e, false
	}
	if !a.isOwn(doc, manifest) {
		worst := a.judgeRules(doc, pod)
		e.Rule, e.Peer, e.Detail = worst.rule, worst.peer, worst.detail
		switch {
		case worst.verdict == no && selected == unknown:
			e.Verdict, e.Detail = NotEvaluable, why
			return e, false
		case worst.verdict == no:
			e.Verdict = WidensEgress
			e.Detail += doc.origin()
			return e, false
		case worst.verdict == unknown:
			e.Verdict = NotEvaluable
			return e, false
		}
	}
	switch {
	case !doc.enforces:
		e.Verdict = NotEgressScoped
		return e, false
	case doc.deleting:
		e.Detail = "is being deleted and does not count as enforcing"
	}
	e.Verdict = Within
	return e, !doc.deleting
}

// judgeRules returns the finding on the rule of a document that is furthest outside the allowance.
func (a allowance) judgeRules(doc document, pod Pod) finding {
	worst := finding{verdict: yes}
	for i, v := range doc.rules {
		if f := a.judgeEgress(doc.readRule(v, egress, pod)); f.verdict < worst.verdict {
			worst = f
			worst.rule = fmt.Sprintf("%s[%d]", doc.at, i)
		}
	}
	return worst
}

// isOwn reports whether the document is exactly the object that the configuration translates to. One that was changed since is
// judged like any other.
func (a allowance) isOwn(doc document, manifest k8s.Object) bool {
	return doc.kind == manifest.Text("kind") && doc.name == manifest.Name() && doc.at == egress.name && compareNamed(manifest, doc.item) == nil
}

// readRule reads one rule of the document. Names of ports are those of the pod that the traffic goes to, so that only those
// of ingress can be looked up.
func (d document) readRule(v any, dir direction, pod Pod) rule {
	s := scope{namespace: d.namespace}
	if dir.name == ingress.name && pod.Known {
		s.ports = portNames{of: &pod.Ports, strict: true}
		s.cilium = portNames{of: &pod.Ports}
	}
	switch {
	case d.admin:
		return readAdminRule(v, dir, s)
	case d.cilium:
		return readCiliumRule(v, dir, s)
	}
	return readCoreRule(v, dir, s)
}

// The label by which the controller's policy for a template selects. Only pods of its pools carry it.
const templateHashLabel = "agents.x-k8s.io/sandbox-template-ref-hash"

// origin says where a policy comes from that no operator wrote.
func (d document) origin() string {
	for _, r := range d.selector.labels {
		if r.key == templateHashLabel {
			return "; the sandbox controller makes this policy for pods of pools: give the SandboxTemplate a networkPolicy block, or set its networkPolicyManagement to Unmanaged"
		}
	}
	return ""
}
