package podbind_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
)

func template(t *testing.T, spec string) k8s.Object {
	t.Helper()
	o, err := k8s.ParseObject([]byte(`{"metadata":{"name":"task"},"spec":` + spec + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSandboxBody(t *testing.T) {
	expiry := time.Date(2026, 11, 29, 20, 51, 26, 999e6, time.UTC)
	for _, c := range []struct {
		name, template string
		spec           podbind.SandboxSpec
		path           []string
		want           any
	}{
		{"the template's label is added where there are none", `{"podTemplate":{"spec":{}}}`,
			podbind.SandboxSpec{}, []string{"podTemplate", "metadata", "labels"}, map[string]any{"sandbox.namzu.ai/template": "task"}},
		{"labels of the template are kept, and its name cannot be forged", `{"podTemplate":{"metadata":{"labels":{"a":"b","sandbox.namzu.ai/template":"other"}},"spec":{}}}`,
			podbind.SandboxSpec{}, []string{"podTemplate", "metadata", "labels"}, map[string]any{"a": "b", "sandbox.namzu.ai/template": "task"}},
		{"the caller's labels win over the template's", `{"podTemplate":{"metadata":{"labels":{"a":"b"}},"spec":{}}}`,
			podbind.SandboxSpec{Labels: map[string]string{"a": "c"}}, []string{"podTemplate", "metadata", "labels"}, map[string]any{"a": "c", "sandbox.namzu.ai/template": "task"}},
		{"other metadata is kept", `{"podTemplate":{"metadata":{"annotations":{"x":"y"}},"spec":{}}}`,
			podbind.SandboxSpec{}, []string{"podTemplate", "metadata", "annotations"}, map[string]any{"x": "y"}},
		{"no service account token unless the template asks for one", `{"podTemplate":{"spec":{}}}`,
			podbind.SandboxSpec{}, []string{"podTemplate", "spec", "automountServiceAccountToken"}, false},
		{"the template may ask for one", `{"podTemplate":{"spec":{"automountServiceAccountToken":true}}}`,
			podbind.SandboxSpec{}, []string{"podTemplate", "spec", "automountServiceAccountToken"}, true},
		{"the runtime class of the configuration", `{"podTemplate":{"spec":{"runtimeClassName":"runc"}}}`,
			podbind.SandboxSpec{RuntimeClass: "kata"}, []string{"podTemplate", "spec", "runtimeClassName"}, "kata"},
		{"the runtime class of the template", `{"podTemplate":{"spec":{"runtimeClassName":"runc"}}}`,
			podbind.SandboxSpec{}, []string{"podTemplate", "spec", "runtimeClassName"}, "runc"},
		{"a Service whatever the template says", `{"service":false,"podTemplate":{"spec":{}}}`,
			podbind.SandboxSpec{}, []string{"service"}, true},
		{"the expiry in whole seconds, rounded down", `{"podTemplate":{"spec":{}}}`,
			podbind.SandboxSpec{Expiry: expiry}, []string{"shutdownTime"}, "2026-11-29T20:51:26Z"},
		{"deleted when it expires", `{"podTemplate":{"spec":{}}}`,
			podbind.SandboxSpec{}, []string{"shutdownPolicy"}, "Delete"},
		{"volume claims are copied", `{"podTemplate":{"spec":{}},"volumeClaimTemplates":[{"metadata":{"name":"d"}}]}`,
			podbind.SandboxSpec{}, []string{"volumeClaimTemplates"}, []any{map[string]any{"metadata": map[string]any{"name": "d"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := template(t, c.template)
			before := source.Clone()
			body, err := podbind.SandboxBody(source, c.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := body.Field(append([]string{"spec"}, c.path...)...); !reflect.DeepEqual(got, c.want) {
				t.Errorf("spec.%v: got %#v, want %#v", c.path, got, c.want)
			}
			if !reflect.DeepEqual(source, before) {
				t.Error("the template was changed by copying it")
			}
		})
	}
	for _, broken := range []string{`{}`, `{"podTemplate":null}`, `{"podTemplate":{"spec":[]}}`, `{"podTemplate":{"metadata":{}}}`} {
		if _, err := podbind.SandboxBody(template(t, broken), podbind.SandboxSpec{}); err == nil {
			t.Errorf("template with spec %s was copied", broken)
		}
	}
}

func TestHost(t *testing.T) {
	pod := podbind.Pod{Name: "p", UID: "u", IP: "10.0.0.9"}
	for _, c := range []struct {
		name  string
		mode  podbind.AddressMode
		state podbind.State
		pod   podbind.Pod
		want  string
	}{
		{"the Service's name comes first", podbind.ByService, podbind.State{FQDN: "p.ns.svc", PodIPs: []string{"10.0.0.1"}}, pod, "p.ns.svc"},
		{"then the first address of the status", podbind.ByService, podbind.State{PodIPs: []string{"10.0.0.1", "10.0.0.2"}}, pod, "10.0.0.1"},
		{"then the pod's own", podbind.ByService, podbind.State{}, pod, "10.0.0.9"},
		{"and never an empty one", podbind.ByService, podbind.State{}, podbind.Pod{}, ""},
		{"by pod IP only the pod's own counts", podbind.ByPodIP, podbind.State{FQDN: "p.ns.svc", PodIPs: []string{"10.0.0.1"}}, pod, "10.0.0.9"},
		{"which may not be there yet", podbind.ByPodIP, podbind.State{FQDN: "p.ns.svc", PodIPs: []string{"10.0.0.1"}}, podbind.Pod{}, ""},
	} {
		if got := podbind.Host(c.mode, c.state, c.pod); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	for _, good := range []string{"10.0.0.1", "fd00::1", "pool-x.ns.svc.cluster.local", "::ffff:10.0.0.1"} {
		if err := podbind.CheckHost(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "0.0.0.0", "::", "224.0.0.1", "fe80::1%eth0", "a b", "host:80", "-a", "a-", "a..b", "a/b", "ä.de"} {
		if podbind.CheckHost(bad) == nil {
			t.Errorf("%q is accepted as an address", bad)
		}
	}
}

func TestMissingLabel(t *testing.T) {
	have := map[string]string{"a": "1", "b": "2"}
	if _, _, missing := podbind.MissingLabel(have, map[string]string{"a": "1"}); missing {
		t.Error("a label that is there is missing")
	}
	if key, value, _ := podbind.MissingLabel(have, map[string]string{"c": "3", "b": "9"}); key != "b" || value != "9" {
		t.Errorf("got %s=%s, want the first in order, b=9", key, value)
	}
	if got := podbind.FormatLabels(have); got != "a=1,b=2" {
		t.Errorf("got %q", got)
	}
}
