package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

func (w *world) reconcileService(sb object) (object, error) {
	wanted := at(sb, "spec", "service")
	svc := w.get(services, placeOf(sb))
	if svc == nil && wanted != true {
		return nil, nil
	}
	if svc != nil {
		if wanted == false {
			if ownedBy(svc, uid(sb)) {
				w.remove(services, svc, "")
			}
			return nil, nil
		}
		if controller(svc) == nil && wanted == nil {
			return nil, nil
		}
		if err := foreign("service", svc, sb); err != nil {
			return nil, err
		}
		return svc, nil
	}
	if len(name(sb)) > 63 {
		//lint:ignore ST1005 these are the API server's words
		return nil, fmt.Errorf("Service %q is invalid: metadata.name: Invalid value: %q: must be no more than 63 characters", name(sb), name(sb))
	}
	svc = object{
		"metadata": object{"name": name(sb), "namespace": namespace(sb), "labels": object{nameHashLabel: hash(name(sb))}},
		"spec": object{
			"clusterIP": "None", "clusterIPs": list{"None"}, "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
			"ipFamilies": list{"IPv4"}, "ipFamilyPolicy": "SingleStack",
			"selector": object{nameHashLabel: hash(name(sb))}, "ports": servicePorts(sb),
		},
		"status": object{"loadBalancer": object{}},
	}
	own(svc, sb)
	svc, f := w.create(services, svc)
	if f != nil {
		return nil, errors.New(f.message)
	}
	return svc, nil
}

func servicePorts(sb object) list {
	ports, seen := list{}, make(map[string]bool)
	for _, c := range items(sb, "spec", "podTemplate", "spec", "containers") {
		for _, p := range items(c, "ports") {
			number, protocol, called := at(p, "containerPort"), text(p, "protocol"), text(p, "name")
			if protocol == "" {
				protocol = "TCP"
			}
			if called == "" {
				called = fmt.Sprintf("p-%v-%s", number, strings.ToLower(protocol))
			}
			if id := fmt.Sprint(number, protocol); !seen[id] {
				seen[id] = true
				ports = append(ports, object{"name": called, "protocol": protocol, "port": number, "targetPort": number})
			}
		}
	}
	return ports
}

func fqdn(svc object) string {
	return name(svc) + "." + namespace(svc) + ".svc." + clusterDomain
}

// publish is the cluster's DNS: a headless Service's name has the addresses of
// the ready pods that it selects, and no record without one.
func (w *world) publish() {
	records := make(map[string][]string)
	ready := w.where(pods, "", func(pod object) bool {
		return text(pod, "status", "podIP") != "" && !dying(pod) && isTrue(pod, "Ready")
	})
	for _, svc := range w.all(services, "") {
		selector := texts(sub(svc, "spec", "selector"))
		for _, pod := range ready {
			if len(selector) > 0 && namespace(pod) == namespace(svc) && matchesAll(sub(pod, "metadata", "labels"), selector) {
				records[fqdn(svc)] = append(records[fqdn(svc)], text(pod, "status", "podIP"))
			}
		}
	}
	if n := w.cfg.Network; n != nil {
		for host, ips := range records {
			if !slices.Equal(w.records[host], ips) {
				n.AddHost(host, ips...)
			}
		}
		for host := range w.records {
			if records[host] == nil {
				n.RemoveHost(host)
			}
		}
	}
	w.records = records
}

func matchesAll(have object, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}
