package policy

import (
	"fmt"
	"net/netip"
	"strings"
)

// admits reports whether a peer stands for the endpoint, and what it depends on when that is unknown.
func (p peer) admits(e Endpoint) (tri, string) {
	switch p.kind {
	case peerEverything:
		return yes, ""
	case peerBlock:
		if !e.Addr.IsValid() {
			return unknown, "the pod's address is in the block"
		}
		return triOf(p.block.contains(e.Addr) || e.Addr.Is4In6() && p.block.contains(e.Addr.Unmap())), ""
	case peerPods:
		return p.admitsPod(e)
	case peerName, peerPattern:
		return p.admitsName(e)
	case peerEntity:
		return p.admitsEntity(e)
	case peerNodes:
		if e.Pod != nil {
			return no, ""
		}
		return unknown, "it is a node's address"
	}
	return unknown, p.problem
}

func (p peer) admitsPod(e Endpoint) (tri, string) {
	if e.Pod == nil && p.unbounded {
		return unknown, "Cilium takes the address for something that is not excluded"
	}
	if e.Pod == nil {
		if e.Outside || e.Addr.IsLoopback() || e.Addr.IsLinkLocalUnicast() || e.Addr.IsMulticast() {
			return no, ""
		}
		return unknown, "it is the address of such a pod"
	}
	other := Pod{Namespace: e.Pod.Namespace, Labels: e.Pod.Labels, NamespaceLabels: e.Pod.NamespaceLabels}
	answer := min(matchAll(p.namespace, other.namespaceLabel), matchAll(p.pod, identity(other, true)))
	return answer, "the pod's namespace has such labels"
}

func (p peer) admitsName(e Endpoint) (tri, string) {
	if e.Name == "" {
		if e.Pod != nil {
			return no, ""
		}
		return unknown, "it is what such a name resolves to"
	}
	return triOf(p.contains(peer{kind: peerName, name: e.Name})), ""
}

// admitsEntity judges Cilium's groups by an address.
func (p peer) admitsEntity(e Endpoint) (tri, string) {
	switch name := strings.ToLower(p.name); name {
	case "all":
		return yes, ""
	case "none":
		return no, ""
	case "cluster":
		if e.Pod != nil {
			return yes, ""
		}
		if e.Outside && isPublic(e.Addr) {
			return no, ""
		}
		return unknown, "it is an address of the cluster"
	case "world", "world-ipv4", "world-ipv6":
		wrongFamily := name == "world-ipv4" && !e.Addr.Is4() || name == "world-ipv6" && e.Addr.Is4()
		switch {
		case e.Pod != nil, wrongFamily && e.Addr.IsValid():
			return no, ""
		case e.Outside || isPublic(e.Addr):
			return yes, ""
		}
		return unknown, "it is an address outside the cluster"
	}
	if e.Pod != nil {
		return no, ""
	}
	return unknown, "it belongs to that entity"
}

func isPublic(a netip.Addr) bool {
	return a.IsValid() && a.IsGlobalUnicast() && !a.IsPrivate() && !netip.MustParsePrefix("100.64.0.0/10").Contains(a)
}

// text names an endpoint in a message.
func (e Endpoint) text(d direction) string {
	name := e.Addr.String()
	switch {
	case e.Pod != nil && !e.Addr.IsValid():
		name = fmt.Sprintf("pod %s of namespace %s", labelText(e.Pod.Labels), e.Pod.Namespace)
	case e.Name != "":
		name = fmt.Sprintf("%s (%s)", e.Name, e.Addr)
	}
	if d.name == ingress.name {
		return name
	}
	p, _ := e.proto()
	return fmt.Sprintf("%s on %s %d", name, protoNames[p], e.Port)
}

// reachOf reports whether a rule admits a connection, by which peer, and what is missing when it nearly does.
func (r rule) reachOf(e Endpoint, p proto, port int) finding {
	best := finding{verdict: no}
	near := ""
	for _, g := range r.grants {
		covers, why := triOf(g.ports.ports.contains(p, port)), ""
		if covers == no && g.ports.unknown != "" {
			covers, why = unknown, g.ports.unknown
		}
		admits, condition := g.peer.admits(e)
		if admits == unknown {
			why = "it does if " + condition
			if g.peer.kind == peerOpaque {
				why = condition
			}
		}
		if admits == yes && covers == no {
			near = fmt.Sprintf("%s is admitted on %s only", g.peer.text, g.ports.ports.text())
		}
		if v := min(admits, covers); v > best.verdict {
			best = finding{verdict: v, peer: g.peer.text, detail: why}
			if v == yes {
				best.detail = g.peer.note
				if g.ports.ranged {
					best.detail = "by an endPort, which some network plugins ignore"
				}
			}
		}
	}
	if best.verdict == no {
		best.detail = near
		if len(r.problems) > 0 {
			best = finding{verdict: unknown, detail: r.problems[0]}
		}
	}
	return best
}
