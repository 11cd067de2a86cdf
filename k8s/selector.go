package k8s

import (
	"fmt"
	"strings"
)

// CheckSelector refuses what is no label selector. It reports whether the
// selector is narrow: it asks for a value of at least one label, so that it
// cannot select all objects that merely lack something.
// See https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/.
func CheckSelector(selector string) (narrow bool, err error) {
	rest := strings.TrimSpace(selector)
	if rest == "" {
		return false, fmt.Errorf("the label selector is empty")
	}
	for rest != "" {
		var requirement string
		requirement, rest = cutRequirement(rest)
		positive, err := checkRequirement(strings.TrimSpace(requirement))
		if err != nil {
			return false, fmt.Errorf("label selector %.300q: %w", selector, err)
		}
		narrow = narrow || positive
	}
	return narrow, nil
}

// cutRequirement cuts at the first comma outside parentheses.
func cutRequirement(s string) (first, rest string) {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				if strings.TrimSpace(s[i+1:]) == "" {
					return s[:i] + ",", "" // a dangling comma is refused with its requirement
				}
				return s[:i], s[i+1:]
			}
		}
	}
	return s, ""
}

func checkRequirement(s string) (positive bool, err error) {
	if key, missing := strings.CutPrefix(s, "!"); missing {
		return false, CheckLabelKey(strings.TrimSpace(key))
	}
	for _, op := range []string{"!=", "==", "="} {
		if key, value, ok := strings.Cut(s, op); ok {
			if err := CheckLabelKey(strings.TrimSpace(key)); err != nil {
				return false, err
			}
			return op != "!=", CheckLabelValue(strings.TrimSpace(value))
		}
	}
	head, values, set := strings.Cut(s, "(")
	if !set {
		return false, CheckLabelKey(s)
	}
	fields := strings.Fields(head)
	values, closed := strings.CutSuffix(values, ")")
	if len(fields) != 2 || fields[1] != "in" && fields[1] != "notin" || !closed {
		return false, fmt.Errorf("%.100q is no requirement", s)
	}
	if err := CheckLabelKey(fields[0]); err != nil {
		return false, err
	}
	for value := range strings.SplitSeq(values, ",") {
		if err := CheckLabelValue(strings.TrimSpace(value)); err != nil {
			return false, err
		}
	}
	return fields[1] == "in", nil
}
