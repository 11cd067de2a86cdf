package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// podLabels are the labels that the configuration puts on a pod: the profile, then the extra ones.
func (e *Egress) podLabels(extra map[string]string) (map[string]string, error) {
	labels := make(map[string]string)
	if e != nil && e.Profile != "" {
		labels[e.ProfileLabelKey] = e.Profile
	}
	for key, value := range extra {
		if _, taken := labels[key]; taken {
			return nil, &ConfigError{Reason: InvalidProfile, Field: "profileLabelKey", Value: key, Problem: "is also the key of another label of the pod"}
		}
		labels[key] = value
	}
	return labels, nil
}

// perSandboxLabel is the label that a sandbox's own policy selects by. Its value is the name of the claim or Sandbox, which
// the host chooses, so that it is known before the object exists.
func (e *Egress) perSandboxLabel(objectName string) map[string]string {
	if e == nil || e.PerSandbox == nil {
		return nil
	}
	return map[string]string{e.PerSandbox.labelKey(): objectName}
}

// directLabels are all labels of a pod that is created without a claim: the template's own, then the template label, then
// what the configuration adds.
func directLabels(template string, own, composed map[string]string) map[string]string {
	labels := maps.Clone(own)
	if labels == nil {
		labels = make(map[string]string)
	}
	labels[TemplateLabelKey] = template
	maps.Copy(labels, composed)
	return labels
}

// MissingLabels returns the entries of want that have lacks, as sorted key=value pairs. A pod without them is not selected by
// the policy that was written for it.
func MissingLabels(want, have map[string]string) []string {
	var missing []string
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			missing = append(missing, key+"="+value)
		}
	}
	slices.Sort(missing)
	return missing
}

// labelText writes labels as sorted pairs, for messages.
func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return "(none)"
	}
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, fmt.Sprintf("%s=%s", key, labels[key]))
	}
	return strings.Join(pairs, " ")
}
