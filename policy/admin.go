package policy

import (
	"fmt"

	"github.com/sandlot-go/sandlot/k8s"
)

// The policies of a cluster's administrator (https://network-policy-api.sigs.k8s.io/). An Allow of the first overrides what
// NetworkPolicies deny; the second applies only where no NetworkPolicy does.
var (
	AdminNetworkPolicies = k8s.Resource{Group: "policy.networking.k8s.io", Version: "v1alpha1", Plural: "adminnetworkpolicies",
		Kind: "AdminNetworkPolicy", ClusterScoped: true}
	BaselineAdminNetworkPolicies = k8s.Resource{Group: "policy.networking.k8s.io", Version: "v1alpha1", Plural: "baselineadminnetworkpolicies",
		Kind: "BaselineAdminNetworkPolicy", ClusterScoped: true}
)

// adminDocument reads an AdminNetworkPolicy. It never counts as denying the rest: only what its rules deny is denied.
func adminDocument(item k8s.Object, index int, d direction, kind string) document {
	doc := document{kind: kind, name: itemName(item, index), item: item, admin: true, at: d.name, deleting: item.Deleting()}
	if doc.problem = misplaced(item, kind, ""); doc.problem != "" {
		return doc
	}
	spec, ok := objectOf(item["spec"])
	if !ok {
		doc.problem = "spec is not an object"
		return doc
	}
	if field := unknownField(spec, "priority", "subject", "ingress", "egress"); field != "" {
		doc.problem = fmt.Sprintf("spec has a field %s that is not known", field)
		return doc
	}
	subject, ok := objectOf(spec["subject"])
	if !ok {
		doc.problem = "spec.subject is not an object"
		return doc
	}
	if doc.selector = readAdminSubject(subject); doc.selector.problem != "" {
		doc.problem = doc.selector.problem
		return doc
	}
	rules, ok := listField(spec, d.name)
	if !ok {
		doc.problem = "spec." + d.name + " is not a list"
		return doc
	}
	for i, v := range rules {
		m, ok := objectOf(v)
		if !ok {
			doc.problem = fmt.Sprintf("spec.%s[%d] is not an object", d.name, i)
			return doc
		}
		switch m["action"] {
		case "Allow", "Deny", "Pass":
		default:
			doc.problem = fmt.Sprintf("spec.%s[%d].action is %s", d.name, i, jsonText(m["action"]))
			return doc
		}
	}
	doc.rules = rules
	return doc
}

// yields reports whether the document applies only where no other one isolates the pod: a pod that nothing else isolates is
// refused anyway.
func (d document) yields() bool { return d.kind == BaselineAdminNetworkPolicies.Kind }

const yieldsText = "applies only where no other policy isolates the pod"

// Keys of conditions on the namespace of a subject are marked, so that they are not looked up among the pod's labels.
const namespaceMark = "\x00namespace:"

// readAdminSubject reads what an administrator's policy is about: namespaces, or pods of namespaces.
func readAdminSubject(m map[string]any) selector {
	mark := func(s selector) selector {
		for i := range s.labels {
			s.labels[i].key = namespaceMark + s.labels[i].key
		}
		for i := range s.expressions {
			s.expressions[i].key = namespaceMark + s.expressions[i].key
		}
		return s
	}
	namespaces, byNamespace := m["namespaces"]
	pods, byPods := m["pods"]
	if unknownField(m, "namespaces", "pods") != "" || byNamespace == byPods {
		return selector{problem: "spec.subject has not exactly one of namespaces and pods"}
	}
	if byNamespace {
		return mark(readSelector(namespaces, true, nil))
	}
	of, ok := objectOf(pods)
	if !ok || unknownField(of, "namespaceSelector", "podSelector") != "" {
		return selector{problem: "spec.subject.pods is not a namespaceSelector and a podSelector"}
	}
	namespace := mark(readSelector(of["namespaceSelector"], true, nil))
	pod := readSelector(of["podSelector"], true, nil)
	switch {
	case namespace.problem != "":
		return namespace
	case pod.problem != "":
		return pod
	}
	return selector{labels: append(namespace.labels, pod.labels...), expressions: append(namespace.expressions, pod.expressions...)}
}

// readAdminRule reads a rule. Only an Allow admits anything; a Deny or Pass before it may take that away again, which is not
// relied on.
func readAdminRule(v any, d direction, s scope) rule {
	m, _ := objectOf(v)
	if m["action"] != "Allow" {
		return rule{}
	}
	return readAdminPeers(m, d, s)
}

// readAdminPeers reads the peers and ports of a rule, whatever its action is.
func readAdminPeers(m map[string]any, d direction, s scope) rule {
	if field := unknownField(m, "name", "action", "ports", d.peers); field != "" {
		return rule{problems: []string{fmt.Sprintf("the rule has a field %s that is not known", field)}}
	}
	peers, ok := listField(m, d.peers)
	if !ok || len(peers) == 0 {
		return rule{problems: []string{d.peers + " is not a list of peers"}}
	}
	ports, problem := readAdminPorts(m, s.ports)
	if problem != "" {
		return rule{problems: []string{problem}}
	}
	var out rule
	for i, v := range peers {
		for _, p := range readAdminPeer(v, fmt.Sprintf("%s[%d]", d.peers, i)) {
			out.grants = append(out.grants, grant{peer: p, ports: ports})
		}
	}
	return out
}

func readAdminPeer(v any, at string) []peer {
	opaque := func(problem string) []peer {
		return []peer{{kind: peerOpaque, text: at, problem: at + " " + problem}}
	}
	m, ok := objectOf(v)
	if !ok || len(m) != 1 {
		return opaque("has not exactly one kind of peer")
	}
	switch {
	case present(m, "namespaces"):
		namespace, problem := readSelector(m["namespaces"], true, nil).requirements()
		if problem != "" {
			return opaque(problem)
		}
		return []peer{{kind: peerPods, namespace: namespace, text: at + " namespaces " + requirementText(namespace)}}
	case present(m, "pods"):
		of, ok := objectOf(m["pods"])
		if !ok || unknownField(of, "namespaceSelector", "podSelector") != "" {
			return opaque("is not a namespaceSelector and a podSelector")
		}
		namespace, problem := readSelector(of["namespaceSelector"], true, nil).requirements()
		pod, podProblem := readSelector(of["podSelector"], true, nil).requirements()
		if problem+podProblem != "" {
			return opaque(problem + podProblem)
		}
		return []peer{{kind: peerPods, namespace: namespace, pod: pod,
			text: fmt.Sprintf("%s pods %s of namespaces %s", at, requirementText(pod), requirementText(namespace))}}
	case present(m, "networks"):
		blocks, ok := stringList(m, "networks")
		if !ok {
			return opaque("networks is not a list of CIDRs")
		}
		var out []peer
		for _, block := range blocks {
			out = append(out, readBlock(map[string]any{"cidr": block}, at+" networks", at))
		}
		return out
	case present(m, "nodes"):
		if _, problem := readSelector(m["nodes"], true, nil).requirements(); problem != "" {
			return opaque(problem)
		}
		return []peer{{kind: peerNodes, text: at + " nodes"}}
	}
	return opaque("is of a kind that is not known")
}

func readAdminPorts(m map[string]any, names portNames) (portReading, string) {
	list, ok := listField(m, "ports")
	if !ok {
		return portReading{}, "ports is not a list"
	}
	if len(list) == 0 {
		return portReading{ports: allPorts()}, ""
	}
	var out portReading
	for _, v := range list {
		entry, ok := objectOf(v)
		if !ok || len(entry) != 1 {
			return portReading{}, "an entry of ports has not exactly one kind of port"
		}
		switch {
		case present(entry, "portNumber"):
			number, _ := objectOf(entry["portNumber"])
			protos, known := ciliumProtocols(number["protocol"])
			if !known || number["protocol"] == nil || number["port"] == nil {
				return portReading{}, "a portNumber is not a protocol and a port"
			}
			readPort(map[string]any{"port": number["port"]}, protos, portNames{}, &out)
		case present(entry, "portRange"):
			r, _ := objectOf(entry["portRange"])
			protos, known := ciliumProtocols(r["protocol"])
			if !known || r["start"] == nil || r["end"] == nil {
				return portReading{}, "a portRange is not a protocol, a start and an end"
			}
			readPort(map[string]any{"port": r["start"], "endPort": r["end"]}, protos, portNames{}, &out)
		case present(entry, "namedPort"):
			name, _ := entry["namedPort"].(string)
			names.resolve(name, []proto{protoTCP, protoUDP, protoSCTP}, &out)
		default:
			return portReading{}, "an entry of ports is of a kind that is not known"
		}
	}
	return out, ""
}
