package policy

import (
	"fmt"
	"strings"
)

// Labels that tell the pods of one template apart. Two sandboxes never share their values.
var instanceLabels = map[string]bool{
	"agents.x-k8s.io/sandbox-name-hash": true,
	"agents.x-k8s.io/claim-uid":         true,
}

// sourceJudge says which sources are open to everyone, or to the other sandboxes of the pod's namespace.
type sourceJudge struct {
	pod           Pod
	perSandboxKey string // a label with another value on every sandbox; "" for none
	allowSiblings bool
	podNetwork    addrSet
}

// open reports whether a source stands for anyone, and why. A block is judged together with all other blocks, by their size.
func (j sourceJudge) open(p peer) (tri, string) {
	switch p.kind {
	case peerEverything:
		why := "admits everyone"
		if p.note != "" {
			why += ": " + p.note
		}
		return yes, why
	case peerBlock:
		if !j.allowSiblings && len(p.block.both(j.podNetwork)) > 0 {
			return yes, p.text + " holds addresses of the pod network, and so of other sandboxes"
		}
		return no, ""
	case peerPods:
		return j.openPods(p)
	case peerEntity:
		return openEntity(p)
	case peerNodes:
		return no, ""
	case peerOpaque:
		return unknown, p.problem
	}
	return unknown, p.text + " is no source"
}

// openEntity judges Cilium's groups of sources. Nodes and the API server are not strangers to a sandbox: it runs on one and is
// made by the other.
func openEntity(p peer) (tri, string) {
	switch strings.ToLower(p.name) {
	case "all", "world", "world-ipv4", "world-ipv6", "cluster":
		return yes, p.text + " is everyone"
	case "none", "host", "remote-node", "kube-apiserver", "health":
		return no, ""
	}
	return unknown, p.text + " may be anyone"
}

func (j sourceJudge) openPods(p peer) (tri, string) {
	if broad(p.namespace, namespaceNameKey) && broad(p.pod) {
		return yes, p.text + " admits pods of any namespace"
	}
	if j.allowSiblings {
		return no, ""
	}
	inNamespace := matchAll(p.namespace, j.namespaceLabel)
	isSibling := matchAll(p.pod, j.siblingLabel)
	switch min(inNamespace, isSibling) {
	case yes:
		return yes, p.text + " admits the other sandboxes of this namespace"
	case unknown:
		return unknown, p.text + " may admit the other sandboxes of this namespace: it depends on labels that are not known here; select the namespace by " + namespaceNameKey
	}
	return no, ""
}

func matchAll(requirements []requirement, lookup labelLookup) tri {
	answer := yes
	for _, r := range requirements {
		a, _ := r.match(lookup)
		answer = min(answer, a)
	}
	return answer
}

// namespaceLabel looks up a label of the pod's own namespace.
func (j sourceJudge) namespaceLabel(key string) (string, bool, bool) {
	return j.pod.namespaceLabel(key)
}

func (p Pod) namespaceLabel(key string) (string, bool, bool) {
	if key == namespaceNameKey {
		return p.Namespace, true, true
	}
	value, ok := p.NamespaceLabels[key]
	return value, ok, p.NamespaceLabels != nil
}

// siblingLabel looks up a label of another sandbox of the same template: this pod's labels, but for those that tell pods
// apart. Their value is one that no selector names.
func (j sourceJudge) siblingLabel(key string) (string, bool, bool) {
	if instanceLabels[key] || key == j.perSandboxKey && key != "" {
		return "\x00", true, true
	}
	if strings.HasPrefix(key, ciliumDerivedPrefix) {
		return "", false, false
	}
	value, ok := j.pod.Labels[key]
	return value, ok, true
}

// judgeRule reports whether a rule opens the agent's port, and returns the ranges of the blocks that it admits there, in any
// order.
func (j sourceJudge) judgeRule(r rule, port int) (worst finding, admitted addrSet) {
	worst = finding{verdict: no}
	raise := func(verdict tri, g grant, detail string) {
		if verdict > worst.verdict {
			worst = finding{verdict: verdict, peer: g.peer.text, detail: detail}
		}
	}
	for _, g := range r.grants {
		covers := g.ports.ports.contains(protoTCP, port)
		if g.ports.unknown != "" {
			// A port that cannot be read is not let pass, whoever the peer is.
			raise(unknown, g, g.ports.unknown)
		}
		if !covers {
			continue
		}
		if g.peer.kind == peerBlock {
			admitted = append(admitted, g.peer.block...)
		}
		open, detail := j.open(g.peer)
		raise(open, g, detail)
	}
	if len(r.problems) > 0 && worst.verdict == no {
		worst = finding{verdict: unknown, detail: r.problems[0]}
	}
	return worst, admitted
}

// wideText says that a policy's blocks, with those of the policies before it, are open to everyone.
func wideText(s addrSet) string {
	return fmt.Sprintf("the blocks that are admitted add up to more than any host's network, %s among them", s.example())
}

// judge returns the judge of sources for a pod.
func (i Ingress) judge(pod Pod, perSandboxKey string) sourceJudge {
	j := sourceJudge{pod: pod, perSandboxKey: perSandboxKey, allowSiblings: i.InsecureAllowSiblings}
	for _, text := range i.PodCIDRs {
		if p, err := parseCIDR(text); err == nil {
			j.podNetwork = j.podNetwork.plus(setOf(p))
		}
	}
	return j
}
