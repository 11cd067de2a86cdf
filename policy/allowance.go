package policy

import (
	"fmt"

	"github.com/sandlot-go/sandlot/k8s"
)

// allowance is what the configuration lets out, read from its own translation by the same code that reads the cluster's
// policies.
type allowance struct {
	everything bool
	nothing    bool
	allowed    []grant
}

// allowanceOf reads a translation. A problem in it is a mistake of this package.
func allowanceOf(manifest k8s.Object, namespace string) (allowance, error) {
	read := readCoreRule
	if manifest.Text("kind") == k8s.CiliumNetworkPolicies.Kind {
		read = readCiliumRule
	}
	rules := manifest.List("spec", "egress")
	a := allowance{nothing: len(rules) == 0}
	for _, v := range rules {
		r := read(v, egress, scope{namespace: namespace})
		if len(r.problems) > 0 {
			return a, fmt.Errorf("policy: own translation: %s", r.problems[0])
		}
		for _, g := range r.grants {
			if g.ports.unknown != "" || g.peer.kind == peerOpaque {
				return a, fmt.Errorf("policy: own translation: %s %s", g.ports.unknown, g.peer.problem)
			}
			g.ports.ports = g.ports.ports.fromAny().allowing()
			if g.peer.kind == peerEverything && allPorts().minus(g.ports.ports).empty() {
				a.everything = true
			}
			a.allowed = append(a.allowed, g)
		}
	}
	return a, nil
}

// finding is what the judgement of a rule or policy rests on.
type finding struct {
	verdict tri // of the question at hand: inside the allowance, or closed
	detail  string
	rule    string
	peer    string
}

// judgeEgress holds one rule against the allowance: yes when all it admits is allowed, no when something is certainly not.
func (a allowance) judgeEgress(r rule) finding {
	if a.everything && len(r.grants) > 0 {
		return finding{verdict: yes}
	}
	worst := finding{verdict: yes}
	for _, g := range r.grants {
		if f := a.judgeGrant(g); f.verdict < worst.verdict {
			worst = f
		}
	}
	if len(r.problems) == 0 {
		return worst
	}
	if a.nothing && worst.verdict > no {
		return finding{verdict: no, detail: "no rule at all is allowed, and this one " + r.problems[0]}
	}
	if worst.verdict == yes {
		return finding{verdict: unknown, detail: r.problems[0]}
	}
	return worst
}

func (a allowance) judgeGrant(g grant) finding {
	f := finding{verdict: yes, peer: g.peer.text}
	if g.peer.admitsNothing() || g.ports.ports.empty() && g.ports.unknown == "" {
		return f
	}
	if a.nothing {
		f.verdict, f.detail = no, "no rule at all is allowed"
		return f
	}
	if g.peer.kind == peerOpaque {
		f.verdict, f.detail = unknown, g.peer.problem
		return f
	}
	if outside := a.outside(g); outside != "" {
		f.verdict, f.detail = no, outside
		if g.peer.note != "" {
			f.detail += "; " + g.peer.note
		}
		return f
	}
	if g.ports.unknown != "" {
		f.verdict, f.detail = unknown, g.ports.unknown
	}
	return f
}

// outside names what a grant admits and the allowance does not, "" when there is nothing of the kind.
func (a allowance) outside(g grant) string {
	if g.peer.kind == peerBlock {
		return a.outsideBlocks(g)
	}
	rest := g.ports.ports
	for _, allowed := range a.allowed {
		if allowed.peer.contains(g.peer) && restricts(g, allowed) {
			rest = rest.minus(allowed.ports.ports)
		}
	}
	if rest.empty() {
		return ""
	}
	what := fmt.Sprintf("%s on %s is not allowed", g.peer.text, rest.text())
	for _, allowed := range a.allowed {
		if !allowed.peer.contains(g.peer) {
			continue
		}
		switch {
		case !g.dns.within(allowed.dns):
			return what + ": lookups are allowed for the configured names only"
		case !g.sni.within(allowed.sni):
			return what + ": TLS is allowed to the host's own name only"
		}
	}
	return what
}

// restricts reports whether a grant is at least as restricted as an allowance in what is inside the connection.
func restricts(g, allowed grant) bool {
	return g.dns.within(allowed.dns) && g.sni.within(allowed.sni)
}

// outsideBlocks subtracts the allowed blocks, which may cover the grant together. Those of a translation are on every port.
func (a allowance) outsideBlocks(g grant) string {
	rest := g.peer.block
	for _, allowed := range a.allowed {
		if allowed.peer.kind == peerBlock && g.ports.ports.minus(allowed.ports.ports).empty() {
			rest = rest.minus(allowed.peer.block)
		}
	}
	if len(rest) == 0 || g.ports.ports.empty() {
		return ""
	}
	return fmt.Sprintf("%s admits %s on %s, which is not allowed", g.peer.text, rest.example(), g.ports.ports.text())
}
