package sim

import (
	"fmt"
	"slices"
)

// blueprint is the part of a template's spec that a sandbox's spec takes over.
// The controller's typed copy writes a container's resources even when empty.
func blueprint(template object) object {
	out := object{}
	for _, k := range []string{"podTemplate", "service", "volumeClaimTemplates"} {
		if v := at(template, "spec", k); v != nil {
			out[k] = deepCopy(v)
		}
	}
	for _, kind := range []string{"containers", "initContainers"} {
		for _, c := range items(out, "podTemplate", "spec", kind) {
			need(c.(object), "resources")
		}
	}
	return out
}

// secure adds what the controller sets on pods of pools and claims, and on no
// others: a sandbox created directly gets none of it.
func secure(template object, podSpec object) {
	if _, ok := podSpec["automountServiceAccountToken"]; !ok {
		podSpec["automountServiceAccountToken"] = false
	}
	managed := text(template, "spec", "networkPolicyManagement") != "Unmanaged" && sub(template, "spec", "networkPolicy") == nil
	if _, ok := podSpec["dnsPolicy"]; managed && !ok {
		podSpec["dnsPolicy"] = "None"
		podSpec["dnsConfig"] = object{"nameservers": list{"8.8.8.8", "1.1.1.1"}}
	}
}

// createCustom is create for the controller's own custom resources, which get
// the schema's defaults like anybody's.
func (w *world) createCustom(r *resource, o object) (object, *failure) {
	w.schema(r).fill(o)
	return w.create(r, o)
}

// coldStart makes a sandbox for the claim, of its own name.
func (w *world) coldStart(claim, template object) (object, error) {
	spec := blueprint(template)
	sb := object{
		"metadata": object{
			"name": name(claim), "namespace": namespace(claim),
			"annotations": object{templateNote: name(template)},
			"labels":      object{claimLabel: uid(claim), launchLabel: "cold"},
		},
		"spec": spec,
	}
	if err := addVolumes(claim, template, spec); err != nil {
		return nil, err
	}
	if err := dressSandbox(sb, claim, template); err != nil {
		return nil, err
	}
	podSpec := need(spec, "podTemplate", "spec")
	if err := addEnv(claim, template, podSpec); err != nil {
		return nil, err
	}
	secure(template, podSpec)
	own(sb, claim)
	sb, f := w.createCustom(sandboxes, sb)
	if f != nil {
		return nil, fmt.Errorf("sandbox create error: %s", f.message)
	}
	return sb, nil
}

func addVolumes(claim, template, spec object) error {
	mine := items(claim, "spec", "volumeClaimTemplates")
	if len(mine) == 0 {
		return nil
	}
	fail := func(format string, args ...any) error {
		return &refusal{"VolumeClaimTemplatesError", "failed to merge volume claim templates: " + fmt.Sprintf(format, args...)}
	}
	policy := text(template, "spec", "volumeClaimTemplatesPolicy")
	if policy != "Allowed" && policy != "Overrides" {
		return fail("volume claim templates are disallowed by the template")
	}
	theirs := items(spec, "volumeClaimTemplates")
	for _, v := range mine {
		n := text(v, "metadata", "name")
		i := slices.IndexFunc(theirs, func(t any) bool { return text(t, "metadata", "name") == n })
		switch {
		case i < 0:
			theirs = append(theirs, deepCopy(v))
		case policy == "Allowed":
			return fail("overriding volume claim templates is forbidden by the template: cannot override template volume %q", n)
		default:
			theirs[i] = deepCopy(v)
		}
	}
	spec["volumeClaimTemplates"] = theirs
	return nil
}

func addEnv(claim, template, podSpec object) error {
	policy := text(template, "spec", "envVarsInjectionPolicy")
	env := items(claim, "spec", "env")
	if len(env) > 0 && policy != "Allowed" && policy != "Overrides" {
		return &refusal{"EnvVarsInjectionRejected", "environment variable injection rejected: environment variable injection is not allowed by the template policy"}
	}
	containers := slices.Concat(items(podSpec, "containers"), items(podSpec, "initContainers"))
	for _, e := range env {
		variable, target := text(e, "name"), text(e, "containerName")
		i := 0
		if target != "" {
			i = slices.IndexFunc(containers, func(c any) bool { return text(c, "name") == target })
		}
		if i < 0 || i >= len(containers) {
			return fmt.Errorf("target container %q not found in template for environment variable %q", target, variable)
		}
		c := containers[i].(object)
		vars := items(c, "env")
		add := object{"name": variable, "value": text(e, "value")}
		have := slices.IndexFunc(vars, func(v any) bool { return text(v, "name") == variable })
		switch {
		case have < 0:
			c["env"] = append(vars, add)
		case policy != "Overrides":
			return fmt.Errorf("environment variable override is not allowed by the template policy for variable %q", variable)
		default:
			vars[have] = add
		}
	}
	return nil
}
