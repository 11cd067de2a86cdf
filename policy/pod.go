package policy

import "github.com/sandlot-go/sandlot/k8s"

// PodOf returns the Pod of a running pod's object: its labels, and the ports of all its containers. Known is false when the
// containers cannot be read, so that rules by port name are not judged.
func PodOf(o k8s.Object) Pod {
	p := Pod{Subject: "pod " + o.Name(), Namespace: o.Namespace(), Labels: o.Labels(), Known: true}
	spec, _ := objectOf(o["spec"])
	p.HostNetwork = spec["hostNetwork"] != nil && spec["hostNetwork"] != false
	// The ports of a sidecar, which is an init container that stays, have names in the same space.
	for _, field := range []string{"containers", "initContainers"} {
		containers, ok := listField(spec, field)
		if !ok || field == "containers" && len(containers) == 0 {
			p.Known = false
		}
		for _, v := range containers {
			ports, ok := containerPorts(v)
			if !ok {
				p.Known = false
			}
			p.Ports = append(p.Ports, ports...)
		}
	}
	return p
}

func containerPorts(v any) (out []ContainerPort, ok bool) {
	container, ok := objectOf(v)
	if !ok {
		return nil, false
	}
	ports, ok := listField(container, "ports")
	if !ok {
		return nil, false
	}
	for _, v := range ports {
		entry, _ := objectOf(v)
		number, isNumber := wholeNumber(entry["containerPort"])
		name, isName := entry["name"].(string)
		protocol, isProtocol := entry["protocol"].(string)
		if !isNumber || number < 1 || number > maxPort || !isName && entry["name"] != nil || !isProtocol && entry["protocol"] != nil {
			return nil, false
		}
		out = append(out, ContainerPort{Name: name, Protocol: protocol, Port: int(number)})
	}
	return out, true
}
