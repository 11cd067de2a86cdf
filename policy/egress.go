package policy

import "maps"

// Engine says which policy objects the cluster's network plugin acts on.
type Engine string

// The engines. The zero Engine is Core.
const (
	Core   Engine = "core"   // NetworkPolicy
	Cilium Engine = "cilium" // NetworkPolicy, CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy
)

// Verify says how much is read to prove the boundary.
type Verify string

// The ways to verify. The zero Verify is Union.
const (
	// Union judges every policy that selects the pod.
	Union Verify = "union"
	// NamedObjectOnly compares one object by name. Another policy may open anything and it is not noticed.
	NamedObjectOnly Verify = "named-object-only"
)

// Egress is what may leave a sandbox. The zero Egress denies all; a nil *Egress is no boundary, and none is checked.
type Egress struct {
	Policy            Policy      // nil: DenyAll
	Engine            Engine      // zero: Core
	NetworkPolicyName string      // the object to compare; zero: <template>-egress, or <template>-<profile>-egress
	Verify            Verify      // zero: Union
	CiliumNarrowing   *Narrowing  // nil: none. Static and Resolver only
	Profile           string      // a label value that tells apart sandboxes of one template; zero: none
	ProfileLabelKey   string      // zero: DefaultProfileLabelKey
	PerSandbox        *PerSandbox // nil: no policies of single sandboxes
	DNS               *DNSServer  // nil: pods k8s-app=kube-dns of kube-system, port 53
}

// DNSServer is where the cluster's resolver runs. The translation of every kind that allows lookups names it.
type DNSServer struct {
	Namespace string            // zero: kube-system
	PodLabels map[string]string // nil: k8s-app=kube-dns. DenyAll names the pods only when they are set here
	Ports     []int             // nil: 53
}

// Ingress is how the agent's port is verified. The zero Ingress verifies it.
type Ingress struct {
	Engine Engine // zero: the engine of Egress, else Core
	// InsecureUnverified asks nothing: for a boundary that is no Kubernetes policy, such as a service mesh or a cloud's
	// security group.
	InsecureUnverified bool
	// InsecureAllowSiblings accepts a peer that admits other sandboxes of the namespace, for a host that runs beside them
	// and cannot be told apart.
	InsecureAllowSiblings bool
	// PodCIDRs is the pod network. A source block that overlaps it admits other pods and counts as open. Nil: not known,
	// only very large blocks count as open.
	PodCIDRs []string
}

// clone returns a deep copy with the defaults filled in.
func (e *Egress) clone() *Egress {
	if e == nil {
		return nil
	}
	c := *e
	if c.Policy == nil {
		c.Policy = DenyAll{}
	}
	c.Policy = c.Policy.clone()
	if c.Engine == "" {
		c.Engine = Core
	}
	if c.Verify == "" {
		c.Verify = Union
	}
	if c.ProfileLabelKey == "" {
		c.ProfileLabelKey = DefaultProfileLabelKey
	}
	c.CiliumNarrowing = c.CiliumNarrowing.clone()
	c.PerSandbox = c.PerSandbox.clone()
	c.DNS = c.DNS.withDefaults()
	return &c
}

func (d *DNSServer) withDefaults() *DNSServer {
	if d == nil {
		return &DNSServer{Namespace: dnsNamespace, Ports: []int{dnsPort}}
	}
	c := DNSServer{Namespace: d.Namespace, PodLabels: maps.Clone(d.PodLabels), Ports: append([]int(nil), d.Ports...)}
	if c.Namespace == "" {
		c.Namespace = dnsNamespace
	}
	if len(c.Ports) == 0 {
		c.Ports = []int{dnsPort}
	}
	return &c
}

// labels are the labels of the resolver's pods.
func (d *DNSServer) labels() map[string]string {
	if len(d.PodLabels) > 0 {
		return d.PodLabels
	}
	return map[string]string{dnsPodLabelKey: dnsPodLabelValue}
}
