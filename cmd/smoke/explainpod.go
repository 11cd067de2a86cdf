package main

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// evidence is what an answer rests on.
type evidence struct {
	policies []k8s.Object
	pod      policy.Pod
	podName  string // "": only its labels are known
	onNode   bool   // it uses its node's network
	to, from *policy.PeerPod
	unread   []policy.Unread
	notes    []string
}

// kindPod and kindNamespace are looked at, and are no policies.
var kindPod, kindNamespace = k8s.Pods.Kind, k8s.Namespaces.Kind

// sortEvidence finds the pod in question, and those at the other side, among the
// objects of files.
func (o *explainOptions) sortEvidence(objects []k8s.Object) (evidence, error) {
	var e evidence
	var pods []k8s.Object
	namespaces := map[string]map[string]string{}
	for _, object := range objects {
		switch object.Text("kind") {
		case kindPod:
			pods = append(pods, object)
		case kindNamespace:
			namespaces[object.Name()] = labelsOf(object)
		default:
			e.policies = append(e.policies, object)
		}
	}
	pod, err := o.choosePod(pods)
	if err != nil {
		return evidence{}, err
	}
	if err := e.setPod(pod, o.labels); err != nil {
		return evidence{}, err
	}
	if o.namespace != "" {
		e.pod.Namespace = o.namespace
	}
	if e.pod.Namespace == "" {
		if e.pod.Namespace, err = namespaceOf(e.policies); err != nil {
			return evidence{}, err
		}
	}
	e.pod.NamespaceLabels = namespaces[e.pod.Namespace]
	e.to, e.from = podAt(pods, o.to, namespaces), podAt(pods, o.from, namespaces)
	return e, nil
}

// setPod takes what matters of a pod; nil is one of which only labels are known.
func (e *evidence) setPod(pod k8s.Object, labels map[string]string) error {
	if pod != nil {
		e.pod, e.podName = policy.PodOf(pod), pod.Name()
		e.onNode, _ = pod.Bool("spec", "hostNetwork")
	}
	if labels != nil {
		e.pod.Labels = labels
		return nil
	}
	if v := pod.Field("metadata", "labels"); v != nil && len(pod.Map("metadata", "labels")) != len(e.pod.Labels) || v != nil && e.pod.Labels == nil {
		return usagef("Pod %s has labels that are no texts", e.podName)
	}
	return nil
}

// labelsOf is never nil: an object without labels is known to have none.
func labelsOf(o k8s.Object) map[string]string {
	if labels := o.Labels(); labels != nil {
		return labels
	}
	return map[string]string{}
}

// choosePod returns the pod that is asked about, nil if only labels are given.
func (o *explainOptions) choosePod(pods []k8s.Object) (k8s.Object, error) {
	found := map[string]k8s.Object{}
	for _, pod := range pods {
		if o.pod != "" && pod.Name() != o.pod || o.namespace != "" && pod.Namespace() != "" && pod.Namespace() != o.namespace {
			continue
		}
		name := pod.Namespace() + "/" + pod.Name()
		if other := found[name]; other != nil && o.labels == nil && !sameToPolicies(pod, other) {
			return nil, usagef("the files have Pod %s twice, with different labels or ports: leave one out", pod.Name())
		}
		found[name] = pod
	}
	names := slices.Sorted(maps.Keys(found))
	switch {
	case len(names) == 1:
		return found[names[0]], nil
	case len(names) == 0 && o.pod != "":
		return nil, usagef("the files have no Pod %s%s", o.pod, inNamespace(o.namespace))
	case len(names) == 0 && o.labels == nil:
		return nil, usagef("which pod? Give its labels with -labels, or a file with the Pod%s", inNamespace(o.namespace))
	case len(names) > 1 && (o.labels == nil || o.pod != ""):
		return nil, usagef("the files have %d Pods, such as %s and %s: choose one with -pod and -namespace", len(names), names[0], names[1])
	}
	return nil, nil
}

func sameToPolicies(a, b k8s.Object) bool {
	return reflect.DeepEqual(policy.PodOf(a), policy.PodOf(b))
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " of namespace " + namespace
}

// namespaceOf is the one namespace that all policies are of.
func namespaceOf(policies []k8s.Object) (string, error) {
	found := map[string]bool{}
	for _, p := range policies {
		if p.Namespace() != "" {
			found[p.Namespace()] = true
		}
	}
	switch names := slices.Sorted(maps.Keys(found)); len(names) {
	case 0:
		return "default", nil
	case 1:
		return names[0], nil
	default:
		return "", usagef("the policies are of namespaces %s and %s: say with -namespace which one the pod is in", names[0], names[1])
	}
}

// podAt is the one pod that has the address of an endpoint, nil if none or
// several have.
func podAt(pods []k8s.Object, e *policy.Endpoint, namespaces map[string]map[string]string) *policy.PeerPod {
	if e == nil || e.Outside {
		return nil
	}
	var found *policy.PeerPod
	for _, pod := range pods {
		if onNode, _ := pod.Bool("spec", "hostNetwork"); onNode || !hasAddress(pod, e.Addr) {
			continue
		}
		peer := &policy.PeerPod{Namespace: pod.Namespace(), Labels: pod.Labels(), NamespaceLabels: namespaces[pod.Namespace()]}
		if found != nil && !reflect.DeepEqual(found, peer) {
			return nil
		}
		found = peer
	}
	return found
}

func hasAddress(pod k8s.Object, addr netip.Addr) bool {
	texts := []any{pod.Field("status", "podIP")}
	for _, v := range pod.List("status", "podIPs") {
		if m, ok := v.(map[string]any); ok {
			texts = append(texts, m["ip"])
		}
	}
	return slices.ContainsFunc(texts, func(v any) bool {
		text, _ := v.(string)
		ip, err := netip.ParseAddr(text)
		return err == nil && ip.Unmap() == addr.Unmap()
	})
}

// question is what package policy is asked.
func (o *explainOptions) question(e evidence) policy.Question {
	q := policy.Question{
		Pod: e.pod, Engine: o.engine, Against: o.against, Template: o.template, AgentPort: o.agentPort,
		Ingress: policy.Ingress{Engine: o.engine},
	}
	if o.to != nil {
		to := *o.to
		to.Pod = e.to
		q.To = &to
	}
	if o.from != nil {
		from := *o.from
		from.Pod = e.from
		q.From = &from
	}
	return q
}

// describe names the pod in a line.
func (e evidence) describe() string {
	text := "a pod"
	if e.podName != "" {
		text = "Pod " + e.podName
	}
	text += fmt.Sprintf(" of namespace %s with labels", e.pod.Namespace)
	if len(e.pod.Labels) == 0 {
		text += " (none)"
	}
	for _, key := range slices.Sorted(maps.Keys(e.pod.Labels)) {
		text += fmt.Sprintf(" %s=%s", key, e.pod.Labels[key])
	}
	if !e.pod.Known {
		return text + "; its ports are not known"
	}
	text += "; ports"
	if len(e.pod.Ports) == 0 {
		text += " (none)"
	}
	for _, p := range e.pod.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = "TCP"
		}
		text += fmt.Sprintf(" %s %d/%s", p.Name, p.Port, protocol)
	}
	return text
}
