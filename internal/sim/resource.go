package sim

// A resource is a kind of object that the server has.
type resource struct {
	group, version, plural, singular, kind string

	shortNames []string
	hash       string // storageVersionHash of discovery
	cluster    bool   // not in a namespace
	custom     bool   // defined by a CustomResourceDefinition
	status     bool   // has a status subresource
	generation bool   // counts changes of its spec
	returned   bool   // its deletion is answered with the object, even if that is gone
	readOnly   bool   // creating and patching it through the API is not modelled
}

const (
	coreGroup      = "agents.x-k8s.io"
	extensionGroup = "extensions.agents.x-k8s.io"
)

var (
	sandboxes = &resource{group: coreGroup, version: "v1beta1", plural: "sandboxes", singular: "sandbox", kind: "Sandbox",
		shortNames: []string{"sandbox"}, hash: "fPd/zcm8A2c=", custom: true, status: true, generation: true}
	claims = &resource{group: extensionGroup, version: "v1beta1", plural: "sandboxclaims", singular: "sandboxclaim", kind: "SandboxClaim",
		shortNames: []string{"sandboxclaim"}, hash: "aLvkrUG8glw=", custom: true, status: true, generation: true}
	templates = &resource{group: extensionGroup, version: "v1beta1", plural: "sandboxtemplates", singular: "sandboxtemplate", kind: "SandboxTemplate",
		shortNames: []string{"sandboxtemplate"}, hash: "15/A/jIV9sA=", custom: true, generation: true}
	pools = &resource{group: extensionGroup, version: "v1beta1", plural: "sandboxwarmpools", singular: "sandboxwarmpool", kind: "SandboxWarmPool",
		shortNames: []string{"swp"}, hash: "3qMP+J58q6o=", custom: true, status: true, generation: true}
	ciliumPolicies = &resource{group: "cilium.io", version: "v2", plural: "ciliumnetworkpolicies", singular: "ciliumnetworkpolicy", kind: "CiliumNetworkPolicy",
		shortNames: []string{"cnp", "ciliumnp"}, custom: true, status: true, generation: true}
	policies = &resource{group: "networking.k8s.io", version: "v1", plural: "networkpolicies", singular: "networkpolicy", kind: "NetworkPolicy",
		shortNames: []string{"netpol"}, generation: true, readOnly: true}
	pods = &resource{version: "v1", plural: "pods", singular: "pod", kind: "Pod",
		shortNames: []string{"po"}, returned: true, status: true, generation: true, readOnly: true}
	services = &resource{version: "v1", plural: "services", singular: "service", kind: "Service",
		shortNames: []string{"svc"}, returned: true, status: true, readOnly: true}
	disks = &resource{version: "v1", plural: "persistentvolumeclaims", singular: "persistentvolumeclaim", kind: "PersistentVolumeClaim",
		shortNames: []string{"pvc"}, returned: true, status: true, readOnly: true}
	configs = &resource{version: "v1", plural: "configmaps", singular: "configmap", kind: "ConfigMap",
		shortNames: []string{"cm"}, readOnly: true}
	namespaces = &resource{version: "v1", plural: "namespaces", singular: "namespace", kind: "Namespace",
		shortNames: []string{"ns"}, cluster: true, status: true, readOnly: true}
	admissionPolicies = &resource{group: "admissionregistration.k8s.io", version: "v1", plural: "validatingadmissionpolicies",
		singular: "validatingadmissionpolicy", kind: "ValidatingAdmissionPolicy", cluster: true, generation: true, readOnly: true}
	admissionBindings = &resource{group: "admissionregistration.k8s.io", version: "v1", plural: "validatingadmissionpolicybindings",
		singular: "validatingadmissionpolicybinding", kind: "ValidatingAdmissionPolicyBinding", cluster: true, generation: true, readOnly: true}

	resources = []*resource{sandboxes, claims, templates, pools, ciliumPolicies, policies, pods, services, disks, configs, namespaces,
		admissionPolicies, admissionBindings}

	// collected are the kinds whose owner references are followed.
	collected = []*resource{claims, pools, templates, sandboxes, pods, services, disks, policies, ciliumPolicies}
)

// otherGroups are API groups that any cluster serves and this one does not
// model: a request to them is a gap here, not a cluster without them.
var otherGroups = []string{
	"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io",
	"autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io",
	"networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
}

// qualified is the name that messages use.
func (r *resource) qualified() string {
	if r.group == "" {
		return r.plural
	}
	return r.plural + "." + r.group
}

func (r *resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

// qualifiedKind is what messages about an object's content use.
func (r *resource) qualifiedKind() string {
	if r.group == "" {
		return r.kind
	}
	return r.kind + "." + r.group
}

func byPlural(plural string) *resource {
	for _, r := range resources {
		if r.plural == plural {
			return r
		}
	}
	return nil
}

// referenced is the resource that an owner reference means.
func referenced(ref any) *resource {
	for _, r := range collected {
		if r.apiVersion() == text(ref, "apiVersion") && r.kind == text(ref, "kind") {
			return r
		}
	}
	return nil
}
