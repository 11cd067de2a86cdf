package k8s_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sandlot-go/sandlot/k8s"
)

// padded is body with blanks up to n bytes: valid JSON at every length.
func padded(body string, n int) string { return body + strings.Repeat(" ", n-len(body)) }

func TestOneByteOverALimitFails(t *testing.T) {
	const object, list = 1000, 2000
	page := `{"kind":"PodList","metadata":{},"items":[]}`
	for _, c := range []struct {
		why     string
		body    string
		chunked bool
		do      func(*testing.T, *k8s.Client) error
		ok      bool
	}{
		{"an object of exactly the limit", padded(claim("a"), object), false, getIt, true},
		{"an object of one byte more", padded(claim("a"), object+1), false, getIt, false},
		{"a chunked object of exactly the limit", padded(claim("a"), object), true, getIt, true},
		{"a chunked object of one byte more, cut to valid JSON by the limit", padded(claim("a"), object+1), true, getIt, false},
		{"a page of exactly the limit", padded(page, list), true, listIt, true},
		{"a page of one byte more", padded(page, list+1), true, listIt, false},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
					if !c.chunked {
						w.Header().Set("Content-Length", strconv.Itoa(len(c.body)))
					}
					reply(w, 200, c.body[:1])
					w.(http.Flusher).Flush()
					w.Write([]byte(c.body[1:]))
				}, func(cfg *k8s.Config) { cfg.MaxObjectBytes, cfg.MaxListBytes = object, list })
				err := c.do(t, client)
				if c.ok {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if e := apiError(t, err, k8s.TooLarge); e.Code != 200 || e.NotApplied || k8s.SafeToRetry(err) {
					t.Errorf("code %d, NotApplied %v, SafeToRetry %v", e.Code, e.NotApplied, k8s.SafeToRetry(err))
				}
			})
		})
	}
}

func getIt(t *testing.T, c *k8s.Client) error { return get(t.Context(), c) }

func listIt(t *testing.T, c *k8s.Client) error {
	_, err := c.List(t.Context(), k8s.Pods, k8s.ListOptions{})
	return err
}

func TestAStatusOverTheLimitOfErrorsProvesNothing(t *testing.T) {
	a := recorded(t, "404-object")
	for extra, want := range map[int]k8s.Kind{0: k8s.NotFound, 1: k8s.NotServed} {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, always(404, padded(string(a.Body), 64<<10+extra)))
			_, err := client.Get(t.Context(), k8s.SandboxClaims, claim3)
			apiError(t, err, want)
		})
	}
}

func TestAHeaderWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 300<<10))
			reply(w, 200, claim("a"))
		})
		apiError(t, get(t.Context(), client), k8s.Unreachable)
	})
}

func TestReadLimited(t *testing.T) {
	for _, c := range []struct {
		in, want string
		err      error
	}{
		{"", "", nil}, {"abc", "abc", nil}, {"abcd", "abcd", nil}, {"abcde", "abcd", k8s.ErrOverLimit},
	} {
		got, err := k8s.ReadLimited(strings.NewReader(c.in), 4)
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: got %q, %v, want %q, %v", c.in, got, err, c.want, c.err)
		}
	}
}
