package podbind

import (
	"fmt"
	"net/netip"
)

// An AddressMode says where the guest agent of a sandbox is dialled.
type AddressMode string

// The address modes.
const (
	// ByService dials the name of the Sandbox's Service, the first pod address
	// in its status where it has no name, and the pod's own where it has neither.
	ByService AddressMode = "service"
	// ByPodIP dials the address of the very pod whose uid was read, and no
	// other: address and token cannot come to name two pods.
	ByPodIP AddressMode = "pod-ip"
)

// Host returns where the guest in pod is dialled, or "" while that is not known.
func Host(mode AddressMode, s State, pod Pod) string {
	switch {
	case mode == ByPodIP:
		return pod.IP
	case s.FQDN != "":
		return s.FQDN
	case len(s.PodIPs) > 0:
		return s.PodIPs[0]
	}
	return pod.IP
}

// CheckHost refuses what cannot be the address of a pod, so that nothing else
// is ever dialled on a status' word.
func CheckHost(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" {
			return fmt.Errorf("podbind: %s is no address of a pod", host)
		}
		return nil
	}
	if !dnsName(host) {
		return fmt.Errorf("podbind: %.80q is neither an IP address nor a DNS name", host)
	}
	return nil
}

func dnsName(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	label := 0
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
			label++
		case c == '-' && label > 0:
			label++
		case c == '.' && label > 0 && s[i-1] != '-':
			label = 0
		default:
			return false
		}
		if label > 63 {
			return false
		}
	}
	return s[len(s)-1] != '-'
}
