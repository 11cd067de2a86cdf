package k8s

// A Resource is a collection of objects of one kind that an API server serves.
type Resource struct {
	Group         string // "" is the core group
	Version       string
	Plural        string // as in the path: "pods"
	Kind          string // as in an object: "Pod"; "" = replies of any kind are taken
	ClusterScoped bool   // its paths carry no namespace
}

// The resources that this module deals with.
var (
	SandboxClaims    = Resource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Plural: "sandboxclaims", Kind: "SandboxClaim"}
	SandboxTemplates = Resource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Plural: "sandboxtemplates", Kind: "SandboxTemplate"}
	SandboxWarmPools = Resource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Plural: "sandboxwarmpools", Kind: "SandboxWarmPool"}
	Sandboxes        = Resource{Group: "agents.x-k8s.io", Version: "v1beta1", Plural: "sandboxes", Kind: "Sandbox"}

	Pods                   = Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	PersistentVolumeClaims = Resource{Version: "v1", Plural: "persistentvolumeclaims", Kind: "PersistentVolumeClaim"}
	Namespaces             = Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

	NetworkPolicies                  = Resource{Group: "networking.k8s.io", Version: "v1", Plural: "networkpolicies", Kind: "NetworkPolicy"}
	CiliumNetworkPolicies            = Resource{Group: "cilium.io", Version: "v2", Plural: "ciliumnetworkpolicies", Kind: "CiliumNetworkPolicy"}
	CiliumClusterwideNetworkPolicies = Resource{Group: "cilium.io", Version: "v2", Plural: "ciliumclusterwidenetworkpolicies", Kind: "CiliumClusterwideNetworkPolicy", ClusterScoped: true}

	ValidatingAdmissionPolicies       = Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy", ClusterScoped: true}
	ValidatingAdmissionPolicyBindings = Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "validatingadmissionpolicybindings", Kind: "ValidatingAdmissionPolicyBinding", ClusterScoped: true}
	SelfSubjectAccessReviews          = Resource{Group: "authorization.k8s.io", Version: "v1", Plural: "selfsubjectaccessreviews", Kind: "SelfSubjectAccessReview", ClusterScoped: true}
)

// APIVersion returns what stands in the apiVersion field of its objects.
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// Path returns the path of an object, or of the collection when name is "". The
// namespace is not looked at when the resource is cluster-scoped. Every part is
// checked, so that the result has exactly the segments it should have.
func (r Resource) Path(namespace, name string) (string, error) {
	p := "/api/"
	if r.Group != "" {
		if err := validateSubdomain("API group", r.Group); err != nil {
			return "", err
		}
		p = "/apis/" + r.Group + "/"
	}
	if err := validateLabel("API version", r.Version); err != nil {
		return "", err
	}
	if err := validateLabel("resource", r.Plural); err != nil {
		return "", err
	}
	p += r.Version
	if !r.ClusterScoped {
		if err := CheckNamespace(namespace); err != nil {
			return "", err
		}
		p += "/namespaces/" + namespace
	}
	p += "/" + r.Plural
	if name == "" {
		return p, nil
	}
	if err := CheckName(name); err != nil {
		return "", err
	}
	return p + "/" + name, nil
}
