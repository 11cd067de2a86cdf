package k8s_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

func event(kind, object string) string { return `{"type":"` + kind + `","object":` + object + "}\n" }

// stream answers with what is written into it, and ends when lines does.
func stream(lines ...string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, l := range lines {
			io.WriteString(w, l)
			w.(http.Flusher).Flush()
		}
	}
}

func watch(t *testing.T, c *k8s.Client, version string) *k8s.Watch {
	t.Helper()
	w, err := c.Watch(t.Context(), k8s.SandboxClaims, "a", version)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func TestAWatchIsOfOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := serve(t, stream(
			event("ADDED", claim("a")), "\n", event("BOOKMARK", `{"kind":"SandboxClaim","metadata":{"resourceVersion":"6"}}`),
			event("MODIFIED", claim("a")), strings.TrimSuffix(event("DELETED", claim("a")), "\n")))
		w := watch(t, client, "5")
		for _, want := range []string{k8s.Added, k8s.Modified, k8s.Deleted} {
			ev, err := w.Next()
			if err != nil || ev.Type != want || ev.Object.ResourceVersion() != "5" {
				t.Fatalf("got %+v, %v, want %s", ev, err, want)
			}
		}
		for range 2 {
			if _, err := w.Next(); err != io.EOF {
				t.Errorf("at the end: got %v, want io.EOF", err)
			}
		}
		r := server.one(t)
		if want := "fieldSelector=metadata.name%3Da&resourceVersion=5&timeoutSeconds=300&watch=1"; r.Path != claimsPath || r.Query.Encode() != want {
			t.Errorf("got %s?%s, want %s?%s", r.Path, r.Query.Encode(), claimsPath, want)
		}
	})
}

func TestAWatchFromNowhereSendsNoVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := serve(t, stream())
		w, err := client.Watch(after(t.Context(), 10*time.Second), k8s.SandboxClaims, "a", "")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		// A server that ends each watch at once: this end is reported, and nothing is
		// asked again behind the caller's back.
		if _, err := w.Next(); err != io.EOF {
			t.Errorf("got %v, want io.EOF", err)
		}
		if q := server.one(t).Query; q.Has("resourceVersion") || q.Get("timeoutSeconds") != "11" {
			t.Errorf("the query is %v, want no resourceVersion and a time of the caller's", q)
		}
	})
}

func TestA410ReachesAWatchInTwoWays(t *testing.T) {
	t.Run("as the answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, always(410, failure(410, "Expired")))
			_, err := client.Watch(t.Context(), k8s.SandboxClaims, "a", "1")
			apiError(t, err, k8s.Gone)
		})
	})
	t.Run("as an event, recorded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, play(t, "200-watch-old-resourceVersion"))
			w := watch(t, client, "1")
			ev, err := w.Next()
			e := apiError(t, err, k8s.Gone)
			if e.Code != 410 || !strings.Contains(err.Error(), "too old resource version: 1 (657)") {
				t.Errorf("got code %d, %v", e.Code, err)
			}
			if ev.Object != nil {
				t.Errorf("the Status was handed out as an object: %v", ev.Object)
			}
			if _, again := w.Next(); again != err {
				t.Errorf("then %v, want the same error", again)
			}
		})
	})
}

func TestWhatIsNoEvent(t *testing.T) {
	for _, c := range []struct {
		why, line string
		kind      k8s.Kind
		text      string
	}{
		{"no JSON", "x\n", k8s.Protocol, "not a JSON object"},
		{"no type", `{"object":` + claim("a") + "}\n", k8s.Protocol, `its type is ""`},
		{"no object", `{"type":"ADDED"}` + "\n", k8s.Protocol, "it has no object"},
		{"an unknown type", event("MOVED", claim("a")), k8s.Protocol, `its type is "MOVED"`},
		{"another object", event("ADDED", claim("b")), k8s.Protocol, `it is about "b", not a`},
		{"an added Status", event("ADDED", failure(410, "Expired")), k8s.Protocol, "ADDED of a Status"},
		{"an error without a Status", event("ERROR", claim("a")), k8s.Protocol, "ERROR without a Status"},
		{"an error with a Status of success", event("ERROR", `{"kind":"Status","status":"Success","code":200}`), k8s.Protocol, "ERROR without a Status"},
		{"an error of the server", event("ERROR", failure(500, "InternalError")), k8s.ServerError, "-> 500: the server says InternalError"},
		{"an error with a wait", event("ERROR", `{"kind":"Status","status":"Failure","code":429,"details":{"retryAfterSeconds":3}}`), k8s.TooManyRequests, "-> 429"},
		{"half an event", `{"type":"ADDED","object":{`, k8s.Unreachable, "unexpected EOF"},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, stream(c.line))
				_, err := watch(t, client, "").Next()
				apiError(t, err, c.kind)
				if !strings.Contains(err.Error(), c.text) {
					t.Errorf("%q does not say %q", err, c.text)
				}
			})
		})
	}
}

func TestAnEventOverTheLimit(t *testing.T) {
	const limit, overhead = 1000, 4 << 10
	for n, kind := range map[int]k8s.Kind{limit + overhead: "", limit + overhead + 1: k8s.TooLarge} {
		synctest.Test(t, func(t *testing.T) {
			line := padded(strings.TrimSuffix(event("ADDED", claim("a")), "\n"), n-1) + "\n"
			client, _ := serve(t, stream(line), func(c *k8s.Config) { c.MaxObjectBytes = limit })
			_, err := watch(t, client, "").Next()
			if k8s.KindOf(err) != kind || (err == nil) != (kind == "") {
				t.Errorf("an event of %d bytes: got %v, want kind %q", n, err, kind)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // a long line, which a default scanner would not take
		long := `{"metadata":{"name":"a","annotations":{"x":"` + strings.Repeat("x", 200<<10) + `"}}}`
		client, _ := serve(t, stream(event("ADDED", long)))
		if ev, err := watch(t, client, "").Next(); err != nil || len(ev.Object.Annotations()["x"]) != 200<<10 {
			t.Errorf("got %v", err)
		}
	})
}

func TestAWatchThatDoesNotStart(t *testing.T) {
	for _, c := range []struct {
		why    string
		handle func(int, http.ResponseWriter, *http.Request)
		kind   k8s.Kind
		took   time.Duration
	}{
		{"no right to watch", always(403, failure(403, "Forbidden")), k8s.Forbidden, 0},
		{"no such method", always(405, failure(405, "MethodNotAllowed")), k8s.MethodNotAllowed, 0},
		{"no such resource", play(t, "404-group"), k8s.NotServed, 0},
		{"a login page", func(_ int, w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, k8s.Protocol, 0},
		{"no answer", hang, k8s.Timeout, 30 * time.Second},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, c.handle)
				start := time.Now()
				_, err := client.Watch(t.Context(), k8s.SandboxClaims, "a", "")
				apiError(t, err, c.kind)
				if took := time.Since(start); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// The bound of a request is for the answer's header. After that a watch may be
// silent for as long as it is meant to last, and no longer.
func TestHowLongAWatchLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			for r.Context().Err() == nil {
				pause(r, time.Minute)
				io.WriteString(w, event("MODIFIED", claim("a")))
				w.(http.Flusher).Flush()
			}
		})
		start := time.Now()
		w := watch(t, client, "")
		for i := 1; i <= 5; i++ {
			if _, err := w.Next(); err != nil || time.Since(start) != time.Duration(i)*time.Minute {
				t.Fatalf("event %d: %v after %v", i, err, time.Since(start))
			}
		}
		_, err := w.Next()
		apiError(t, err, k8s.Timeout)
		if took, want := time.Since(start), k8s.WatchTime+30*time.Second; took != want {
			t.Errorf("a server that does not end the watch was heard for %v, want %v", took, want)
		}
	})
}

func TestTheEndsOfAWatch(t *testing.T) {
	reason := errors.New("the caller has changed its mind")
	silent := func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		hang(n, w, r)
	}
	t.Run("the caller's context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, silent)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, reason)
			defer cancel()
			w, err := client.Watch(ctx, k8s.SandboxClaims, "a", "")
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := w.Next(); err != reason || time.Since(start) != time.Minute {
				t.Errorf("got %v after %v, want the caller's reason after 1m", err, time.Since(start))
			}
		})
	})
	t.Run("Close, twice, while Next waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, silent)
			w := watch(t, client, "")
			got := make(chan error)
			go func() {
				_, err := w.Next()
				got <- err
			}()
			synctest.Wait()
			w.Close()
			w.Close()
			if err := <-got; err != net.ErrClosed {
				t.Errorf("got %v, want net.ErrClosed", err)
			}
			if _, err := w.Next(); err != net.ErrClosed {
				t.Errorf("then %v, want net.ErrClosed", err)
			}
		})
	})
	t.Run("Close before what has come is read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, stream(event("ADDED", claim("a"))+event("MODIFIED", claim("a"))))
			w := watch(t, client, "")
			if _, err := w.Next(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if ev, err := w.Next(); err != net.ErrClosed {
				t.Errorf("got %v, %v, want net.ErrClosed", ev, err)
			}
		})
	})
	t.Run("the connection", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				cut(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
			})
			_, err := watch(t, client, "").Next()
			e := apiError(t, err, k8s.Unreachable)
			if e.Code != 200 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got code %d, %v", e.Code, err)
			}
		})
	})
	t.Run("a 401 is answered with a fresh token", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, server := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					reply(w, 401, failure(401, "Unauthorized"))
					return
				}
				stream(event("ADDED", claim("a")))(n, w, r)
			}, func(c *k8s.Config) { c.Token, _ = tokens("T1", "T2") })
			if _, err := watch(t, client, "").Next(); err != nil || len(server.requests()) != 2 {
				t.Errorf("got %v with %d requests", err, len(server.requests()))
			}
		})
	})
}

func FuzzParseEvent(f *testing.F) {
	for _, s := range []string{
		event("ADDED", claim("a")), event("ERROR", failure(410, "Expired")), event("BOOKMARK", `{}`), `{"type":1,"object":2}`,
		event("ERROR", `{"kind":"Status","code":1e9}`), event("DELETED", `{"metadata":null}`),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		ev, bad := k8s.ParseEvent(line, "a")
		if (bad == nil) == (ev.Object == nil) {
			t.Fatalf("%+v and %v", ev, bad)
		}
		if bad != nil && (bad.Kind == "" || bad.Code == 0 || bad.Kind == k8s.NotFound && !strings.Contains(string(line), "a")) {
			t.Fatalf("%+v", bad)
		}
		if bad == nil && ev.Type != "BOOKMARK" && ev.Object.Name() != "a" {
			t.Fatalf("%+v", ev)
		}
	})
}

func FuzzReadLine(f *testing.F) {
	for _, s := range []string{"{}\n", "{}", "\n\n{}\n", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", "{\r\n"} {
		f.Add([]byte(s), 20)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = max(limit, 1)
		line, err := k8s.ReadLine(data, limit)
		if len(line) > limit {
			t.Fatalf("a line of %d bytes with a limit of %d", len(line), limit)
		}
		if err == nil && strings.Contains(string(line), "\n") {
			t.Fatalf("%q is more than a line", line)
		}
		if err != nil && line != nil {
			t.Fatal(fmt.Sprint("a line and an error: ", err))
		}
	})
}
