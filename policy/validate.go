package policy

import (
	"fmt"
	"maps"
	"slices"
)

// validate refuses, in a fixed order, what can be refused without a cluster. The receiver is a copy with defaults.
func (e *Egress) validate(workspace bool) error {
	if workspace && e.PerSandbox != nil {
		return &ConfigError{Reason: WorkspacePerSandbox}
	}
	if e.Engine != Core && e.Engine != Cilium {
		return &ConfigError{Reason: InvalidPolicy, Field: "engine", Value: string(e.Engine), Problem: "is not core or cilium"}
	}
	if e.Verify != Union && e.Verify != NamedObjectOnly {
		return &ConfigError{Reason: InvalidPolicy, Field: "verify", Value: string(e.Verify), Problem: "is not union or named-object-only"}
	}
	if err := e.validatePolicy(); err != nil {
		return err
	}
	if err := e.validateProfile(); err != nil {
		return err
	}
	if err := e.validatePerSandbox(); err != nil {
		return err
	}
	return e.DNS.validate()
}

func (e *Egress) validatePolicy() error {
	kind := e.Policy.Kind()
	if kind.named() && e.Engine != Cilium {
		return &ConfigError{Reason: UnenforceablePolicy, Field: "policy", Kind: kind, Engine: e.Engine}
	}
	if p, ok := e.Policy.(PublicInternet); ok {
		if err := p.validate(); err != nil {
			return err
		}
	}
	if e.CiliumNarrowing.active() {
		if !kind.named() {
			return &ConfigError{Reason: NarrowingUnsupported, Field: "ciliumNarrowing", Kind: kind, Engine: e.Engine}
		}
		if err := e.CiliumNarrowing.validate("ciliumNarrowing"); err != nil {
			return err
		}
	}
	switch p := e.Policy.(type) {
	case Static:
		if len(p.AllowedHosts) == 0 {
			return invalidPolicy("policy.allowedHosts", "is empty, and Cilium may read an empty list as every host; use deny-all or no-network")
		}
	case Resolver:
		if p.Resolve == nil {
			return invalidPolicy("policy.resolve", "is not set")
		}
	}
	return nil
}

func (p PublicInternet) validate() error {
	for _, text := range p.ExceptCIDRs {
		prefix, err := parseCIDR(text)
		if err != nil {
			return &ConfigError{Reason: InvalidPolicy, Field: "policy.exceptCidrs", Value: text, Problem: "is no CIDR such as 203.0.113.0/24"}
		}
		if prefix.Bits() == 0 {
			return &ConfigError{Reason: InvalidPolicy, Field: "policy.exceptCidrs", Value: text, Problem: "takes everything out, which the API server refuses; use deny-all or no-network"}
		}
	}
	return nil
}

func (e *Egress) validateProfile() error {
	refuse := func(field, value, problem string) error {
		return &ConfigError{Reason: InvalidProfile, Field: field, Value: value, Problem: problem}
	}
	switch key := e.ProfileLabelKey; {
	case !isLabelKey(key):
		return refuse("profileLabelKey", key, "is no label key")
	case key == TemplateLabelKey:
		return refuse("profileLabelKey", key, "is the label that every sandbox of the template shares")
	}
	if e.Profile != "" && (!isWord(e.Profile) || len(e.Profile) > 63) {
		return refuse("profile", e.Profile, "must be 1 to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit")
	}
	return nil
}

func (d *DNSServer) validate() error {
	if !isSubdomain(d.Namespace) {
		return &ConfigError{Reason: InvalidPolicy, Field: "dns.namespace", Value: d.Namespace, Problem: "is no namespace name"}
	}
	for _, key := range slices.Sorted(maps.Keys(d.PodLabels)) {
		if !isLabelKey(key) {
			return &ConfigError{Reason: InvalidPolicy, Field: "dns.podLabels", Value: key, Problem: "is no label key"}
		}
	}
	return validatePorts("dns.ports", d.Ports)
}

func (i Ingress) validate() error {
	switch i.Engine {
	case "", Core, Cilium:
	default:
		return invalidConfig("ingress.engine", string(i.Engine), "is not core or cilium")
	}
	for _, text := range i.PodCIDRs {
		if _, err := parseCIDR(text); err != nil {
			return invalidConfig("ingress.podCidrs", text, "is no CIDR such as 10.244.0.0/16")
		}
	}
	return nil
}

// validate refuses what is outside Egress and Ingress. The receiver is a copy with defaults.
func (c Config) validate() error {
	switch {
	case !isSubdomain(c.Namespace):
		return invalidConfig("namespace", c.Namespace, "is no namespace name")
	case !isSubdomain(c.Template):
		return invalidConfig("template", c.Template, "is no object name")
	case c.AgentPort < 1 || c.AgentPort > 65535:
		return invalidConfig("agentPort", fmt.Sprint(c.AgentPort), "is not between 1 and 65535")
	case c.MaxAge < 0:
		return invalidConfig("maxAge", c.MaxAge.String(), "is negative")
	}
	return nil
}
