package policy

import (
	"net/netip"

	"github.com/sandlot-go/sandlot/k8s"
)

// What the tests of the pure parts reach for. Everything here is used as it is by the package itself.

var (
	CanonicalHost = canonicalHost
	HostEntries   = hostEntries
	ParseCIDR     = parseCIDR
	DirectLabels  = directLabels
)

func ValidateEgress(e *Egress, workspace bool) error { return e.clone().validate(workspace) }

func PolicyName(e *Egress, template string) (string, error) { return e.clone().policyName(template) }

func PodLabels(e *Egress, extra map[string]string) (map[string]string, error) {
	return e.clone().podLabels(extra)
}

type Target struct {
	Namespace, Name string
	Selector        map[string]string
	Owner           map[string]any
}

func Translate(e *Egress, t Target, hosts []string) (k8s.Object, error) {
	return e.clone().translate(target{namespace: t.Namespace, name: t.Name, selector: t.Selector, owner: t.Owner}, hosts)
}

type Policies struct{ Core, Cilium, Clusterwide, Admin, Baseline []k8s.Object }

func (p Policies) inside() policies {
	return policies{core: p.Core, cilium: p.Cilium, clusterwide: p.Clusterwide, admin: p.Admin, baseline: p.Baseline}
}

type Outcome struct {
	Refusal  Refusal
	Culprit  *Examined
	Examined []Examined
}

func outcomeOf(o outcome) Outcome {
	out := Outcome{Refusal: o.refusal, Examined: o.examined}
	if o.culprit >= 0 {
		out.Culprit = &o.examined[o.culprit]
	}
	return out
}

func JudgeUnion(manifest k8s.Object, p Policies, engine Engine, pod Pod) (Outcome, error) {
	a, err := allowanceOf(manifest, pod.Namespace)
	if err != nil {
		return Outcome{}, err
	}
	return outcomeOf(judgeUnion(manifest, a, p.inside(), engine, pod)), nil
}

func JudgeIngress(in Ingress, perSandboxKey string, p Policies, engine Engine, pod Pod, port int) Outcome {
	return outcomeOf(judgeIngress(in.judge(pod, perSandboxKey), p.inside(), engine, port))
}

func CompareNamed(want, live k8s.Object) (field, reason string) {
	if d := compareNamed(want, live); d != nil {
		return d.field, d.reason
	}
	return "", ""
}

// MatchSelector matches a selector of either flavour: 0 no, 1 unknown, 2 yes.
func MatchSelector(v any, present, cilium bool, pod Pod) int {
	s := readSelector(v, present, nil)
	if cilium {
		s = readSelector(v, present, ciliumKey)
	}
	answer, _ := s.match(identity(pod, cilium))
	return int(answer)
}

// BlockContains reports whether a block with holes admits an address.
func BlockContains(block netip.Prefix, holes []netip.Prefix, a netip.Addr) bool {
	return blockSet(block, holes).contains(a)
}

// SetContains and SetOverlaps relate the address sets of two blocks.
func SetContains(outer, inner netip.Prefix) bool { return len(setOf(inner).minus(setOf(outer))) == 0 }

func SetOverlaps(a, b netip.Prefix) bool { return len(setOf(a).both(setOf(b))) > 0 }

// FenceRefuses holds a request against the rules of the fence, as the one for the given user.
func FenceRefuses(user, fenced, verb string, o k8s.Object) (rule int, why string) {
	a := admission{user: user, fenced: fenced, labelKey: DefaultPerSandboxLabelKey, dns: (*DNSServer)(nil).withDefaults()}
	return a.refusedBy(verb, o)
}

// Ports is a set of ports of one protocol as a test writes it: pairs of first and last.
func portsOf(spans [][2]int) portSet {
	var s portSet
	for _, r := range spans {
		s.add(protoTCP, span{r[0], r[1]})
	}
	return s
}

// PortsMinusPlus reports whether a port is in a minus b, and in a plus b.
func PortsMinusPlus(a, b [][2]int, port int) (minus, plus bool) {
	x, y := portsOf(a), portsOf(b)
	return x.minus(y).contains(protoTCP, port), x.plus(y).contains(protoTCP, port)
}

// AddressesMinusBoth reports whether an address is in a minus b, in a plus b, and in both.
func AddressesMinusBoth(a, b []netip.Prefix, addr netip.Addr) (minus, plus, both bool) {
	x, y := setOf(a...), setOf(b...)
	return x.minus(y).contains(addr), x.plus(y).contains(addr), x.both(y).contains(addr)
}

// Implies reports whether one selector is proved to be inside another; ok is false when one of them is not readable.
func Implies(inner, outer any) (implied, ok bool) {
	in, problem := readSelector(inner, true, nil).requirements()
	out, problem2 := readSelector(outer, true, nil).requirements()
	return implies(in, out), problem == "" && problem2 == ""
}

// LabelKeys returns whether a label of a key can matter to the policies.
func LabelKeys(objects ...k8s.Object) func(key string) bool {
	s := snapshot{policies: policies{core: objects}}
	return s.labelKeys().has
}
