package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The controller's settings, which an operator may change while it runs.
var settings = place{"agent-sandbox-system", "agent-sandbox-config"}

// labelDomains are those that a claim may bring pod labels of.
func (w *world) labelDomains() []string {
	var out []string
	listed := text(w.get(configs, settings), "data", "allowed-label-domains")
	for _, d := range strings.FieldsFunc(listed, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		out = append(out, strings.ToLower(d))
	}
	if len(out) == 0 {
		out = []string{"sandbox.users.io"}
	}
	return out
}

func within(domain string, allowed []string) bool {
	return slices.ContainsFunc(allowed, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

// checkClaimMetadata refuses what a claim may not give its pod.
func (w *world) checkClaimMetadata(claim object) error {
	allowed := w.labelDomains()
	for _, kind := range []string{"label", "annotation"} {
		set := texts(sub(claim, "spec", "additionalPodMetadata", kind+"s"))
		for _, k := range slices.Sorted(maps.Keys(set)) {
			if err := checkClaimEntry(kind, k, set[k], allowed); err != nil {
				return &refusal{"InvalidMetadata", fmt.Sprintf("invalid additionalPodMetadata: failed to validate %s %q: %v", kind, k, err)}
			}
		}
	}
	return nil
}

func checkClaimEntry(kind, key, value string, allowed []string) error {
	if why := checkKey(key); len(why) > 0 {
		return fmt.Errorf("invalid %s key: %q: %s", kind, key, strings.Join(why, "; "))
	}
	domain, _, prefixed := strings.Cut(strings.ToLower(key), "/")
	if kind == "annotation" {
		if prefixed && within(domain, []string{"kubernetes.io", "k8s.io", coreGroup}) && key != evictNote {
			return fmt.Errorf("restricted system domain: %q is not allowed in AdditionalPodMetadata", key)
		}
		return nil
	}
	if strings.EqualFold(key, "app") && strings.EqualFold(value, "sandbox-router") {
		return fmt.Errorf("restricted system label value: %q=%q is not allowed in AdditionalPodMetadata", key, value)
	}
	if !prefixed {
		return fmt.Errorf("label %q must have a domain prefix (e.g. 'sandbox.users.io/my-label') to prevent opting into unintended policy domains", key)
	}
	if !within(domain, allowed) {
		return fmt.Errorf("label domain %q is not in the allowlist", domain)
	}
	if why := checkLabelValue(value); len(why) > 0 {
		return fmt.Errorf("invalid label value: %q does not match allowed pattern: %s", value, strings.Join(why, "; "))
	}
	return nil
}
