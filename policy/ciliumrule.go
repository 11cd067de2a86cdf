package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cilium's labels of a pod's identity that are not labels of the pod.
const (
	ciliumNamespaceKey       = "io.kubernetes.pod.namespace"
	ciliumDerivedPrefix      = "io.cilium.k8s."
	ciliumNamespaceLabelsKey = "io.cilium.k8s.namespace.labels."
)

// ciliumKey drops the source of a label key. Only the sources k8s and any name labels of pods.
func ciliumKey(key string) (string, bool) {
	source, name, found := strings.Cut(key, ":")
	if !found {
		return key, true
	}
	return name, (source == "k8s" || source == "any") && name != ""
}

// The fields of a rule that name peers. Cilium refuses a rule with more than one of them.
var (
	ciliumEgressPeers  = []string{"toEndpoints", "toEntities", "toCIDR", "toCIDRSet", "toFQDNs", "toServices", "toGroups", "toNodes"}
	ciliumIngressPeers = []string{"fromEndpoints", "fromEntities", "fromCIDR", "fromCIDRSet", "fromNodes", "fromGroups"}
)

func ciliumPeerFields(d direction) []string {
	if d.name == egress.name {
		return ciliumEgressPeers
	}
	return ciliumIngressPeers
}

// readCiliumRule reads a rule of a CiliumNetworkPolicy (https://docs.cilium.io/en/stable/security/policy/language/).
func readCiliumRule(v any, d direction, s scope) rule {
	m, ok := objectOf(v)
	if !ok {
		return rule{problems: []string{"the rule is not an object"}}
	}
	fields := ciliumPeerFields(d)
	requires := d.peers + "Requires"
	if field := unknownField(m, append([]string{"toPorts", "icmps", "authentication", requires}, fields...)...); field != "" {
		return rule{problems: []string{fmt.Sprintf("the rule has a field %s that is not known", field)}}
	}
	var out rule
	var peers []peer
	used, mentioned := 0, ""
	for _, field := range fields {
		list, ok := listField(m, field)
		if !ok {
			return rule{problems: []string{field + " is not a list"}}
		}
		if present(m, field) {
			mentioned = field
		}
		if len(list) > 0 {
			used++
		}
		for i, item := range list {
			peers = append(peers, readCiliumPeer(item, field, fmt.Sprintf("%s[%d]", field, i), s))
		}
	}
	needs, ok := listField(m, requires)
	if !ok {
		return rule{problems: []string{requires + " is not a list"}}
	}
	switch {
	case used > 1:
		out.problems = append(out.problems, "the rule has more than one kind of peer, which Cilium refuses: the policy may not be in force")
	case used == 0 && len(needs) > 0:
		return rule{problems: []string{fmt.Sprintf("the rule has %s alone, which admits nothing by itself or everything, depending on the version", requires)}}
	case used == 0:
		any := peer{text: "every peer", note: "a rule without peers admits everything on its ports"}
		if mentioned != "" {
			any.note = fmt.Sprintf("%s is empty: newer versions of Cilium read that as nobody, older ones as everybody. Remove the rule or name the peers", mentioned)
		}
		peers = []peer{any}
	}
	accesses, problems := readCiliumPorts(m, s.cilium)
	out.problems = append(out.problems, problems...)
	for _, p := range peers {
		for _, a := range accesses {
			a.peer = p
			out.grants = append(out.grants, a)
		}
	}
	return out
}

// readCiliumPeer reads one item of one of the peer fields.
func readCiliumPeer(v any, field, at string, s scope) peer {
	opaque := func(format string, a ...any) peer {
		return peer{kind: peerOpaque, text: at, problem: at + " " + fmt.Sprintf(format, a...)}
	}
	switch kind := field[strings.IndexAny(field, "CEFGNS"):]; kind {
	case "Endpoints":
		return readEndpoints(v, at, s)
	case "Entities":
		name, ok := v.(string)
		if !ok {
			return opaque("is not a string")
		}
		return peer{kind: peerEntity, name: name, text: at + " entity " + excerpt(name, 40)}
	case "CIDR":
		text, ok := v.(string)
		if !ok {
			return opaque("is not a string")
		}
		return readBlock(map[string]any{"cidr": text}, at, at)
	case "CIDRSet":
		return readBlock(v, at, at)
	case "FQDNs":
		return readFQDN(v, at)
	case "Nodes":
		if _, problem := readSelector(v, true, ciliumKey).requirements(); problem != "" {
			return opaque("%s", problem)
		}
		return peer{kind: peerNodes, text: at + " nodes"}
	}
	return opaque("refers to something that is not part of the policy")
}

// readEndpoints reads a selector of pods. Without a namespace label it means the policy's own namespace.
func readEndpoints(v any, at string, s scope) peer {
	opaque := func(problem string) peer {
		return peer{kind: peerOpaque, text: at, problem: at + " " + problem}
	}
	if m, ok := objectOf(v); ok {
		if labels, ok := objectOf(m["matchLabels"]); ok {
			for _, key := range slices.Sorted(maps.Keys(labels)) {
				if source, name, found := strings.Cut(key, ":"); found && source == "reserved" {
					return peer{kind: peerEntity, name: name, text: at + " entity " + excerpt(name, 40)}
				}
			}
		}
	}
	all, problem := readSelector(v, true, ciliumKey).requirements()
	if problem != "" {
		return opaque(problem)
	}
	p := peer{kind: peerPods}
	for _, r := range all {
		label, ofNamespace := strings.CutPrefix(r.key, ciliumNamespaceLabelsKey)
		switch {
		case r.key == ciliumNamespaceKey:
			r.key = namespaceNameKey
			p.namespace = append(p.namespace, r)
		case ofNamespace:
			r.key = label
			p.namespace = append(p.namespace, r)
		default:
			p.pod = append(p.pod, r)
		}
	}
	named := slices.ContainsFunc(all, func(r requirement) bool { return r.key == ciliumNamespaceKey })
	if !named && s.namespace != "" {
		p.namespace = append(p.namespace, s.ownNamespace()...)
	}
	p.unbounded = named && broad(p.namespace) && broad(p.pod)
	p.text = fmt.Sprintf("%s pods %s of namespaces %s", at, requirementText(p.pod), requirementText(p.namespace))
	return p
}

func readFQDN(v any, at string) peer {
	m, ok := objectOf(v)
	if !ok {
		return peer{kind: peerOpaque, text: at, problem: at + " is not an object"}
	}
	name, byName := m["matchName"].(string)
	pattern, byPattern := m["matchPattern"].(string)
	switch {
	case unknownField(m, "matchName", "matchPattern") != "", byName == byPattern:
		return peer{kind: peerOpaque, text: at, problem: at + " has not exactly one of matchName and matchPattern"}
	case byName:
		return peer{kind: peerName, name: name, text: at + " matchName " + excerpt(name, 100)}
	}
	return peer{kind: peerPattern, name: pattern, text: at + " matchPattern " + excerpt(pattern, 100)}
}

// readCiliumPorts reads toPorts and icmps. Each entry of toPorts restricts lookups and TLS names for its own ports only.
func readCiliumPorts(m map[string]any, names portNames) (accesses []grant, problems []string) {
	entries, ok := listField(m, "toPorts")
	if !ok {
		return nil, []string{"toPorts is not a list"}
	}
	icmps, ok := listField(m, "icmps")
	if !ok {
		return nil, []string{"icmps is not a list"}
	}
	if len(icmps) > 0 {
		var icmp portSet
		icmp.add(protoOther, span{0, 0})
		accesses = append(accesses, grant{ports: portReading{ports: icmp}})
		if len(entries) > 0 {
			problems = append(problems, "the rule has toPorts and icmps, which Cilium refuses: the policy may not be in force")
		}
	}
	if len(entries) == 0 && len(icmps) == 0 {
		return []grant{{ports: portReading{ports: allPorts()}}}, nil
	}
	for i, v := range entries {
		entry, ok := objectOf(v)
		if !ok {
			problems = append(problems, fmt.Sprintf("toPorts[%d] is not an object", i))
			continue
		}
		if field := unknownField(entry, "ports", "rules", "serverNames", "terminatingTLS", "originatingTLS", "listener"); field != "" {
			problems = append(problems, fmt.Sprintf("toPorts[%d] has a field %s that is not known", i, field))
			continue
		}
		access, problem := readCiliumAccess(entry, names)
		if problem != "" {
			problems = append(problems, fmt.Sprintf("toPorts[%d]: %s", i, problem))
			continue
		}
		accesses = append(accesses, access)
	}
	return accesses, problems
}

func readCiliumAccess(entry map[string]any, names portNames) (grant, string) {
	list, ok := listField(entry, "ports")
	if !ok {
		return grant{}, "ports is not a list"
	}
	var out grant
	if len(list) == 0 {
		out.ports.ports = allPorts()
	}
	for _, v := range list {
		port, ok := objectOf(v)
		if !ok {
			return grant{}, "a port is not an object"
		}
		if field := unknownField(port, "port", "endPort", "protocol"); field != "" {
			return grant{}, fmt.Sprintf("a port has a field %s that is not known", field)
		}
		protos, ok := ciliumProtocols(port["protocol"])
		if !ok {
			out.ports.unknown = fmt.Sprintf("protocol %s is not known", jsonText(port["protocol"]))
			continue
		}
		if _, isText := port["port"].(string); !isText && present(port, "port") {
			out.ports.unknown = fmt.Sprintf("port %s is not a text", jsonText(port["port"]))
			continue
		}
		readPort(port, protos, names, &out.ports)
	}
	var problem string
	if out.dns, problem = readDNSNames(entry); problem != "" {
		return grant{}, problem
	}
	servers, ok := stringList(entry, "serverNames")
	if !ok {
		return grant{}, "serverNames is not a list of strings"
	}
	if len(servers) > 0 {
		out.sni = &nameSet{}
		for _, name := range servers {
			out.sni.addPattern(name)
		}
	}
	return out, ""
}

func ciliumProtocols(v any) ([]proto, bool) {
	name := "ANY"
	if v != nil {
		name, _ = v.(string)
	}
	switch strings.ToLower(name) {
	case "any":
		return []proto{protoTCP, protoUDP, protoAnySCTP}, true
	case "tcp":
		return []proto{protoTCP}, true
	case "udp":
		return []proto{protoUDP}, true
	case "sctp":
		return []proto{protoSCTP}, true
	case "icmp", "icmpv6", "vrrp", "igmp":
		return []proto{protoOther}, true
	}
	return nil, false
}
