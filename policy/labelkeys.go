package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/sandlot-go/sandlot/k8s"
)

// labelKeys are the keys that the selectors of a snapshot ask for. A label of another key cannot change what any of its
// policies does to a pod, such as the one by which the controller gives each pod a name of its own.
type labelKeys struct {
	all  bool // a selector could not be read: every key counts
	keys map[string]bool
}

// labelKeys collects the keys from every selector there is, wherever it stands.
func (s *snapshot) labelKeys() labelKeys {
	k := labelKeys{keys: map[string]bool{}}
	for _, objects := range [][]k8s.Object{s.core, s.cilium, s.clusterwide, s.admin, s.baseline, {s.named}} {
		for _, o := range objects {
			k.collect(map[string]any(o))
		}
	}
	return k
}

func (k *labelKeys) collect(v any) {
	if list, ok := v.([]any); ok {
		for _, e := range list {
			k.collect(e)
		}
		return
	}
	o, ok := objectOf(v)
	if !ok {
		return
	}
	for field, value := range o {
		switch field {
		case "matchLabels":
			k.collectLabels(value)
		case "matchExpressions":
			k.collectExpressions(value)
		}
		k.collect(value)
	}
}

func (k *labelKeys) collectLabels(v any) {
	labels, ok := objectOf(v)
	if !ok {
		k.all = k.all || v != nil
		return
	}
	for key := range labels {
		k.keys[key] = true
	}
}

func (k *labelKeys) collectExpressions(v any) {
	list, ok := v.([]any)
	if !ok {
		k.all = k.all || v != nil
		return
	}
	for _, e := range list {
		expression, _ := objectOf(e)
		key, ok := expression["key"].(string)
		if !ok {
			k.all = true
			continue
		}
		k.keys[key] = true
	}
}

// has reports whether a pod's label of the key can matter. A selector may write the key with a source before it, as Cilium's
// do, so one that ends in it counts as well.
func (k labelKeys) has(key string) bool {
	if k.all || k.keys[key] {
		return true
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(k.keys)), func(asked string) bool { return strings.HasSuffix(asked, key) })
}

func (k labelKeys) equal(other labelKeys) bool {
	return k.all == other.all && maps.Equal(k.keys, other.keys)
}
