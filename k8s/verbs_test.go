package k8s_test

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sandlot-go/sandlot/k8s"
)

const claimsPath = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxclaims"

func TestWhatEachVerbSends(t *testing.T) {
	strict := url.Values{"fieldValidation": {"Strict"}}
	for _, c := range []struct {
		why    string
		do     func(t *testing.T, c *k8s.Client) (k8s.Object, error)
		answer string
		want   request // Header holds what must be there
	}{
		{"Get", func(t *testing.T, c *k8s.Client) (k8s.Object, error) {
			return c.Get(t.Context(), k8s.SandboxClaims, "a")
		}, claim("a"), request{Method: "GET", Path: claimsPath + "/a", Query: url.Values{}}},

		{"Create fills in version and kind, and is strict", func(t *testing.T, c *k8s.Client) (k8s.Object, error) {
			return c.Create(t.Context(), k8s.SandboxClaims, k8s.Object{"metadata": k8s.Object{"name": "a"}, "spec": k8s.Object{"x": "<&>"}})
		}, claim("a"), request{
			Method: "POST", Path: claimsPath, Query: strict, Header: http.Header{"Content-Type": {"application/json"}},
			Body: `{"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxClaim","metadata":{"name":"a"},"spec":{"x":"<&>"}}`,
		}},

		{"MergePatch sends the patch as it is", func(t *testing.T, c *k8s.Client) (k8s.Object, error) {
			return c.MergePatch(t.Context(), k8s.SandboxClaims, "a", k8s.Object{"spec": k8s.Object{"lifecycle": nil}})
		}, claim("a"), request{
			Method: "PATCH", Path: claimsPath + "/a", Query: strict, Header: http.Header{"Content-Type": {"application/merge-patch+json"}},
			Body: `{"spec":{"lifecycle":null}}`,
		}},

		{"JSONPatch keeps the order of its operations", func(t *testing.T, c *k8s.Client) (k8s.Object, error) {
			return c.JSONPatch(t.Context(), k8s.SandboxClaims, "a", []k8s.PatchOp{
				{Op: "test", Path: "/metadata/uid", Value: "u<"},
				{Op: "remove", Path: "/b"},
				{Op: "add", Path: "/c", Value: nil},
				{Op: "move", From: "/d", Path: "/e"},
				{Op: "replace", Path: "", Value: map[string]any{"z": 1}},
			})
		}, claim("a"), request{
			Method: "PATCH", Path: claimsPath + "/a", Query: strict, Header: http.Header{"Content-Type": {"application/json-patch+json"}},
			Body: `[{"op":"test","path":"/metadata/uid","value":"u<"},{"op":"remove","path":"/b"},{"op":"add","path":"/c","value":null},` +
				`{"from":"/d","op":"move","path":"/e"},{"op":"replace","path":"","value":{"z":1}}]`,
		}},

		{"Delete without options has no body", func(t *testing.T, c *k8s.Client) (k8s.Object, error) {
			return c.Delete(t.Context(), k8s.SandboxClaims, "a", k8s.DeleteOptions{})
		}, `{"kind":"Status","status":"Success"}`, request{Method: "DELETE", Path: claimsPath + "/a", Query: url.Values{}}},

		{"Delete with options", func(t *testing.T, c *k8s.Client) (k8s.Object, error) {
			return c.Delete(t.Context(), k8s.SandboxClaims, "a", k8s.DeleteOptions{UID: "u", ResourceVersion: "5", Propagation: "Foreground"})
		}, claim("a"), request{
			Method: "DELETE", Path: claimsPath + "/a", Query: url.Values{}, Header: http.Header{"Content-Type": {"application/json"}},
			Body: `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"5","uid":"u"},"propagationPolicy":"Foreground"}`,
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := serve(t, always(200, c.answer))
				if _, err := c.do(t, client); err != nil {
					t.Fatal(err)
				}
				got := server.one(t)
				if got.Method != c.want.Method || got.Path != c.want.Path || !reflect.DeepEqual(got.Query, c.want.Query) || got.Body != c.want.Body {
					t.Errorf("got  %s %s?%v %s\nwant %s %s?%v %s", got.Method, got.Path, got.Query, got.Body,
						c.want.Method, c.want.Path, c.want.Query, c.want.Body)
				}
				if ct := got.Header["Content-Type"]; !reflect.DeepEqual(ct, c.want.Header["Content-Type"]) {
					t.Errorf("Content-Type is %q, want %q", ct, c.want.Header["Content-Type"])
				}
				for k, want := range map[string]string{"Authorization": "Bearer " + secret, "Accept": "application/json"} {
					if v := got.Header.Get(k); v != want {
						t.Errorf("%s is %q, want %q", k, v, want)
					}
				}
				if ua := got.Header.Get("User-Agent"); !strings.HasPrefix(ua, "sandlot/") {
					t.Errorf("User-Agent is %q, want sandlot and a version", ua)
				}
			})
		})
	}
}

func TestCreateLeavesItsArgumentAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, always(201, claim("a")))
		o := k8s.Object{"metadata": k8s.Object{"name": "a"}}
		got, err := client.Create(t.Context(), k8s.SandboxClaims, o)
		if err != nil || got.ResourceVersion() != "5" {
			t.Errorf("got %v, %v, want the server's object", got, err)
		}
		if len(o) != 1 {
			t.Errorf("the argument became %v", o)
		}
	})
}

func TestWhatIsWrongIsNotSent(t *testing.T) {
	named := func(name any) k8s.Object { return k8s.Object{"metadata": k8s.Object{"name": name}} }
	for _, c := range []struct {
		why  string
		do   func(ctx context.Context, c *k8s.Client) error
		want k8s.Kind
	}{
		{"Get of a name that climbs", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.Get(ctx, k8s.Pods, "../../secrets/x")
			return err
		}, k8s.Invalid},
		{"Get of no name", func(ctx context.Context, c *k8s.Client) error { _, err := c.Get(ctx, k8s.Pods, ""); return err }, k8s.Invalid},
		{"Delete of no name, which would be the collection", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.Delete(ctx, k8s.Pods, "", k8s.DeleteOptions{})
			return err
		}, k8s.Invalid},
		{"MergePatch of no name", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.MergePatch(ctx, k8s.Pods, "", k8s.Object{})
			return err
		}, k8s.Invalid},
		{"MergePatch of nil", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.MergePatch(ctx, k8s.Pods, "a", nil)
			return err
		}, k8s.Invalid},
		{"JSONPatch of nothing", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.JSONPatch(ctx, k8s.Pods, "a", nil)
			return err
		}, k8s.Invalid},
		{"JSONPatch of an unknown operation", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.JSONPatch(ctx, k8s.Pods, "a", []k8s.PatchOp{{Op: "set", Path: "/a"}})
			return err
		}, k8s.Invalid},
		{"JSONPatch of what is no pointer", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.JSONPatch(ctx, k8s.Pods, "a", []k8s.PatchOp{{Op: "remove", Path: "a"}})
			return err
		}, k8s.Invalid},
		{"Create of a bad name", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.Create(ctx, k8s.Pods, named("A"))
			return err
		}, k8s.Invalid},
		{"Create of a name that is no text", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.Create(ctx, k8s.Pods, named(7))
			return err
		}, k8s.Invalid},
		{"Create in another namespace", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.Create(ctx, k8s.Pods, k8s.Object{"metadata": k8s.Object{"name": "a", "namespace": "other"}})
			return err
		}, k8s.Invalid},
		{"Create of what is no JSON", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.Create(ctx, k8s.Pods, k8s.Object{"metadata": k8s.Object{"name": "a"}, "f": func() {}})
			return err
		}, k8s.Invalid},
		{"Create of one byte too many", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.Create(ctx, k8s.Pods, sized(t, 3<<20+1))
			return err
		}, k8s.TooLarge},
		{"Delete of an unknown propagation", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.Delete(ctx, k8s.Pods, "a", k8s.DeleteOptions{Propagation: "foreground"})
			return err
		}, k8s.Invalid},
		{"List of a negative page", func(ctx context.Context, c *k8s.Client) error {
			_, err := c.List(ctx, k8s.Pods, k8s.ListOptions{PageSize: -1})
			return err
		}, k8s.Invalid},
		{"Watch of no name", func(ctx context.Context, c *k8s.Client) error { _, err := c.Watch(ctx, k8s.Pods, "", ""); return err }, k8s.Invalid},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := serve(t, always(200, `{}`))
				err := c.do(t.Context(), client)
				if e := apiError(t, err, c.want); !e.NotApplied || e.Code != 0 {
					t.Errorf("NotApplied %v, code %d: it was not sent", e.NotApplied, e.Code)
				}
				if n := len(server.requests()); n != 0 {
					t.Errorf("the server saw %d requests", n)
				}
			})
		})
	}
}

// sized is a pod whose encoding has exactly n bytes.
func sized(t *testing.T, n int) k8s.Object {
	t.Helper()
	const frame = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"x":""}`
	return k8s.Object{"metadata": k8s.Object{"name": "a"}, "x": strings.Repeat("x", n-len(frame))}
}

func TestABodyOfExactlyTheLimitIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := serve(t, always(201, `{"kind":"Pod","metadata":{"name":"a"}}`))
		if _, err := client.Create(t.Context(), k8s.Pods, sized(t, 3<<20)); err != nil {
			t.Fatal(err)
		}
		if n := len(server.one(t).Body); n != 3<<20 {
			t.Errorf("the body has %d bytes, want %d", n, 3<<20)
		}
	})
}

func TestDeleteReturnsWhatTheServerAnswered(t *testing.T) {
	for _, c := range []struct {
		why    string
		handle func(int, http.ResponseWriter, *http.Request)
		name   string
		kind   k8s.Kind // of the failure
		check  func(k8s.Object) bool
	}{
		{"a Status of success", play(t, "200-delete"), "namzu-task-00000000-0000-4000-8000-000000000001", "",
			func(o k8s.Object) bool { return o.Text("details", "uid") != "" }},
		{"the object that is being deleted", play(t, "200-delete-foreground"), "namzu-task-00000000-0000-4000-8000-000000000013", "",
			func(o k8s.Object) bool { return o.Deleting() }},
		{"nothing", func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "a", "",
			func(o k8s.Object) bool { return o == nil }},
		{"a Status of failure with 200", always(200, failure(500, "x")), "a", k8s.Protocol, nil},
		{"another object", always(200, claim("b")), "a", k8s.Protocol, nil},
		{"an empty body", always(200, ""), "a", k8s.Protocol, nil},
		{"again, when it is gone", play(t, "404-delete-again"), "namzu-task-00000000-0000-4000-8000-000000000001", k8s.NotFound, nil},
		{"a cluster without the resource", play(t, "404-group"), "a", k8s.NotServed, nil},
		{"another uid", play(t, "409-delete-wrong-uid"), "a", k8s.Conflict, nil},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, c.handle)
				o, err := client.Delete(t.Context(), k8s.SandboxClaims, c.name, k8s.DeleteOptions{})
				if k8s.KindOf(err) != c.kind || (err == nil) != (c.kind == "") {
					t.Fatalf("got %v, %v, want kind %q", o, err, c.kind)
				}
				if c.check != nil && !c.check(o) {
					t.Errorf("got %v", o)
				}
			})
		})
	}
}
