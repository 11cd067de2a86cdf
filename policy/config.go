package policy

import (
	"maps"
	"slices"
	"time"
)

const defaultMaxAge = 5 * time.Minute

// Config is what a [Verifier] is made from. It is copied.
type Config struct {
	Namespace string   // of the sandboxes; required
	Template  string   // name of the SandboxTemplate; required
	AgentPort int      // TCP port of the guest's agent; zero: DefaultAgentPort
	Egress    Boundary // an *Egress; nil: no boundary for what leaves, and none is checked
	Ingress   Ingress  // zero: verified
	// NamespaceLabels are the labels of the namespace, for policies that select it by another label than its name. Nil: only
	// its name is known, and what depends on another label is unknown.
	NamespaceLabels map[string]string
	// MaxAge is how long a pass is remembered, from the moment the policies were read. Zero: five minutes.
	MaxAge time.Duration
	// Workspace refuses Egress.PerSandbox, which is for tasks.
	Workspace bool
}

func (c Config) withDefaults() Config {
	if c.AgentPort == 0 {
		c.AgentPort = DefaultAgentPort
	}
	if c.MaxAge == 0 {
		c.MaxAge = defaultMaxAge
	}
	c.Ingress.PodCIDRs = slices.Clone(c.Ingress.PodCIDRs)
	c.NamespaceLabels = maps.Clone(c.NamespaceLabels)
	return c
}

// Pod is the pod whose boundary is asked about.
type Pod struct {
	Subject   string // for messages, such as "the pod bound to Sandbox x"
	Namespace string // zero: that of the Config
	Labels    map[string]string
	Ports     []ContainerPort // of all containers; read only when Known
	// Known says that Labels and Ports are those of the running pod. A pod that does not exist yet has the labels that its
	// body will carry, and a rule by port name cannot be judged.
	Known bool
	// HostNetwork says that the pod uses its node's network, where no policy applies to it. Such a pod is refused.
	HostNetwork bool
	// NamespaceLabels are those of the pod's namespace; nil: those of the Config.
	NamespaceLabels map[string]string
}

// ContainerPort is a port that a container declares.
type ContainerPort struct {
	Name     string
	Protocol string // zero: TCP
	Port     int
}
