package podbind

import (
	"fmt"
	"maps"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// TemplateLabel is the label that every pod made from a template carries, by
// the template or by SandboxBody. Network policies select pods by it.
const TemplateLabel = "sandbox.namzu.ai/template"

// Stamp formats an expiry for the API server: UTC, whole seconds, rounded down,
// which is what the controller makes of it anyway.
func Stamp(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }

// A TemplateError reports a SandboxTemplate that no Sandbox can be copied from.
type TemplateError struct{ Template, Problem string }

func (e *TemplateError) Error() string {
	return fmt.Sprintf("podbind: SandboxTemplate %s %s", e.Template, e.Problem)
}

// A SandboxSpec is what a Sandbox gets beside the copy of its template.
type SandboxSpec struct {
	Name, Namespace string
	Expiry          time.Time
	RuntimeClass    string            // "" leaves the template's
	Labels          map[string]string // more labels for the pod; they win over the template's
}

// SandboxBody copies a SandboxTemplate into a Sandbox. The copy is verbatim but
// for two things that the controller adds for pools and claims and for nobody
// else: the label that names the template, and automountServiceAccountToken,
// which is set to false where the template leaves it open: the pod would
// otherwise hold a token for the API server.
func SandboxBody(template k8s.Object, s SandboxSpec) (k8s.Object, error) {
	podTemplate := template.Map("spec", "podTemplate").Clone()
	pod := podTemplate.Map("spec")
	if pod == nil {
		return nil, &TemplateError{template.Name(), "carries no spec.podTemplate.spec"}
	}
	if s.RuntimeClass != "" {
		pod["runtimeClassName"] = s.RuntimeClass
	}
	if pod["automountServiceAccountToken"] == nil {
		pod["automountServiceAccountToken"] = false
	}
	metadata := podTemplate.Map("metadata")
	if metadata == nil {
		metadata = k8s.Object{}
	}
	labels := map[string]any{}
	maps.Copy(labels, metadata.Map("labels"))
	labels[TemplateLabel] = template.Name()
	for k, v := range s.Labels {
		labels[k] = v
	}
	metadata["labels"] = labels
	podTemplate["metadata"] = map[string]any(metadata)

	spec := map[string]any{
		"operatingMode":  "Running",
		"service":        true,
		"shutdownTime":   Stamp(s.Expiry),
		"shutdownPolicy": "Delete",
		"podTemplate":    map[string]any(podTemplate),
	}
	if volumes := template.Field("spec", "volumeClaimTemplates"); volumes != nil {
		spec["volumeClaimTemplates"] = k8s.Object{"v": volumes}.Clone()["v"]
	}
	return k8s.Object{
		"apiVersion": k8s.Sandboxes.Group + "/" + k8s.Sandboxes.Version,
		"kind":       k8s.Sandboxes.Kind,
		"metadata":   map[string]any{"name": s.Name, "namespace": s.Namespace},
		"spec":       spec,
	}, nil
}
