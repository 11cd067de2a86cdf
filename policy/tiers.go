package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sandlot-go/sandlot/k8s"
)

// reaches answers whether a connection is open, through the tiers in which policies apply: those of the administrator, then
// the ordinary ones together, then the baseline where none of these isolates the pod.
func (q Question) reaches(p policies, d direction, e Endpoint) Answer {
	c := &connection{q: q, d: d, e: e, port: e.Port}
	c.proto, _ = e.proto()
	if d.name == ingress.name {
		c.proto, c.port = protoTCP, q.AgentPort
	}
	admin := policies{admin: slices.Clone(p.admin)}
	slices.SortStableFunc(admin.admin, func(a, b k8s.Object) int {
		x, _ := a.Int("spec", "priority")
		y, _ := b.Int("spec", "priority")
		return cmp.Compare(x, y)
	})
	if c.tier(admin.documents(q.Engine, d, q.Pod.Namespace)) {
		return c.answer()
	}
	ordinary := policies{core: p.core, cilium: p.cilium, clusterwide: p.clusterwide}
	if c.union(ordinary.documents(q.Engine, d, q.Pod.Namespace)) {
		return c.answer()
	}
	baseline := policies{baseline: p.baseline}
	if !c.tier(baseline.documents(q.Engine, d, q.Pod.Namespace)) {
		c.conclude(Open, fmt.Sprintf("no policy of type %s selects the pod, so that every connection is let through", d.policyTyp))
	}
	return c.answer()
}

// connection is one question on its way through the tiers.
type connection struct {
	q        Question
	d        direction
	e        Endpoint
	proto    proto
	port     int
	examined []Examined
	possible []Answer // what the answer may be, in the order in which it was found
}

func (c *connection) conclude(v Openness, text string) {
	c.possible = append(c.possible, Answer{Verdict: v, Text: text})
}

// answer is the one possible answer, or unknown when there are several.
func (c *connection) answer() Answer {
	verdict, texts := c.possible[0].Verdict, []string(nil)
	for _, p := range c.possible {
		if p.Verdict != verdict {
			verdict = Unknown
		}
		texts = append(texts, p.Text)
	}
	return Answer{Verdict: verdict, Text: string(verdict) + ": " + strings.Join(texts, "; otherwise "), Examined: c.examined}
}

// decision is what the rules of one administrator's policy come to.
type decision int

const (
	undecided decision = iota
	decided            // by an Allow or a Deny
	passed             // to the next tier
)

// tier goes through policies whose rules decide one by one, in order. It reports whether one of them certainly did.
func (c *connection) tier(docs []document) bool {
	for _, doc := range docs {
		x := Examined{Kind: doc.kind, Name: doc.name, Verdict: Passes}
		selected, why := yes, doc.problem
		if doc.problem == "" {
			selected, why = doc.selects(c.q.Pod)
		}
		switch {
		case doc.problem != "":
			x.Verdict, x.Detail = NotEvaluable, doc.problem
			c.examined = append(c.examined, x)
			c.conclude(Unknown, x.text()+" cannot be judged")
			continue
		case selected == no:
			x.Verdict = DoesNotSelect
			c.examined = append(c.examined, x)
			continue
		}
		came := c.adminRules(doc, selected, why, &x)
		c.examined = append(c.examined, x)
		if came != undecided {
			return came == decided
		}
	}
	return false
}

func (c *connection) adminRules(doc document, selected tri, why string, x *Examined) decision {
	for i, v := range doc.rules {
		m, _ := objectOf(v)
		f := readAdminPeers(m, c.d, c.scope(doc)).reachOf(c.e, c.proto, c.port)
		verdict := min(f.verdict, selected)
		if verdict == no {
			continue
		}
		if f.verdict == yes && selected == unknown {
			f.detail = why
		}
		x.Rule, x.Peer, x.Detail = fmt.Sprintf("%s[%d]", doc.at, i), f.peer, f.detail
		action, _ := m["action"].(string)
		text := fmt.Sprintf("%s/%s %s %s says %s for %s", x.Kind, x.Name, x.Rule, x.Peer, action, c.e.text(c.d))
		if verdict == unknown {
			x.Verdict = MayAdmit
			text += ", " + f.detail
		}
		switch action {
		case "Allow":
			if verdict == yes {
				x.Verdict = Admits
			}
			c.conclude(Open, text)
		case "Deny":
			if verdict == yes {
				x.Verdict = Denies
			}
			c.conclude(Closed, text)
		}
		switch {
		case verdict == yes && action == "Pass":
			return passed
		case verdict == yes:
			return decided
		}
	}
	return undecided
}

func (c *connection) scope(doc document) scope {
	s := scope{namespace: doc.namespace}
	if c.d.name == ingress.name && c.q.Pod.Known {
		s.ports = portNames{of: &c.q.Pod.Ports, strict: true}
		s.cilium = portNames{of: &c.q.Pod.Ports}
	}
	return s
}

// union goes through the ordinary policies, which add up: one that admits is enough, unless a rule of Cilium's denies. It
// reports whether the pod is isolated, so that the baseline does not matter.
func (c *connection) union(docs []document) (isolated bool) {
	isolates, admits, denies := no, no, no
	var by [3]Examined // what isolates, admits, denies
	var near string
	for _, doc := range docs {
		x, f, deny := c.ordinary(doc)
		c.examined = append(c.examined, x)
		switch x.Verdict {
		case DoesNotSelect:
			continue
		case NotEvaluable:
			if isolates < unknown {
				isolates, by[0] = unknown, x
			}
			if admits < unknown {
				admits, by[1] = unknown, x
			}
			continue
		}
		if doc.enforces && !doc.deleting && isolates < yes {
			isolates, by[0] = yes, x
		}
		if f.verdict > admits {
			admits, by[1] = f.verdict, x
		}
		if deny > denies {
			denies, by[2] = deny, x
		}
		if near == "" && f.verdict == no && f.detail != "" {
			near = fmt.Sprintf("; %s/%s: %s", x.Kind, x.Name, f.detail)
		}
	}
	what := c.e.text(c.d)
	switch {
	case denies == yes:
		c.conclude(Closed, fmt.Sprintf("%s denies %s (deny rules need Cilium 1.9 or newer)", by[2].where(), what))
	case admits == yes && denies == unknown:
		c.conclude(Unknown, fmt.Sprintf("%s admits %s and %s may deny it: %s", by[1].where(), what, by[2].where(), by[2].Detail))
	case admits == yes:
		text := fmt.Sprintf("%s admits %s", by[1].where(), what)
		if by[1].Detail != "" {
			text += " (" + by[1].Detail + ")"
		}
		c.conclude(Open, text)
	case isolates == no && denies == unknown:
		c.conclude(Unknown, fmt.Sprintf("%s may deny %s, and nothing isolates the pod: %s", by[2].where(), what, by[2].Detail))
	case isolates == no:
		return false
	case admits == unknown:
		c.conclude(Unknown, fmt.Sprintf("%s may admit %s: %s", by[1].where(), what, by[1].Detail))
	default:
		c.conclude(Closed, fmt.Sprintf("%s/%s isolates the pod and no rule admits %s%s", by[0].Kind, by[0].Name, what, near))
	}
	return true
}

// ordinary examines one policy: what of it admits the connection, and whether it denies it.
func (c *connection) ordinary(doc document) (x Examined, f finding, deny tri) {
	x = Examined{Kind: doc.kind, Name: doc.name}
	if doc.problem != "" {
		x.Verdict, x.Detail = NotEvaluable, doc.problem
		return x, f, no
	}
	switch selected, why := doc.selects(c.q.Pod); selected {
	case no:
		x.Verdict = DoesNotSelect
		return x, f, no
	case unknown:
		x.Verdict, x.Detail = NotEvaluable, why
		return x, f, no
	}
	best := finding{verdict: no}
	for i, v := range doc.rules {
		g := doc.readRule(v, c.d, c.q.Pod).reachOf(c.e, c.proto, c.port)
		if g.verdict > best.verdict || best.detail == "" {
			best = g
			best.rule = fmt.Sprintf("%s[%d]", doc.at, i)
		}
	}
	var denied finding
	for i, v := range doc.denies {
		g := doc.readRule(v, c.d, c.q.Pod).reachOf(c.e, c.proto, c.port)
		if g.verdict > denied.verdict {
			denied = g
			denied.rule = fmt.Sprintf("%s[%d]", strings.TrimSuffix(doc.at, c.d.name)+c.d.deny, i)
		}
	}
	switch {
	case denied.verdict == yes:
		best, x.Verdict = denied, Denies
	case best.verdict == yes:
		x.Verdict = Admits
	case best.verdict == unknown:
		x.Verdict = MayAdmit
	case doc.enforces:
		x.Verdict = Isolates
	case c.d.name == egress.name:
		x.Verdict = NotEgressScoped
	default:
		x.Verdict = NotIngressScoped
	}
	x.Rule, x.Peer, x.Detail = best.rule, best.peer, best.detail
	if denied.verdict == yes {
		return x, finding{verdict: no}, yes
	}
	return x, best, denied.verdict
}

// where names the policy, the rule and the peer.
func (x Examined) where() string {
	text := x.Kind + "/" + x.Name
	for _, part := range []string{x.Rule, x.Peer} {
		if part != "" {
			text += " " + part
		}
	}
	return text
}
