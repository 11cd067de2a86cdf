package policy

import (
	"regexp"
	"strings"
)

// Names that other programs see. They are those of the objects that clusters already hold.
const (
	TemplateLabelKey          = "sandbox.namzu.ai/template"
	DefaultProfileLabelKey    = "sandbox.namzu.ai/egress-profile"
	DefaultPerSandboxLabelKey = "sandbox.namzu.ai/per-sandbox-egress"
	PerSandboxNamePrefix      = "namzu-sbx-"
	DefaultAgentPort          = 1024
)

const (
	maxObjectName = 253

	dnsNamespace     = "kube-system"
	dnsPodLabelKey   = "k8s-app"
	dnsPodLabelValue = "kube-dns"
	dnsPort          = 53

	namespaceNameKey = "kubernetes.io/metadata.name" // on every namespace, set by the API server

	defaultClusterDomain = "cluster.local"
)

var (
	profilePattern   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labelNamePattern = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	subdomainPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// isSubdomain reports whether s is an object name as the API server takes it.
func isSubdomain(s string) bool { return len(s) <= maxObjectName && subdomainPattern.MatchString(s) }

// isLabelKey reports whether s is a label key: a name of up to 63 characters with an optional prefix.
func isLabelKey(s string) bool {
	prefix, name, found := strings.Cut(s, "/")
	if !found {
		return labelNamePattern.MatchString(s)
	}
	return isSubdomain(prefix) && labelNamePattern.MatchString(name)
}

// policyName is the name of the object that the configuration translates to. A name that is too long is refused: one that
// was cut or hashed would not be the one the operator applied.
func (e *Egress) policyName(template string) (string, error) {
	if e.NetworkPolicyName != "" {
		if !isSubdomain(e.NetworkPolicyName) {
			return "", invalidPolicy("networkPolicyName", "is no object name")
		}
		return e.NetworkPolicyName, nil
	}
	name := template + "-egress"
	if e.Profile != "" {
		name = template + "-" + e.Profile + "-egress"
	}
	if len(name) <= maxObjectName {
		return name, nil
	}
	const problem = "makes the policy's name longer than 253 characters; set networkPolicyName"
	if e.Profile != "" {
		return "", &ConfigError{Reason: InvalidProfile, Field: "profile", Value: e.Profile, Problem: problem}
	}
	return "", &ConfigError{Reason: InvalidConfig, Field: "template", Value: template, Problem: problem}
}
