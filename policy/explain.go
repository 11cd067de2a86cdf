package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sandlot-go/sandlot/k8s"
)

// Openness is the answer of [Explain] for one direction.
type Openness string

// The answers. Unknown is for what cannot be said from the policies and the question.
const (
	Open    Openness = "open"
	Closed  Openness = "closed"
	Unknown Openness = "unknown"
)

// Question is what [Explain] is asked about a pod.
type Question struct {
	Pod    Pod    // Namespace is required
	Engine Engine // zero: Core
	// To is a destination. Nil: whether anything is let out beyond Against.
	To *Endpoint
	// Against is the configuration that egress is held against when To is nil. Nil: a zero Egress, which denies all.
	Against *Egress
	// Template is the template that Against is for. Zero: the value of the pod's template label.
	Template string
	// From is a source. Nil: whether the agent's port is open to anyone, or to other sandboxes.
	From      *Endpoint
	AgentPort int // zero: DefaultAgentPort
	Ingress   Ingress
}

// Endpoint is the other side of a connection: an address, and what is known of it.
type Endpoint struct {
	Addr     netip.Addr
	Port     int    // of a destination
	Protocol string // of a destination: TCP, UDP or SCTP; zero: TCP
	Name     string // the DNS name that the pod asked for, for policies by name; zero: not known
	Pod      *PeerPod
	// Outside says that the address is not that of a pod. A pod's address can look like any other.
	Outside bool
}

// PeerPod is a pod on the other side.
type PeerPod struct {
	Namespace       string
	Labels          map[string]string
	NamespaceLabels map[string]string // nil: only the namespace's name is known
}

// Answer is what the policies do in one direction.
type Answer struct {
	Verdict  Openness   `json:"verdict"`
	Text     string     `json:"text"` // one line: which policy, rule and peer, or what is missing
	Examined []Examined `json:"examined"`
}

// Explanation is the answer to a Question.
type Explanation struct {
	Egress  Answer   `json:"egress"`
	Ingress Answer   `json:"ingress"`
	Notes   []string `json:"notes,omitempty"`
}

// Explain answers a question from policies alone, without a cluster. Objects may be lists, are told apart by their kind, and
// belong to the pod's namespace unless they say otherwise.
func Explain(objects []k8s.Object, q Question) (Explanation, error) {
	if q.Engine == "" {
		q.Engine = Core
	}
	if q.AgentPort == 0 {
		q.AgentPort = DefaultAgentPort
	}
	if err := q.validate(); err != nil {
		return Explanation{}, err
	}
	sorted, notes := sortObjects(objects, q.Engine, q.Pod.Namespace)
	out := Explanation{Notes: notes}
	if q.To != nil {
		out.Egress = q.reaches(sorted, egress, *q.To)
	} else {
		var err error
		if out.Egress, err = q.widens(sorted); err != nil {
			return Explanation{}, err
		}
	}
	if q.From != nil {
		out.Ingress = q.reaches(sorted, ingress, *q.From)
	} else {
		out.Ingress = q.exposed(sorted)
	}
	return out, nil
}

func (q Question) validate() error {
	if err := q.Ingress.validate(); err != nil {
		return err
	}
	switch {
	case q.Engine != Core && q.Engine != Cilium:
		return invalidConfig("engine", string(q.Engine), "is not core or cilium")
	case !isSubdomain(q.Pod.Namespace):
		return invalidConfig("pod.namespace", q.Pod.Namespace, "is no namespace name")
	case q.AgentPort < 1 || q.AgentPort > maxPort:
		return invalidConfig("agentPort", fmt.Sprint(q.AgentPort), "is not between 1 and 65535")
	}
	for _, e := range []*Endpoint{q.To, q.From} {
		if e == nil {
			continue
		}
		if _, known := e.proto(); !known {
			return invalidConfig("protocol", e.Protocol, "is none of TCP, UDP and SCTP")
		}
		if !e.Addr.IsValid() && e.Pod == nil {
			return invalidConfig("address", "", "is missing")
		}
	}
	if q.To != nil && (q.To.Port < 1 || q.To.Port > maxPort) {
		return invalidConfig("port", fmt.Sprint(q.To.Port), "is not between 1 and 65535")
	}
	return nil
}

func (e Endpoint) proto() (proto, bool) {
	if e.Protocol == "" {
		return protoTCP, true
	}
	i := slices.Index(protoNames[:protoAnySCTP], strings.ToUpper(e.Protocol))
	return proto(max(i, 0)), i >= 0
}

// sortObjects sorts objects by kind and says which ones are not looked at.
func sortObjects(objects []k8s.Object, engine Engine, namespace string) (policies, []string) {
	var p policies
	var notes []string
	skipped := map[string]int{}
	var add func(o k8s.Object)
	add = func(o k8s.Object) {
		kind := o.Text("kind")
		if base, isList := strings.CutSuffix(kind, "List"); isList {
			for _, v := range o.List("items") {
				item, ok := objectOf(v)
				if !ok {
					item = map[string]any{}
				}
				if item["kind"] == nil && base != "" {
					item = k8s.Object(item).Clone()
					item["kind"] = base
				}
				add(item)
			}
			return
		}
		list := p.listOf(kind)
		switch ns := o.Field("metadata", "namespace"); {
		case list == nil:
			skipped[kind]++
		case engine == Core && strings.HasPrefix(kind, "Cilium"):
			skipped[kind+" (engine core)"]++
		case ns != nil && ns != namespace && (list == &p.core || list == &p.cilium):
			skipped[fmt.Sprintf("%s of another namespace", kind)]++
		default:
			*list = append(*list, o)
		}
	}
	for _, o := range objects {
		add(o)
	}
	for kind, n := range skipped {
		if kind == "" {
			kind = "object without a kind"
		}
		notes = append(notes, fmt.Sprintf("not judged: %d %s", n, kind))
	}
	slices.Sort(notes)
	return p, notes
}

func (p *policies) listOf(kind string) *[]k8s.Object {
	switch kind {
	case k8s.NetworkPolicies.Kind:
		return &p.core
	case k8s.CiliumNetworkPolicies.Kind:
		return &p.cilium
	case k8s.CiliumClusterwideNetworkPolicies.Kind:
		return &p.clusterwide
	case AdminNetworkPolicies.Kind:
		return &p.admin
	case BaselineAdminNetworkPolicies.Kind:
		return &p.baseline
	}
	return nil
}

// widens holds what is let out against a configuration.
func (q Question) widens(p policies) (Answer, error) {
	e := q.Against.clone()
	if e == nil {
		e = (&Egress{}).clone()
	}
	if e.Engine != q.Engine && !e.Policy.Kind().named() {
		e.Engine = q.Engine
	}
	if err := e.validate(false); err != nil {
		return Answer{}, err
	}
	template := q.Template
	if template == "" {
		template = q.Pod.Labels[TemplateLabelKey]
	}
	if template == "" {
		template = "template"
	}
	var hosts []string
	switch policy := e.Policy.(type) {
	case Static:
		hosts = policy.AllowedHosts
	case Resolver:
		return Answer{}, invalidPolicy("policy", "of kind resolver cannot be explained without its hosts; use static")
	}
	t, err := e.target(q.Pod.Namespace, template)
	if err != nil {
		return Answer{}, err
	}
	manifest, err := e.translate(t, hosts)
	if err != nil {
		return Answer{}, err
	}
	a, err := allowanceOf(manifest, q.Pod.Namespace)
	if err != nil {
		return Answer{}, err
	}
	o := judgeUnion(manifest, a, p, q.Engine, q.Pod)
	refusal := o.refusalError(nil)
	if refusal == nil {
		return Answer{Closed, fmt.Sprintf("closed: what is let out is within %s", e.Policy.Kind()), o.examined}, nil
	}
	refusal.Direction = egress.name
	text := fmt.Sprintf("%s; asked is %s", refusal.summary(), e.Policy.Kind())
	return q.answer(o, text), nil
}

// exposed says whether the agent's port is open to anyone.
func (q Question) exposed(p policies) Answer {
	o := judgeIngress(q.Ingress.judge(q.Pod, ""), p, q.Engine, q.AgentPort)
	refusal := o.refusalError(nil)
	if refusal == nil {
		return Answer{Closed, fmt.Sprintf("closed: agent port %d is closed to all but the peers that are named", q.AgentPort), o.examined}
	}
	refusal.Direction, refusal.AgentPort = ingress.name, q.AgentPort
	return q.answer(o, refusal.summary())
}

func (q Question) answer(o outcome, text string) Answer {
	verdict := Open
	if o.refusal == PolicyNotEvaluable {
		verdict = Unknown
	}
	return Answer{verdict, string(verdict) + ": " + text, o.examined}
}
