package policy

import (
	"fmt"
	"strings"
)

// Refusal says what a check found.
type Refusal string

// The refusals. NotApplied and Mismatch are about the named object; NoEnforcingPolicy and NoCoveringPolicy mean that nothing
// that selects the pod denies anything.
const (
	NotApplied         Refusal = "not-applied"
	Mismatch           Refusal = "mismatch"
	PolicyWidensEgress Refusal = "policy-widens-egress"
	NoEnforcingPolicy  Refusal = "no-enforcing-policy"
	PortOpen           Refusal = "port-open"
	NoCoveringPolicy   Refusal = "no-covering-policy"
	PolicyNotEvaluable Refusal = "not-evaluable"
)

// An Error is a boundary that is not proved, or not there. Nothing may be handed out behind it.
type Error struct {
	Refusal   Refusal
	Direction string // egress, ingress
	Subject   string // from Pod.Subject
	PodLabels map[string]string
	Kind      Kind // of the configured policy, for egress
	AgentPort int  // for ingress
	Culprit   *Examined
	Examined  []Examined
	Unread    []Unread

	// For NotApplied and Mismatch:
	ResourceKind, Path string
	Field, Detail      string // the first field that differs, and how; Detail also says why no policy can protect the pod

	Err error
}

func (e *Error) Unwrap() error { return e.Err }

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("policy: ")
	if e.Subject != "" {
		fmt.Fprintf(&b, "%s: ", e.Subject)
	}
	b.WriteString(e.summary())
	if e.Refusal == NotApplied || e.Refusal == Mismatch {
		return b.String()
	}
	if e.Direction == egress.name {
		fmt.Fprintf(&b, "; configured is %s", e.Kind)
	}
	fmt.Fprintf(&b, "; the pod's labels are %s", labelText(e.PodLabels))
	if len(e.Examined) > 0 {
		fmt.Fprintf(&b, "; examined %s", examinedText(e.Examined))
	}
	for _, u := range e.Unread {
		fmt.Fprintf(&b, "; not read: %s at %s (%s)", u.Resource, u.Path, u.Reason)
	}
	fmt.Fprintf(&b, ". %s", e.remedy())
	return b.String()
}

func (e *Error) summary() string {
	by := "a policy"
	if c := e.Culprit; c != nil {
		by = c.text()
	}
	if e.Detail != "" && e.Refusal != Mismatch {
		return e.Detail
	}
	switch e.Refusal {
	case NotApplied:
		return fmt.Sprintf("%s %s is not there; apply the object that the configuration translates to", e.ResourceKind, e.Path)
	case Mismatch:
		return fmt.Sprintf("%s %s is not what the configuration translates to: %s", e.ResourceKind, e.Path, e.Detail)
	case PolicyWidensEgress:
		return by + " lets out more than is configured"
	case NoEnforcingPolicy:
		return "no policy that selects the pod denies egress, so that everything is let out"
	case PortOpen:
		return fmt.Sprintf("%s opens agent port %d", by, e.AgentPort)
	case NoCoveringPolicy:
		return fmt.Sprintf("no policy that selects the pod denies ingress, so that agent port %d is open to everyone", e.AgentPort)
	}
	if e.Culprit == nil && len(e.Unread) > 0 {
		return fmt.Sprintf("the policies for %s cannot be read", e.Direction)
	}
	return by + " cannot be judged"
}

// remedy says what an operator can do. Policies add up, which is why none is excused by another.
func (e *Error) remedy() string {
	field, optOut := "Egress", "set Egress.Verify to named-object-only to look at the named object alone"
	if e.Direction == ingress.name {
		field, optOut = "Ingress", "set Ingress.InsecureUnverified when the boundary is no Kubernetes policy"
	}
	var missing []string
	for _, u := range e.Unread {
		if u.Required && u.Why == UnreadForbidden {
			missing = append(missing, u.Rule)
		} else if u.Required {
			missing = append(missing, fmt.Sprintf("set %s.Engine to one that the cluster serves", field))
		}
	}
	switch {
	case len(missing) > 0:
		return fmt.Sprintf("%s; or %s", upperFirst(strings.Join(missing, " and ")), optOut)
	case e.Refusal == PolicyWidensEgress || e.Refusal == PortOpen:
		return "Policies that select a pod add up: narrow that one or remove it; or " + optOut
	case e.Refusal == PolicyNotEvaluable:
		return "What cannot be judged is not let pass: rewrite that policy; or " + optOut
	case e.Detail != "":
		return "Take hostNetwork out of the template"
	case e.Refusal == NoEnforcingPolicy:
		return "Apply a policy of type Egress that selects these labels; or " + optOut
	}
	return fmt.Sprintf("Apply a policy of type Ingress that selects these labels, for instance by %s; or %s", TemplateLabelKey, optOut)
}

func upperFirst(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

// text names a policy with its verdict's reason.
func (x Examined) text() string {
	text := x.Kind + "/" + x.Name
	var why []string
	for _, part := range []string{x.Rule, x.Detail} {
		if part != "" {
			why = append(why, part)
		}
	}
	if x.Detail == "" && x.Peer != "" {
		why = append(why, x.Peer)
	}
	if len(why) > 0 {
		text += " (" + strings.Join(why, ": ") + ")"
	}
	return text
}

// examinedText lists what was examined. Policies that do not select the pod are counted only.
func examinedText(examined []Examined) string {
	const most = 20
	var parts []string
	others, left := 0, 0
	for _, x := range examined {
		switch {
		case x.Verdict == DoesNotSelect:
			others++
		case len(parts) < most:
			part := fmt.Sprintf("%s/%s: %s", x.Kind, x.Name, x.Verdict)
			if x.Detail != "" {
				part += " (" + excerpt(x.Detail, 120) + ")"
			}
			parts = append(parts, part)
		default:
			left++
		}
	}
	if left > 0 {
		parts = append(parts, fmt.Sprintf("%d more that select it", left))
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d that do not select it", others))
	}
	return strings.Join(parts, ", ")
}
