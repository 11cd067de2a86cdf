package policy_test

import (
	"testing"

	"github.com/sandlot-go/sandlot/policy"
)

func TestLabelKeys(t *testing.T) {
	for _, c := range []struct {
		name, object string
		matter, not  []string
	}{
		{"nothing asks for a label", `{"spec":{"podSelector":{}}}`, nil, []string{"a"}},
		{"a label that is asked for", `{"spec":{"podSelector":{"matchLabels":{"a":"b"}}}}`, []string{"a"}, []string{"b", "c"}},
		{"a key of an expression", `{"spec":{"podSelector":{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}}}`, []string{"a"}, []string{"DoesNotExist"}},
		{"a selector of a peer", `{"spec":{"ingress":[{"from":[{"podSelector":{"matchLabels":{"x/y":"b"}}}]}]}}`, []string{"x/y"}, []string{"x"}},
		{"a source before the key, as Cilium writes it", `{"specs":[{"endpointSelector":{"matchLabels":{"k8s:a":"b"}}}]}`, []string{"a"}, []string{"b"}},
		{"labels of the wrong type", `{"spec":{"podSelector":{"matchLabels":["a"]}}}`, []string{"anything"}, nil},
		{"expressions of the wrong type", `{"spec":{"podSelector":{"matchExpressions":{"key":"a"}}}}`, []string{"anything"}, nil},
		{"an expression without a key", `{"spec":{"podSelector":{"matchExpressions":[{"operator":"Exists"}]}}}`, []string{"anything"}, nil},
		{"an expression that is none", `{"spec":{"podSelector":{"matchExpressions":["a"]}}}`, []string{"anything"}, nil},
	} {
		has := policy.LabelKeys(parse(t, c.object)...)
		for _, key := range c.matter {
			if !has(key) {
				t.Errorf("%s: the label %s does not matter", c.name, key)
			}
		}
		for _, key := range c.not {
			if has(key) {
				t.Errorf("%s: the label %s matters", c.name, key)
			}
		}
	}
}
