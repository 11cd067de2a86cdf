package policy

import (
	"fmt"
	"strings"

	"github.com/sandlot-go/sandlot/k8s"
)

// document is one unit of policy in one direction: a NetworkPolicy, or one spec of a Cilium policy.
type document struct {
	kind, name string
	item       k8s.Object
	problem    string
	deleting   bool

	selector  selector
	cilium    bool
	namespace string // of the policy; "" for the whole cluster
	enforces  bool   // denies what no rule admits
	rules     []any
	denies    []any
	at        string // where the rules are: egress, or specs[1].egress
	admin     bool   // an AdminNetworkPolicy or the baseline one
}

// itemName is how an item is called in reports. An item without a name is called by its place.
func itemName(item k8s.Object, index int) string {
	if name := item.Name(); name != "" {
		return excerpt(name, maxObjectName)
	}
	return fmt.Sprintf("(unnamed #%d)", index)
}

// misplaced says why an item is not what the list it came in promises.
func misplaced(item k8s.Object, kind, namespace string) string {
	if got, ok := item["kind"]; ok && got != nil && got != kind {
		return fmt.Sprintf("it says it is of kind %s", jsonText(got))
	}
	metadata, ok := objectOf(item["metadata"])
	if !ok && item["metadata"] != nil {
		return "metadata is not an object"
	}
	if got := metadata["namespace"]; got != nil && namespace != "" && got != namespace {
		return fmt.Sprintf("it says it is in namespace %s", jsonText(got))
	}
	return ""
}

// coreDocument reads a NetworkPolicy.
func coreDocument(item k8s.Object, index int, d direction, namespace string) document {
	doc := document{kind: k8s.NetworkPolicies.Kind, name: itemName(item, index), item: item, namespace: namespace, at: d.name, deleting: item.Deleting()}
	if doc.problem = misplaced(item, doc.kind, namespace); doc.problem != "" {
		return doc
	}
	spec, ok := objectOf(item["spec"])
	if !ok {
		doc.problem = "spec is not an object"
		return doc
	}
	if field := unknownField(spec, "podSelector", "policyTypes", "ingress", "egress"); field != "" {
		doc.problem = fmt.Sprintf("spec has a field %s that is not known", field)
		return doc
	}
	rules, ok := listField(spec, d.name)
	if !ok {
		doc.problem = "spec." + d.name + " is not a list"
		return doc
	}
	selected, byPod := spec["podSelector"]
	doc.selector = readSelector(selected, byPod, nil)
	doc.enforces, doc.problem = coreEnforces(spec, d)
	// The server ignores rules of a direction that the policy is not of.
	if doc.enforces {
		doc.rules = rules
	}
	return doc
}

// coreEnforces reports whether a NetworkPolicy is of the direction. The server fills in absent or empty policyTypes with
// Ingress, and with Egress only when there is an egress rule.
func coreEnforces(spec map[string]any, d direction) (enforces bool, problem string) {
	types, ok := listField(spec, "policyTypes")
	if !ok {
		return false, "spec.policyTypes is not a list"
	}
	if len(types) == 0 {
		rules, ok := listField(spec, egress.name)
		if !ok {
			return false, "spec.egress is not a list"
		}
		return d.name == ingress.name || len(rules) > 0, ""
	}
	for _, t := range types {
		switch t {
		case d.policyTyp:
			enforces = true
		case egress.policyTyp, ingress.policyTyp:
		default:
			return false, fmt.Sprintf("spec.policyTypes has %s", jsonText(t))
		}
	}
	return enforces, ""
}

// ciliumDocuments reads a CiliumNetworkPolicy, or a clusterwide one when namespace is "": its spec, then its specs.
func ciliumDocuments(item k8s.Object, index int, d direction, kind, namespace string) []document {
	base := document{kind: kind, name: itemName(item, index), item: item, cilium: true, namespace: namespace, deleting: item.Deleting()}
	broken := func(problem string) []document {
		base.problem = problem
		return []document{base}
	}
	if problem := misplaced(item, kind, namespace); problem != "" {
		return broken(problem)
	}
	specs, ok := listField(item, "specs")
	switch {
	case !ok:
		return broken("specs is not a list")
	case !present(item, "spec") && !present(item, "specs"):
		return broken("it has neither spec nor specs")
	}
	var docs []document
	if present(item, "spec") {
		docs = appendCilium(docs, base, item["spec"], d, d.name)
	}
	for i, spec := range specs {
		docs = appendCilium(docs, base, spec, d, fmt.Sprintf("specs[%d].%s", i, d.name))
	}
	return docs
}

// appendCilium adds the document of one spec. One that selects nodes is about no pod and adds none.
func appendCilium(docs []document, doc document, v any, d direction, at string) []document {
	doc.at = at
	broken := func(format string, a ...any) []document {
		doc.problem = fmt.Sprintf(format, a...)
		return append(docs, doc)
	}
	spec, ok := objectOf(v)
	if !ok {
		return broken("a spec is not an object")
	}
	if field := unknownField(spec, "endpointSelector", "nodeSelector", "ingress", "ingressDeny", "egress", "egressDeny",
		"enableDefaultDeny", "labels", "description", "log"); field != "" {
		return broken("a spec has a field %s that is not known", field)
	}
	if present(spec, "nodeSelector") {
		if present(spec, "endpointSelector") {
			return broken("a spec has endpointSelector and nodeSelector, which Cilium refuses: the policy may not be in force")
		}
		return docs
	}
	if _, ok := spec["endpointSelector"]; !ok {
		return broken("a spec has no endpointSelector, which Cilium refuses: the policy may not be in force")
	}
	doc.selector = readSelector(spec["endpointSelector"], true, ciliumKey)
	if doc.namespace != "" {
		doc.selector.overrideNamespace(spec["endpointSelector"], doc.namespace)
	}
	var allowOK, denyOK bool
	doc.rules, allowOK = listField(spec, d.name)
	doc.denies, denyOK = listField(spec, d.deny)
	if !allowOK || !denyOK {
		return broken("%s or %s is not a list", d.name, d.deny)
	}
	on, problem := defaultDeny(spec, d)
	if problem != "" {
		return broken("%s", problem)
	}
	// A section without a rule does not apply (https://docs.cilium.io/en/stable/security/policy/intro/).
	doc.enforces = on && len(doc.rules)+len(doc.denies) > 0
	return append(docs, doc)
}

// defaultDeny reports whether the spec denies what it does not admit, as far as enableDefaultDeny says.
func defaultDeny(spec map[string]any, d direction) (on bool, problem string) {
	if !present(spec, "enableDefaultDeny") {
		return true, ""
	}
	m, ok := objectOf(spec["enableDefaultDeny"])
	if !ok {
		return false, "enableDefaultDeny is not an object"
	}
	switch v := m[d.name].(type) {
	case nil:
		return true, ""
	case bool:
		return v, ""
	}
	return false, "enableDefaultDeny." + d.name + " is not a boolean"
}

// overrideNamespace applies what Cilium does to a namespaced policy that selects another namespace: it replaces the value by
// its own. Only the spelling with the k8s source is certain; of another one the effect is unknown.
func (s *selector) overrideNamespace(v any, namespace string) {
	m, _ := objectOf(v)
	labels, _ := objectOf(m["matchLabels"])
	for key, value := range labels {
		name, ok := ciliumKey(key)
		if !ok || name != ciliumNamespaceKey || value == namespace {
			continue
		}
		for i, r := range s.labels {
			if r.key != ciliumNamespaceKey || len(r.values) != 1 || r.values[0] != value {
				continue
			}
			if key == "k8s:"+ciliumNamespaceKey {
				s.labels[i].values = []string{namespace}
			} else {
				s.labels[i] = requirement{ciliumNamespaceKey, opOpaque, []string{"the selector names another namespace, which Cilium may replace by its own"}}
			}
		}
	}
}

// identity is the lookup of a pod's labels as the kind of policy sees them.
func identity(pod Pod, cilium bool) labelLookup {
	if !cilium {
		return lookupIn(pod.Labels)
	}
	return func(key string) (string, bool, bool) {
		switch {
		case key == ciliumNamespaceKey, key == ciliumNamespaceLabelsKey+namespaceNameKey:
			return pod.Namespace, true, true
		case strings.HasPrefix(key, ciliumDerivedPrefix):
			return "", false, false
		}
		value, ok := pod.Labels[key]
		return value, ok, true
	}
}

// selects reports whether the document is about the pod.
func (d document) selects(pod Pod) (tri, string) {
	if d.admin {
		return d.selector.match(func(key string) (string, bool, bool) {
			if name, ok := strings.CutPrefix(key, namespaceMark); ok {
				return pod.namespaceLabel(name)
			}
			value, ok := pod.Labels[key]
			return value, ok, true
		})
	}
	return d.selector.match(identity(pod, d.cilium))
}
