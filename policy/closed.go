package policy

import (
	"fmt"
	"slices"
	"sort"
)

// judgeIngress answers whether the agent's port is closed: at least one policy that selects the pod denies ingress, and none
// admits a source that is open to everyone or to other sandboxes.
func judgeIngress(j sourceJudge, p policies, engine Engine, port int) outcome {
	out := outcome{culprit: -1}
	covered := false
	var blocks addrSet
	for _, doc := range p.documents(engine, ingress, j.pod.Namespace) {
		e, covers := j.examine(doc, port, &blocks)
		covered = covered || covers
		out.examined = append(out.examined, e)
	}
	out.decide(OpensAgentPort, PortOpen, NoCoveringPolicy, covered)
	return out
}

// examine judges one document and reports whether it counts as one that denies ingress.
func (j sourceJudge) examine(doc document, port int, blocks *addrSet) (e Examined, covers bool) {
	e = Examined{Kind: doc.kind, Name: doc.name}
	if doc.yields() {
		e.Verdict, e.Detail = NotIngressScoped, yieldsText
		return e, false
	}
	if doc.problem != "" {
		e.Verdict, e.Detail = NotEvaluable, doc.problem
		return e, false
	}
	selected, why := doc.selects(j.pod)
	if selected == no {
		e.Verdict = DoesNotSelect
		return e, false
	}
	if selected == unknown && !doc.admin {
		e.Verdict, e.Detail = NotEvaluable, why
		return e, false
	}
	if selected == unknown {
		blocks = new(addrSet)
	}
	worst := j.judgeRules(doc, port, blocks)
	worst.verdict = min(worst.verdict, selected)
	e.Rule, e.Peer, e.Detail = worst.rule, worst.peer, worst.detail
	switch worst.verdict {
	case yes:
		e.Verdict = OpensAgentPort
		return e, false
	case unknown:
		e.Verdict = NotEvaluable
		if selected == unknown {
			e.Detail = why
		}
		return e, false
	}
	switch {
	case !doc.enforces:
		e.Verdict = NotIngressScoped
		return e, false
	case doc.deleting:
		e.Detail = "is being deleted and does not count as closing the port"
	}
	e.Verdict = Covers
	return e, !doc.deleting
}

// judgeRules returns the most open of a document's rules. The blocks of all documents before it count too: it does not matter
// over how many policies the address space is spread.
func (j sourceJudge) judgeRules(doc document, port int, blocks *addrSet) finding {
	worst, at := finding{verdict: no}, -1
	admitted := make([]addrSet, len(doc.rules)) // by each rule
	for i, v := range doc.rules {
		var f finding
		f, admitted[i] = j.judgeRule(doc.readRule(v, ingress, j.pod), port)
		if f.verdict > worst.verdict {
			worst, at = f, i
		}
	}
	before := *blocks
	*blocks = before.plus(slices.Concat(admitted...).normal())
	if !before.wide() && blocks.wide() {
		// The rule with which the blocks became too many is found without adding them up for every rule.
		i := sort.Search(len(admitted)-1, func(n int) bool { return before.plus(slices.Concat(admitted[:n+1]...).normal()).wide() })
		if worst.verdict < yes || i < at {
			worst, at = finding{verdict: yes, detail: wideText(*blocks)}, i
		}
	}
	if at >= 0 {
		worst.rule = fmt.Sprintf("%s[%d]", doc.at, at)
	}
	return worst
}
