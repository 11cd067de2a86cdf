package policy

import (
	"fmt"
	"strings"
)

// PerSandbox lets the host write one CiliumNetworkPolicy per sandbox, through a [Narrower]. What a sandbox's list opens comes
// on top of Egress.Policy: over NoNetwork or DenyAll the list is the whole boundary, over AllowAll it is none.
//
// A host that may write policies may open anything, so an admission policy has to fence what it writes; the fence is read
// before every change.
type PerSandbox struct {
	Engine                     Engine     // must be Cilium; independent of Egress.Engine
	AdmissionPolicyName        string     // the ValidatingAdmissionPolicy that fences the host; required
	AdmissionPolicyBindingName string     // zero: <AdmissionPolicyName>-binding
	LabelKey                   string     // zero: DefaultPerSandboxLabelKey
	Narrowing                  *Narrowing // nil: none; but over NoNetwork, DNSNames is on unless it is set
}

func (p *PerSandbox) clone() *PerSandbox {
	if p == nil {
		return nil
	}
	c := *p
	c.Narrowing = p.Narrowing.clone()
	return &c
}

func (p *PerSandbox) labelKey() string {
	if p.LabelKey == "" {
		return DefaultPerSandboxLabelKey
	}
	return p.LabelKey
}

func (p *PerSandbox) bindingName() string {
	if p.AdmissionPolicyBindingName == "" {
		return p.AdmissionPolicyName + "-binding"
	}
	return p.AdmissionPolicyBindingName
}

// narrowing is the narrowing of the written policies. Over a base that lets nothing out a list of hosts must not open the
// resolver for every other name.
func (p *PerSandbox) narrowing(base Kind) *Narrowing {
	n := p.Narrowing.clone()
	if base != KindNoNetwork {
		return n
	}
	if n == nil {
		n = &Narrowing{}
	}
	if n.DNSNames == nil {
		n.DNSNames = &DNSNames{}
	}
	return n
}

func (e *Egress) validatePerSandbox() error {
	p := e.PerSandbox
	if p == nil {
		return nil
	}
	refuse := func(field, value, problem string) error {
		return &ConfigError{Reason: InvalidPerSandbox, Field: field, Value: value, Problem: problem}
	}
	if p.Engine != Cilium {
		return refuse("engine", string(p.Engine), "must be cilium: only a CiliumNetworkPolicy can name hosts")
	}
	switch name := p.AdmissionPolicyName; {
	case name == "" || strings.TrimSpace(name) != name:
		return refuse("admissionPolicyName", name, "must name the ValidatingAdmissionPolicy that fences what this host writes")
	case !isSubdomain(name):
		return refuse("admissionPolicyName", name, "is no object name")
	}
	if name := p.AdmissionPolicyBindingName; name != "" && !isSubdomain(name) {
		return refuse("admissionPolicyBindingName", name, "is no object name; leave it empty for <admissionPolicyName>-binding")
	}
	if err := p.Narrowing.validate("perSandbox.narrowing"); err != nil {
		return err
	}
	switch key := p.labelKey(); {
	case !isLabelKey(key):
		return refuse("labelKey", key, "is no label key")
	case key == TemplateLabelKey:
		return refuse("labelKey", key, "is the label that every sandbox of the template shares")
	case e.Profile != "" && key == e.ProfileLabelKey:
		return refuse("labelKey", key, fmt.Sprintf("is also the profile's label key (%q)", e.Profile))
	}
	return nil
}
