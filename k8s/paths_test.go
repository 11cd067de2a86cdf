package k8s_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
)

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		r        k8s.Resource
		ns, name string
		want     string
	}{
		{k8s.SandboxClaims, "ns", "", "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxclaims"},
		{k8s.SandboxClaims, "ns", "c", "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxclaims/c"},
		{k8s.SandboxTemplates, "ns", "t", "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxtemplates/t"},
		{k8s.SandboxWarmPools, "ns", "p", "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxwarmpools/p"},
		{k8s.Sandboxes, "ns", "s", "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes/s"},
		{k8s.Pods, "ns", "a.b", "/api/v1/namespaces/ns/pods/a.b"},
		{k8s.PersistentVolumeClaims, "ns", "", "/api/v1/namespaces/ns/persistentvolumeclaims"},
		{k8s.NetworkPolicies, "ns", "", "/apis/networking.k8s.io/v1/namespaces/ns/networkpolicies"},
		{k8s.CiliumNetworkPolicies, "ns", "", "/apis/cilium.io/v2/namespaces/ns/ciliumnetworkpolicies"},
		{k8s.CiliumClusterwideNetworkPolicies, "", "", "/apis/cilium.io/v2/ciliumclusterwidenetworkpolicies"},
		{k8s.ValidatingAdmissionPolicies, "ignored", "v", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/v"},
		{k8s.ValidatingAdmissionPolicyBindings, "", "v", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/v"},
		{k8s.SelfSubjectAccessReviews, "", "", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"},
		{k8s.Namespaces, "", "ns", "/api/v1/namespaces/ns"},
	} {
		got, err := c.r.Path(c.ns, c.name)
		if err != nil || got != c.want {
			t.Errorf("%s %q %q: got %q, %v, want %q", c.r.Plural, c.ns, c.name, got, err, c.want)
		}
	}
	if got := k8s.Pods.APIVersion() + " " + k8s.Sandboxes.APIVersion(); got != "v1 agents.x-k8s.io/v1beta1" {
		t.Errorf("API versions are %q", got)
	}
}

func TestNoNameLeavesItsSegment(t *testing.T) {
	long := strings.Repeat("a", 253)
	for _, name := range []string{"a", "0", "a-b", "a.b", "namzu-task-00000000-0000-4000-8000-000000000003", long} {
		if err := k8s.CheckName(name); err != nil {
			t.Errorf("a good name was refused: %v", err)
		}
	}
	for _, name := range []string{
		"", ".", "..", "../secrets", "a/b", "a/../b", "%2e%2e", "a%2fb", "a?b", "a#b", "a b", "a\nb", "A", "a_b", "-a", "a-", "a.",
		".a", "a..b", "a.-b", "ä", "a\x00", `a\b`, "a;b", "a:b", long + "a",
	} {
		err := k8s.CheckName(name)
		if _, ok := errors.AsType[*k8s.NameError](err); !ok {
			t.Errorf("name %q: got %v, want a NameError", name, err)
		}
		if name == "" {
			continue // the collection
		}
		if p, err := k8s.Pods.Path("ns", name); err == nil {
			t.Errorf("name %q makes the path %s", name, p)
		}
	}
	for _, ns := range []string{"", ".", "..", "a.b", "a/b", "A", "-a", strings.Repeat("a", 64)} {
		if p, err := k8s.Pods.Path(ns, "a"); err == nil {
			t.Errorf("namespace %q makes the path %s", ns, p)
		}
	}
	if err := k8s.CheckNamespace(strings.Repeat("a", 63)); err != nil {
		t.Errorf("a namespace of 63 characters: %v", err)
	}
	for _, r := range []k8s.Resource{
		{Version: "v1", Plural: "../x"}, {Version: "../..", Plural: "pods"}, {Version: "v1", Plural: "pods/log"},
		{Group: "a/b", Version: "v1", Plural: "x"}, {Version: "v1"}, {Plural: "pods"},
	} {
		if p, err := r.Path("ns", "a"); err == nil {
			t.Errorf("resource %+v makes the path %s", r, p)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"a", "..", "a/b", "%2e%2e%2f", "a?x", "a.b-c"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, ns, name string) {
		p, err := k8s.Sandboxes.Path(ns, name)
		if err != nil {
			return
		}
		u, err := url.Parse("https://h" + p + "?q")
		if err != nil || u.Path != p || u.EscapedPath() != p || u.JoinPath().Path != p {
			t.Fatalf("%q %q: the path %q is read as %v, %v", ns, name, p, u, err)
		}
		want := 6
		if name != "" {
			want++
		}
		if got := strings.Count(p, "/"); got != want {
			t.Fatalf("%q %q: %s has %d segments, want %d", ns, name, p, got, want)
		}
	})
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		why, key, value string
		ok              bool
	}{
		{"plain", "app", "sandbox", true},
		{"with a domain", "sandbox.namzu.ai/template", "task", true},
		{"no value", "app", "", true},
		{"63 characters", strings.Repeat("k", 63), strings.Repeat("V", 63), true},
		{"key of 64", strings.Repeat("k", 64), "v", false},
		{"value of 64", "k", strings.Repeat("v", 64), false},
		{"80 characters of base64", "k", strings.Repeat("QUJD", 20), false},
		{"base64 padding", "k", "QUI=", false},
		{"empty key", "", "v", false},
		{"empty name", "a.b/", "v", false},
		{"empty domain", "/a", "v", false},
		{"two slashes", "a/b/c", "v", false},
		{"upper case domain", "A.b/c", "v", false},
		{"blank", "k", "a b", false},
		{"dot at the end", "k", "a.", false},
		{"not ASCII", "k", "ä", false},
	} {
		if err := k8s.CheckLabel(c.key, c.value); (err == nil) != c.ok {
			t.Errorf("%s: CheckLabel(%q, %q) = %v", c.why, c.key, c.value, err)
		} else if err != nil && !c.ok && c.key == "k" && !strings.Contains(err.Error(), "label k") {
			t.Errorf("%s: %v does not name the key", c.why, err)
		}
	}
}

func TestSelectors(t *testing.T) {
	for _, c := range []struct {
		in         string
		narrow, ok bool
	}{
		{"app=x", true, true},
		{"app==x", true, true},
		{" app = x , b!=c ", true, true},
		{"a.b/c in (x, y),!d", true, true},
		{"a!=b", false, true},
		{"a notin (x)", false, true},
		{"!a", false, true},
		{"a", false, true},
		{"", false, false},
		{" \t", false, false},
		{",", false, false},
		{"a=b,", false, false},
		{"a===b", false, false},
		{"a in x", false, false},
		{"a in (x", false, false},
		{"a like (x)", false, false},
		{"a b", false, false},
		{"=x", false, false},
		{"a=" + strings.Repeat("v", 64), false, false},
	} {
		narrow, err := k8s.CheckSelector(c.in)
		if (err == nil) != c.ok || c.ok && narrow != c.narrow {
			t.Errorf("CheckSelector(%q) = %v, %v, want %v, ok %v", c.in, narrow, err, c.narrow, c.ok)
		}
	}
}

func FuzzCheckSelector(f *testing.F) {
	for _, s := range []string{"a=b", "a in (b,c),!d", "((,", "a notin ()", "=", "!"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		narrow, err := k8s.CheckSelector(s)
		if err == nil && strings.TrimSpace(s) == "" || err != nil && narrow {
			t.Fatalf("CheckSelector(%q) = %v, %v", s, narrow, err)
		}
	})
}
