package policy

import (
	"strings"

	"github.com/sandlot-go/sandlot/k8s"
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

// isSubdomain reports whether s is an object name as the API server takes it.
func isSubdomain(s string) bool { return k8s.CheckName(s) == nil }

// isLabelKey reports whether s is a label key: a name of up to 63 characters with an optional prefix.
func isLabelKey(s string) bool { return k8s.CheckLabelKey(s) == nil }

// isWord reports whether s is lower case letters, digits and hyphens, with a hyphen neither first nor last; of any length.
func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if alphanumeric := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'; !alphanumeric && (c != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return s != ""
}

// isDotted reports whether s is words with dots between them.
func isDotted(s string) bool {
	for word := range strings.SplitSeq(s, ".") {
		if !isWord(word) {
			return false
		}
	}
	return true
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
