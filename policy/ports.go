package policy

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// proto is a transport protocol as policies tell them apart.
type proto int

// The protocols. Cilium's ANY means TCP, UDP, and SCTP where the cluster has that turned on; protoAnySCTP is that SCTP, so that
// "port 53, protocol ANY" can be held against an allowance of TCP and UDP 53. protoOther is everything without ports, such
// as ICMP, which only a rule without any ports admits.
const (
	protoTCP proto = iota
	protoUDP
	protoSCTP
	protoAnySCTP
	protoOther
	protoCount
)

var protoNames = [protoCount]string{"TCP", "UDP", "SCTP", "SCTP", "other protocols"}

// span is a run of ports, both ends included.
type span struct{ from, to int }

const maxPort = 65535

// portSet is a set of ports per protocol: sorted, disjoint, not adjacent spans.
type portSet [protoCount][]span

func allPorts() portSet {
	var s portSet
	for p := range protoCount {
		s[p] = []span{{1, maxPort}}
	}
	s[protoOther] = []span{{0, 0}}
	return s
}

func (s *portSet) add(p proto, ports ...span) {
	s[p] = normalSpans(append(slices.Clone(s[p]), ports...))
}

// byFrom orders spans, by the one sort that every program has: an instance of slices.SortFunc is 10 KB.
type byFrom []span

func (s byFrom) Len() int           { return len(s) }
func (s byFrom) Less(i, j int) bool { return s[i].from < s[j].from }
func (s byFrom) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

func normalSpans(spans []span) []span {
	sort.Sort(byFrom(spans))
	var out []span
	for _, r := range spans {
		if last := len(out) - 1; last >= 0 && r.from <= out[last].to+1 {
			out[last].to = max(out[last].to, r.to)
			continue
		}
		out = append(out, r)
	}
	return out
}

func (s portSet) minus(other portSet) portSet {
	var out portSet
	for p := range protoCount {
		for _, r := range s[p] {
			from := r.from
			for _, o := range other[p] {
				if o.to < from || o.from > r.to {
					continue
				}
				if o.from > from {
					out[p] = append(out[p], span{from, o.from - 1})
				}
				from = o.to + 1
			}
			if from <= r.to {
				out[p] = append(out[p], span{from, r.to})
			}
		}
	}
	return out
}

func (s portSet) plus(other portSet) portSet {
	for p := range protoCount {
		s[p] = normalSpans(append(slices.Clone(s[p]), other[p]...))
	}
	return s
}

func (s portSet) empty() bool {
	for p := range protoCount {
		if len(s[p]) > 0 {
			return false
		}
	}
	return true
}

func (s portSet) contains(p proto, port int) bool {
	for _, r := range s[p] {
		if r.from <= port && port <= r.to {
			return true
		}
	}
	return p == protoSCTP && s.contains(protoAnySCTP, port)
}

// allowing returns the set as an allowance: allowed SCTP covers the SCTP of ANY, and so do TCP and UDP together, because
// ANY is how those two are written in Cilium.
func (s portSet) allowing() portSet {
	var tcp, udp portSet
	tcp[protoAnySCTP], udp[protoAnySCTP] = s[protoTCP], s[protoUDP]
	joint := tcp.minus(tcp.minus(udp))
	s.add(protoAnySCTP, s[protoSCTP]...)
	s.add(protoAnySCTP, joint[protoAnySCTP]...)
	return s
}

// fromAny returns the set with the SCTP of ANY as SCTP, for our own rules that say ANY.
func (s portSet) fromAny() portSet {
	s.add(protoSCTP, s[protoAnySCTP]...)
	return s
}

// text names the set in a message.
func (s portSet) text() string {
	if s.minus(allPorts()).empty() && allPorts().minus(s).empty() {
		return "every port"
	}
	var parts []string
	seen := make(map[string]bool)
	for p := range protoCount {
		for _, r := range s[p] {
			part := fmt.Sprintf("%s %d-%d", protoNames[p], r.from, r.to)
			switch {
			case p == protoOther:
				part = protoNames[p]
			case r.from == r.to:
				part = fmt.Sprintf("%s %d", protoNames[p], r.from)
			case r.from == 1 && r.to == maxPort:
				part = "every " + protoNames[p] + " port"
			}
			if !seen[part] {
				seen[part] = true
				parts = append(parts, part)
			}
		}
	}
	const most = 6
	if len(parts) > most {
		parts = append(parts[:most], "…")
	}
	return strings.Join(parts, ", ")
}

// portReading is what the ports of a rule say: those that are certain, and why there may be more.
type portReading struct {
	ports   portSet
	unknown string
	ranged  bool // by an endPort, which some network plugins ignore
}

// portName is a port by name, resolved by the container ports of the pod it stands for. A nil resolver means that those are
// not known. strict says that a name no container has opens nothing; Cilium also takes well-known service names.
type portNames struct {
	of     *[]ContainerPort
	strict bool
}

// resolve adds the ports that the name stands for.
func (n portNames) resolve(name string, protos []proto, out *portReading) {
	if len(name) > 15 || !isWord(name) || strings.Trim(name, "0123456789") == "" {
		out.unknown = fmt.Sprintf("port %q is neither a number nor a name", excerpt(name, 40))
		return
	}
	if n.of == nil {
		out.unknown = fmt.Sprintf("port %q is a name, and what it stands for is not known here", name)
		return
	}
	found := false
	for _, c := range *n.of {
		if c.Name != name {
			continue
		}
		protocol := c.Protocol
		if protocol == "" {
			protocol = "TCP"
		}
		for _, p := range protos {
			if protoNames[p] == protocol && c.Port >= 1 && c.Port <= maxPort {
				out.ports.add(p, span{c.Port, c.Port})
				found = true
			}
		}
	}
	if !found && !n.strict {
		out.unknown = fmt.Sprintf("port %q is no port of the pod's containers, and may be a well-known service", name)
	}
}

// readCorePorts reads the ports of a rule of a NetworkPolicy. An absent or empty list is every port.
func readCorePorts(rule map[string]any, names portNames) portReading {
	list, ok := listField(rule, "ports")
	if !ok {
		return portReading{unknown: "ports is not a list"}
	}
	if len(list) == 0 {
		return portReading{ports: allPorts()}
	}
	var out portReading
	for _, v := range list {
		entry, ok := objectOf(v)
		if !ok {
			out.unknown = "an entry of ports is not an object"
			continue
		}
		if field := unknownField(entry, "protocol", "port", "endPort"); field != "" {
			out.unknown = fmt.Sprintf("an entry of ports has a field %s that is not known", field)
			continue
		}
		protocol := "TCP"
		if present(entry, "protocol") {
			protocol, _ = entry["protocol"].(string)
		}
		p := proto(slices.Index(protoNames[:protoAnySCTP], protocol))
		if p < 0 {
			out.unknown = fmt.Sprintf("protocol %s is none of TCP, UDP and SCTP", jsonText(entry["protocol"]))
			continue
		}
		readPort(entry, []proto{p}, names, &out)
	}
	return out
}

// readPort adds the port of an entry, which Cilium writes as a text. Port 0 is every port: Cilium says so, and no server stores it for the others.
func readPort(entry map[string]any, protos []proto, names portNames, out *portReading) {
	add := func(r span) {
		for _, p := range protos {
			out.ports.add(p, r)
		}
	}
	end, hasEnd := int64(0), present(entry, "endPort")
	if hasEnd {
		var ok bool
		if end, ok = wholeNumber(entry["endPort"]); !ok || end < 0 || end > maxPort {
			out.unknown = fmt.Sprintf("endPort %s is no port", jsonText(entry["endPort"]))
			return
		}
		hasEnd = end != 0
	}
	if !present(entry, "port") {
		if hasEnd {
			out.unknown = "endPort without port"
			return
		}
		add(span{1, maxPort})
		return
	}
	start, ok := wholeNumber(entry["port"])
	if !ok {
		text, isString := entry["port"].(string)
		if start, ok = decimal(text); !ok {
			switch {
			case !isString:
				out.unknown = fmt.Sprintf("port %s is no port", jsonText(entry["port"]))
			case hasEnd:
				out.unknown = fmt.Sprintf("port %q is a name and has an endPort", excerpt(text, 40))
			default:
				names.resolve(text, protos, out)
			}
			return
		}
	}
	switch {
	case start < 0 || start > maxPort:
		out.unknown = fmt.Sprintf("port %d is no port", start)
	case start == 0:
		add(span{1, maxPort})
	case hasEnd && end < start:
		out.unknown = fmt.Sprintf("endPort %d is before port %d", end, start)
	case hasEnd:
		add(span{int(start), int(end)})
		out.ranged = end > start
	default:
		add(span{int(start), int(start)})
	}
}
