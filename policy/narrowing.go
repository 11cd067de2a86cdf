package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Narrowing limits a list of hosts further. It is in force when Ports is set (even to an empty list, which is refused), when
// HostPorts has a key, when DNSNames is set or when TLSServerNames is true; TLSPorts alone does nothing.
type Narrowing struct {
	Ports          []int            // TCP ports for every host without its own entry; nil: every port
	HostPorts      map[string][]int // allowed-host entry to its TCP ports, instead of Ports
	DNSNames       *DNSNames        // lets the resolver be asked for the allowed names only; nil: for any name
	TLSServerNames bool             // the name in the TLS hello must be the host's, on the TLS ports
	TLSPorts       []int            // which ports are TLS; nil: 443. Read only with TLSServerNames
}

// DNSNames says which names a lookup may ask for besides the allowed ones: a resolver with a search list asks for the
// suffixed forms first, and a refused lookup can fail the whole resolution.
type DNSNames struct {
	Namespace      string   // zero: the policy's own namespace
	ClusterDomain  string   // zero: cluster.local
	SearchSuffixes []string // more search domains of the pod's resolv.conf
}

func (n *Narrowing) clone() *Narrowing {
	if n == nil {
		return nil
	}
	c := *n
	c.Ports = slices.Clone(n.Ports)
	c.TLSPorts = slices.Clone(n.TLSPorts)
	c.HostPorts = maps.Clone(n.HostPorts)
	for host, ports := range c.HostPorts {
		c.HostPorts[host] = slices.Clone(ports)
	}
	if n.DNSNames != nil {
		c.DNSNames = new(*n.DNSNames)
		c.DNSNames.SearchSuffixes = slices.Clone(n.DNSNames.SearchSuffixes)
	}
	return &c
}

// active reports whether the narrowing changes anything.
func (n *Narrowing) active() bool {
	return n != nil && (n.Ports != nil || len(n.HostPorts) > 0 || n.DNSNames != nil || n.TLSServerNames)
}

// validate refuses what cannot be meant. root is the field path of the narrowing.
func (n *Narrowing) validate(root string) error {
	if n == nil {
		return nil
	}
	if err := validatePorts(root+".ports", n.Ports); err != nil {
		return err
	}
	seen := make(map[string]string, len(n.HostPorts))
	for _, key := range slices.Sorted(maps.Keys(n.HostPorts)) {
		field := fmt.Sprintf("%s.hostPorts[%q]", root, key)
		ports := n.HostPorts[key]
		if ports == nil {
			ports = []int{}
		}
		if err := validatePorts(field, ports); err != nil {
			return err
		}
		host, problem := canonicalHost(key)
		if problem != "" {
			return invalidPolicy(field, "is no host: "+problem.text())
		}
		if other, ok := seen[host]; ok {
			return invalidPolicy(field, fmt.Sprintf("means the same host as %q", other))
		}
		seen[host] = key
	}
	if err := validatePorts(root+".tlsPorts", n.TLSPorts); err != nil {
		return err
	}
	if d := n.DNSNames; d != nil {
		if d.ClusterDomain != "" && strings.TrimSpace(d.ClusterDomain) == "" {
			return invalidPolicy(root+".dnsNames.clusterDomain", "is blank; leave it empty for cluster.local")
		}
		for _, suffix := range d.SearchSuffixes {
			if strings.TrimSpace(suffix) == "" {
				return invalidPolicy(root+".dnsNames.searchSuffixes", "has a blank entry")
			}
		}
	}
	return nil
}

// validatePorts accepts a nil list, which means that the field is not set.
func validatePorts(field string, ports []int) error {
	if ports == nil {
		return nil
	}
	if len(ports) == 0 {
		return invalidPolicy(field, "is empty; leave it unset for every port, or list at least one")
	}
	for _, port := range ports {
		if port < 1 || port > 65535 {
			return invalidPolicy(field, fmt.Sprintf("has port %d, which is not between 1 and 65535", port))
		}
	}
	return nil
}

// matchHosts refuses a key of HostPorts that names none of the hosts: a typo there would open every port.
func (n *Narrowing) matchHosts(root string, hosts []string) error {
	if n == nil {
		return nil
	}
	known := make(map[string]bool, len(hosts))
	for _, host := range hosts {
		canonical, _ := canonicalHost(host)
		known[canonical] = true
	}
	for _, key := range slices.Sorted(maps.Keys(n.HostPorts)) {
		canonical, _ := canonicalHost(key)
		if !known[canonical] {
			return invalidPolicy(fmt.Sprintf("%s.hostPorts[%q]", root, key), "names none of the allowed hosts; every port of the intended host would stay open")
		}
	}
	return nil
}

// portsOf returns the ports of one host, or nil for every port.
func (n *Narrowing) portsOf(host string) []int {
	canonical, _ := canonicalHost(host)
	for key, ports := range n.HostPorts {
		if k, _ := canonicalHost(key); k == canonical {
			return ports
		}
	}
	if n.Ports != nil {
		return n.Ports
	}
	if n.TLSServerNames {
		return n.tlsPorts()
	}
	return nil
}

func (n *Narrowing) tlsPorts() []int {
	if n.TLSPorts != nil {
		return n.TLSPorts
	}
	return []int{443}
}
