package k8s_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sandlot-go/sandlot/k8s"
)

// pods is a page of pods that goes on at next.
func pods(next string, names ...string) string {
	items := []any{}
	for _, n := range names {
		items = append(items, fields{"metadata": fields{"name": n}})
	}
	b, _ := json.Marshal(fields{"kind": "PodList", "apiVersion": "v1", "metadata": fields{"resourceVersion": "9", "continue": next}, "items": items})
	return string(b)
}

func names(items []k8s.Object) (out []string) {
	for _, o := range items {
		out = append(out, o.Name())
	}
	return out
}

// expired is the 410 of a continue token, with the token of another list that
// would not be consistent with the first pages.
const expired = `{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"The provided continue parameter is too old","metadata":{"continue":"inconsistent"}}`

func TestAListIsReadPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, [...]string{pods("t/=1", "a", "b"), pods("t2", "c"), pods("", "d")}[n-1])
		})
		l, err := client.List(t.Context(), k8s.Pods, k8s.ListOptions{LabelSelector: "a=b,c in (d,e)", FieldSelector: "status.phase=Pending", PageSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(l.Items); !slices.Equal(got, []string{"a", "b", "c", "d"}) || l.ResourceVersion != "9" {
			t.Errorf("got %v at %q", got, l.ResourceVersion)
		}
		for i, r := range server.requests() {
			want := [...]string{"", "t/=1", "t2"}[i]
			if r.Query.Get("continue") != want || r.Query.Get("limit") != "2" || r.Query.Get("labelSelector") != "a=b,c in (d,e)" ||
				r.Query.Get("fieldSelector") != "status.phase=Pending" || r.Query.Has("resourceVersion") || r.Query.Has("fieldValidation") {
				t.Errorf("page %d was asked for with %v", i, r.Query)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		client, server := serve(t, always(200, pods("")))
		l, err := client.List(t.Context(), k8s.Pods, k8s.ListOptions{})
		if err != nil || len(l.Items) != 0 {
			t.Errorf("got %v, %v, want nothing", l, err)
		}
		if q := server.one(t).Query; q.Encode() != "limit=500" {
			t.Errorf("without options the query is %v, want limit=500", q)
		}
	})
}

func TestAListThatIsTooOldBeginsAnewOnce(t *testing.T) {
	for _, c := range []struct {
		why      string
		answers  []string // "" is a 410
		want     []string
		requests int
		kind     k8s.Kind
	}{
		{"once", []string{pods("t1", "a"), "", pods("t2", "x"), pods("", "y")}, []string{"x", "y"}, 4, ""},
		{"twice", []string{pods("t1", "a"), "", pods("t2", "x"), "", pods("", "z")}, nil, 4, k8s.Gone},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
					if a := c.answers[n-1]; a != "" {
						reply(w, 200, a)
						return
					}
					reply(w, 410, expired)
				})
				l, err := client.List(t.Context(), k8s.Pods, k8s.ListOptions{})
				if k8s.KindOf(err) != c.kind || !slices.Equal(names(l.Items), c.want) {
					t.Errorf("got %v, %v, want %v, kind %q", names(l.Items), err, c.want, c.kind)
				}
				log := server.requests()
				if len(log) != c.requests || log[2].Query.Has("continue") {
					t.Errorf("%d requests, the third with %v; want %d, and the third from the start", len(log), log[2].Query, c.requests)
				}
			})
		})
	}
}

func TestPartOfAListIsAnError(t *testing.T) {
	second := func(code int, body string) func(int, http.ResponseWriter, *http.Request) {
		return func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				reply(w, 200, pods("t1", "a"))
				return
			}
			reply(w, code, body)
		}
	}
	for _, c := range []struct {
		why    string
		handle func(int, http.ResponseWriter, *http.Request)
		kind   k8s.Kind
	}{
		{"the second page fails", second(500, "x"), k8s.ServerError},
		{"the second page is no list", second(200, `{"kind":"PodList","metadata":{}}`), k8s.Protocol},
		{"the second page continues with itself", second(200, pods("t1", "b")), k8s.Protocol},
		{"items of another shape", always(200, `{"items":{}}`), k8s.Protocol},
		{"an item that is no object", always(200, `{"items":[{},7]}`), k8s.Protocol},
		{"a null item", always(200, `{"items":[null]}`), k8s.Protocol},
		{"a continue token that is no text", always(200, `{"metadata":{"continue":7},"items":[]}`), k8s.Protocol},
		{"a Status", always(200, failure(500, "x")), k8s.Protocol},
		{"an object", always(200, claim("a")), k8s.Protocol},
		{"a page", always(200, "<html>"), k8s.Protocol},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := serve(t, c.handle)
				l, err := client.List(t.Context(), k8s.Pods, k8s.ListOptions{})
				apiError(t, err, c.kind)
				if l.Items != nil {
					t.Errorf("a part was returned: %v", l.Items)
				}
				if n := len(server.requests()); n > 2 {
					t.Errorf("%d pages were asked for, want at most 2", n)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, always(200, `{"items":null}`))
		if _, err := client.List(t.Context(), k8s.Pods, k8s.ListOptions{}); err != nil {
			t.Errorf("null items are an empty list: %v", err)
		}
	})
}

func TestAllPagesTogetherAreBounded(t *testing.T) {
	const limit = 1000 // of one page; 4000 of all
	for last, ok := range map[int]bool{800: true, 801: false} {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n < 5 {
					reply(w, 200, padded(pods("t"+strconv.Itoa(n), "a"), 800))
					return
				}
				reply(w, 200, padded(pods("", "a"), last))
			}, func(c *k8s.Config) { c.MaxListBytes = limit })
			l, err := client.List(t.Context(), k8s.Pods, k8s.ListOptions{})
			if ok && (err != nil || len(l.Items) != 5) || !ok && k8s.KindOf(err) != k8s.TooLarge {
				t.Errorf("with %d bytes in all: got %d items, %v", 3200+last, len(l.Items), err)
			}
		})
	}
}

func TestAListWithoutEndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, fmt.Sprintf(`{"metadata":{"continue":"t%d"},"items":[]}`, n))
		})
		_, err := client.List(t.Context(), k8s.Pods, k8s.ListOptions{})
		apiError(t, err, k8s.Protocol)
		if n := len(server.requests()); n != k8s.MaxPages {
			t.Errorf("%d pages were read, want %d", n, k8s.MaxPages)
		}
	})
}

func TestItemsComeAsTheyAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 2 {
				reply(w, 410, expired)
				return
			}
			reply(w, 200, pods("t1", "a", "b"))
		})
		var got []string
		var last error
		for o, err := range client.Items(t.Context(), k8s.Pods, k8s.ListOptions{}) {
			if err != nil {
				last = err
				continue
			}
			got = append(got, o.Name())
		}
		apiError(t, last, k8s.Gone)
		if !slices.Equal(got, []string{"a", "b"}) || len(server.requests()) != 2 {
			t.Errorf("got %v with %d requests", got, len(server.requests()))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		client, server := serve(t, always(200, pods("t1", "a", "b")))
		for range client.Items(t.Context(), k8s.Pods, k8s.ListOptions{}) {
			break
		}
		server.one(t) // who stops early asks for no more
	})
}

func TestANamedErrorOfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, play(t, "400-selector"))
		_, err := client.List(t.Context(), k8s.SandboxClaims, k8s.ListOptions{LabelSelector: "a===b"})
		e := apiError(t, err, k8s.BadRequest)
		if !strings.Contains(err.Error(), "found '='") || e.Path != claimsPath {
			t.Errorf("got %v about %s", err, e.Path)
		}
		if _, ok := errors.AsType[*k8s.NameError](err); ok {
			t.Error("the server refused it, not we")
		}
	})
}

func FuzzParsePage(f *testing.F) {
	for _, s := range []string{pods("t", "a"), `{"items":null}`, `{"items":[[]]}`, `{"metadata":"x","items":[{}]}`, failure(500, "x")} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		items, next, err := k8s.ParsePage(body)
		if err != nil && (items != nil || next != "") {
			t.Fatalf("a broken page gave %v, %q", items, next)
		}
		for _, o := range items {
			if o == nil {
				t.Fatal("an item is nil")
			}
		}
	})
}
