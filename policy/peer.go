package policy

import (
	"fmt"
	"net/netip"
	"strings"
)

// peerKind says what a rule's other side is.
type peerKind int

const (
	peerEverything peerKind = iota
	peerBlock               // addresses
	peerPods                // pods by their labels and their namespace's
	peerName                // a DNS name
	peerPattern             // DNS names by a pattern
	peerEntity              // one of Cilium's groups
	peerNodes               // nodes by their labels
	peerOpaque              // not readable here
)

// peer is the other side of a rule.
type peer struct {
	kind      peerKind
	block     addrSet
	namespace []requirement // peerPods: on the namespace's labels
	pod       []requirement // peerPods
	name      string        // peerName, peerPattern, peerEntity
	text      string        // for messages, with its place in the rule
	problem   string        // peerOpaque: why
	unbounded bool          // peerPods: only excludes, which in Cilium also selects what is no pod
	note      string        // what an operator should know about this reading
}

// grant is one peer on a set of ports: what one rule admits, in pieces.
type grant struct {
	peer  peer
	ports portReading
	dns   *nameSet // nil: any lookup
	sni   *nameSet // nil: any name in the TLS hello
}

// rule is a reading of one rule of a policy.
type rule struct {
	grants   []grant
	problems []string // why there may be more grants than these
}

// direction is the side of the pod that a rule is about, with the names that its fields have.
type direction struct {
	name      string // egress, ingress
	policyTyp string
	peers     string // to, from
	deny      string
}

var (
	egress  = direction{"egress", "Egress", "to", "egressDeny"}
	ingress = direction{"ingress", "Ingress", "from", "ingressDeny"}
)

// scope is what a rule means its selectors and port names relative to.
type scope struct {
	namespace string // of the policy; "" for one of the whole cluster
	ports     portNames
	cilium    portNames
}

// ownNamespace is the condition that a peer is in the policy's own namespace.
func (s scope) ownNamespace() []requirement {
	return []requirement{{namespaceNameKey, opIn, []string{s.namespace}}}
}

// readCoreRule reads a rule of a NetworkPolicy (https://kubernetes.io/docs/concepts/services-networking/network-policies/).
func readCoreRule(v any, d direction, s scope) rule {
	m, ok := objectOf(v)
	if !ok {
		return rule{problems: []string{"the rule is not an object"}}
	}
	if field := unknownField(m, d.peers, "ports"); field != "" {
		return rule{problems: []string{fmt.Sprintf("the rule has a field %s that is not known", field)}}
	}
	ports := readCorePorts(m, s.ports)
	peers, ok := listField(m, d.peers)
	if !ok {
		return rule{problems: []string{d.peers + " is not a list"}}
	}
	if len(peers) == 0 {
		return rule{grants: []grant{{peer: peer{text: "every peer"}, ports: ports}}}
	}
	var out rule
	for i, v := range peers {
		out.grants = append(out.grants, grant{peer: readCorePeer(v, fmt.Sprintf("%s[%d]", d.peers, i), s), ports: ports})
	}
	return out
}

// readCorePeer reads one peer: a block, pods of this namespace, namespaces, or pods of namespaces.
func readCorePeer(v any, at string, s scope) peer {
	opaque := func(format string, a ...any) peer {
		problem := fmt.Sprintf(format, a...)
		return peer{kind: peerOpaque, text: at, problem: at + " " + problem}
	}
	m, ok := objectOf(v)
	if !ok {
		return opaque("is not an object")
	}
	if field := unknownField(m, "ipBlock", "namespaceSelector", "podSelector"); field != "" {
		return opaque("has a field %s that is not known", field)
	}
	_, byPod := m["podSelector"]
	_, byNamespace := m["namespaceSelector"]
	if present(m, "ipBlock") {
		if present(m, "podSelector") || present(m, "namespaceSelector") {
			return opaque("has a block and a selector")
		}
		return readBlock(m["ipBlock"], at+" ipBlock", at)
	}
	if !byPod && !byNamespace {
		return opaque("has neither a block nor a selector")
	}
	namespace, problem := readSelector(m["namespaceSelector"], byNamespace, nil).requirements()
	if problem != "" {
		return opaque("namespaceSelector: %s", problem)
	}
	pod, problem := readSelector(m["podSelector"], byPod, nil).requirements()
	if problem != "" {
		return opaque("podSelector: %s", problem)
	}
	text := at
	if byNamespace {
		text += " namespaceSelector " + requirementText(namespace)
	} else {
		namespace = s.ownNamespace()
	}
	if byPod {
		text += " podSelector " + requirementText(pod)
	}
	return peer{kind: peerPods, namespace: namespace, pod: pod, text: text}
}

// readBlock reads a CIDR with holes. A hole limits its own block only: another peer, rule or policy may admit it.
func readBlock(v any, text, at string) peer {
	opaque := func(format string, a ...any) peer {
		return peer{kind: peerOpaque, text: at, problem: text + " " + fmt.Sprintf(format, a...)}
	}
	m, ok := objectOf(v)
	if !ok {
		return opaque("is not an object")
	}
	if field := unknownField(m, "cidr", "except"); field != "" {
		return opaque("has %s, and what that holds is not known here", field)
	}
	cidr, _ := m["cidr"].(string)
	block, err := parseCIDR(cidr)
	if err != nil {
		return opaque("has cidr %s, which is no CIDR", jsonText(m["cidr"]))
	}
	except, ok := stringList(m, "except")
	if !ok {
		return opaque("except is not a list of CIDRs")
	}
	holes := make([]netip.Prefix, 0, len(except))
	for _, e := range except {
		hole, err := parseCIDR(e)
		if err != nil {
			return opaque("has %q in except, which is no CIDR", excerpt(e, 60))
		}
		holes = append(holes, hole)
	}
	return peer{kind: peerBlock, block: blockSet(block, holes), text: text + " " + excerpt(blockText(cidr, except), 300)}
}

// contains reports whether the peer, as an allowance, admits all of another one. Blocks are not compared here, because several
// allowances may cover one of them together.
func (p peer) contains(other peer) bool {
	switch {
	case p.kind == peerEverything:
		return true
	case p.kind == peerPods && other.kind == peerPods:
		return implies(other.namespace, p.namespace) && implies(other.pod, p.pod)
	case p.kind == peerName || p.kind == peerPattern:
		set := nameSet{}
		if p.kind == peerName {
			set.addName(p.name)
		} else {
			set.addPattern(p.name)
		}
		return other.kind == peerName && set.hasName(other.name) || other.kind == peerPattern && set.hasPattern(other.name)
	}
	return false
}

// admitsNothing reports whether the peer is certainly no one.
func (p peer) admitsNothing() bool {
	return p.kind == peerBlock && len(p.block) == 0 || p.kind == peerEntity && strings.EqualFold(p.name, "none")
}
