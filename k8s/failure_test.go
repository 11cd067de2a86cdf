package k8s_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/k8s"
)

// cut lets a handler end its connection: with a reset, after it has written raw.
func cut(w http.ResponseWriter, raw string) {
	conn, buf, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	buf.WriteString(raw)
	buf.Flush()
	if raw == "" {
		conn.(*memnet.Conn).Reset()
	}
	conn.Close()
}

func post(ctx context.Context, c *k8s.Client) error {
	_, err := c.Create(ctx, k8s.SandboxClaims, k8s.Object{"metadata": k8s.Object{"name": "a"}})
	return err
}

func get(ctx context.Context, c *k8s.Client) error {
	_, err := c.Get(ctx, k8s.SandboxClaims, "a")
	return err
}

// Where a request fails decides what its caller may do next.
func TestEachPointOfFailure(t *testing.T) {
	refuse := func(c *k8s.Config) {
		c.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
	}
	unknown := func(c *k8s.Config) {
		c.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "k", IsNotFound: true}
		}
	}
	broken := func(c *k8s.Config) {
		c.Token = func(context.Context) (string, error) { return "", errors.New("the vault is sealed") }
	}
	raw := func(s string) func(int, http.ResponseWriter, *http.Request) {
		return func(_ int, w http.ResponseWriter, _ *http.Request) { cut(w, s) }
	}
	const head = "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"kind\":"
	for _, c := range []struct {
		why        string
		handle     func(int, http.ResponseWriter, *http.Request)
		edit       func(*k8s.Config)
		kind       k8s.Kind
		code       int
		notApplied bool
		retry      bool  // SafeToRetry
		is         error // in the chain
		text       string
	}{
		{"the connection is refused", nil, refuse, k8s.Unreachable, 0, true, true, syscall.ECONNREFUSED, "failed: dial tcp: connection refused"},
		{"the name is unknown", nil, unknown, k8s.Unreachable, 0, true, true, nil, "failed: lookup k: no such host"},
		{"there is no token", nil, broken, k8s.Credential, 0, true, false, nil, "no credential: the token source failed: the vault is sealed"},
		{"the connection is reset before the answer", raw(""), nil, k8s.Unreachable, 0, false, true, syscall.ECONNRESET, "failed: "},
		{"the connection is closed before the answer", raw(" "), nil, k8s.Unreachable, 0, false, true, nil, "failed: "},
		{"the answer is no HTTP", raw("220 mail.example ESMTP\r\n"), nil, k8s.Unreachable, 0, false, true, nil, "failed: "},
		{"the answer ends in its body", raw(fmt.Sprintf(head, 201)), nil, k8s.Unreachable, 201, false, true, io.ErrUnexpectedEOF, "-> 201: the answer broke off: unexpected EOF"},
		{"a 404 ends in its body", raw(fmt.Sprintf(head, 404)), nil, k8s.Unreachable, 404, false, true, io.ErrUnexpectedEOF, "-> 404: the answer broke off"},
		{"a 503 ends in its body, but its code is known", raw(fmt.Sprintf(head, 503)), nil, k8s.ServerError, 503, false, true, nil, "-> 503"},
		{"a 429 ends in its body, but its code is known", raw(fmt.Sprintf(head, 429)), nil, k8s.TooManyRequests, 429, true, true, nil, "-> 429"},
		{"the body is no JSON", always(201, `{"kind"`), nil, k8s.Protocol, 201, false, false, nil, "-> 201: the answer is not what was asked for"},
		{"the body is a Status", always(201, failure(500, "x")), nil, k8s.Protocol, 201, false, false, nil, "it is a Status, not the object"},
		{"the body is another kind", always(201, `{"kind":"Pod","metadata":{"name":"a"}}`), nil, k8s.Protocol, 201, false, false, nil, `its kind is "Pod", not SandboxClaim`},
		{"the body is another object", always(201, claim("b")), nil, k8s.Protocol, 201, false, false, nil, `its name is "b", not a`},
		{"there is no body", always(204, ""), nil, k8s.Protocol, 204, false, false, nil, "not a JSON object"},
		{"the server overran its time", always(504, failure(504, "ServerTimeout")), nil, k8s.ServerError, 504, false, true, nil, "the server says ServerTimeout"},
		{"the server failed", always(500, `oh no`), nil, k8s.ServerError, 500, false, true, nil, "-> 500: oh no"},
		{"the name is taken", always(409, failure(409, "AlreadyExists")), nil, k8s.Exists, 409, true, false, nil, "-> 409"},
		{"a webhook said no", always(400, failure(400, "BadRequest")), nil, k8s.BadRequest, 400, true, false, nil, "-> 400"},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.edit == nil {
					c.edit = func(*k8s.Config) {}
				}
				client, server := serve(t, c.handle, c.edit)
				err := post(t.Context(), client)
				e := apiError(t, err, c.kind)
				if e.Code != c.code || e.NotApplied != c.notApplied || k8s.SafeToRetry(err) != c.retry {
					t.Errorf("code %d, NotApplied %v, SafeToRetry %v, want %d, %v, %v (%v)",
						e.Code, e.NotApplied, k8s.SafeToRetry(err), c.code, c.notApplied, c.retry, err)
				}
				if c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%v does not wrap %v", err, c.is)
				}
				if !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), "k8s: POST "+claimsPath) {
					t.Errorf("%q does not say %q", err, c.text)
				}
				if n := len(server.requests()); n > 1 {
					t.Errorf("a POST was sent %d times", n)
				}
			})
		})
	}
}

func TestAnHTMLPageIsReportedByItsCode(t *testing.T) {
	page := func(code int) func(int, http.ResponseWriter, *http.Request) {
		return func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(code)
			io.WriteString(w, "<html>\x1b[31m\n<h1>Log in</h1>")
		}
	}
	for _, c := range []struct {
		code int
		kind k8s.Kind
		text string
	}{
		{502, k8s.ServerError, `-> 502: <html>\x1b[31m\n<h1>Log in</h1>`},
		{200, k8s.Protocol, `-> 200: the answer is text/html, not JSON; is this the API server?; it begins: <html>\x1b[31m\n<h1>`},
		{403, k8s.Forbidden, "-> 403"},
		{401, k8s.Unauthorized, "-> 401"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, page(c.code))
			err := get(t.Context(), client)
			e := apiError(t, err, c.kind)
			if !strings.Contains(err.Error(), c.text) || !strings.Contains(e.Excerpt, "Log in") {
				t.Errorf("%d: got %q, excerpt %q, want %q", c.code, err, e.Excerpt, c.text)
			}
			if c.code/100 == 4 && strings.Contains(err.Error(), "Log in") {
				t.Errorf("%d: the page of a gate explains nothing, but is in %q", c.code, err)
			}
		})
	}
}

func TestA422OfAJSONPatchSaysThatItMeansTwoThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, always(422, failure(422, "Invalid")))
		_, err := client.JSONPatch(t.Context(), k8s.SandboxClaims, "a", []k8s.PatchOp{{Op: "remove", Path: "/a"}})
		apiError(t, err, k8s.Invalid)
		for _, want := range []string{"-> 422", "test operation no longer holds", "the patch is wrong", "nothing was changed"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		_, err = client.MergePatch(t.Context(), k8s.SandboxClaims, "a", k8s.Object{})
		apiError(t, err, k8s.Invalid)
		if strings.Contains(err.Error(), "test operation") || !strings.Contains(err.Error(), "-> 422: the server says Invalid") {
			t.Errorf("a merge patch has no tests, but got %q", err)
		}
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		synctest.Test(t, func(t *testing.T) {
			var elsewhere api
			elsewhere.handle = always(200, claim("a"))
			network := new(memnet.Network)
			l, err := network.Listen("tcp", "127.0.0.2:80")
			if err != nil {
				t.Fatal(err)
			}
			other := &http.Server{Handler: &elsewhere}
			go other.Serve(l)
			defer other.Close()
			client, server := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://user:pw@127.0.0.2/steal?token="+secret)
				w.WriteHeader(code)
			})
			err = post(t.Context(), client)
			apiError(t, err, k8s.Redirect)
			if text := err.Error(); !strings.Contains(text, "redirect to host 127.0.0.2") || strings.Contains(text, "pw") || strings.Contains(text, "steal") {
				t.Errorf("%d: %q must name the host and nothing else of the URL", code, text)
			}
			if len(server.requests()) != 1 || len(elsewhere.requests()) != 0 {
				t.Errorf("%d: %d requests here and %d there, want 1 and 0", code, len(server.requests()), len(elsewhere.requests()))
			}
		})
	}
}

// A kept connection that the server has closed is no reason to send a POST
// twice.
func TestAPostIsNotRepeatedOnADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The server takes one request per connection to its end, keeps the
		// connection, and breaks it off as soon as a second request arrives.
		network := new(memnet.Network)
		l, err := network.Listen("tcp", "127.0.0.1:8001")
		if err != nil {
			t.Fatal(err)
		}
		arrived := make(chan string, 10)
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				r := bufio.NewReader(conn)
				for n := 0; ; n++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						break
					}
					io.Copy(io.Discard, req.Body)
					arrived <- req.Method
					if n == 1 {
						conn.(*memnet.Conn).Reset()
						break
					}
					body := claim("a")
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				}
				conn.Close()
			}
		}()
		client := newClient(t, k8s.Config{Server: "http://127.0.0.1:8001", Token: withToken, Namespace: "ns", DialContext: network.DialContext})
		var told []k8s.RequestInfo
		ctx := k8s.WithTrace(t.Context(), &k8s.Trace{Request: func(i k8s.RequestInfo) { told = append(told, i) }})

		if err := get(ctx, client); err != nil {
			t.Fatal(err)
		}
		if e := apiError(t, post(ctx, client), k8s.Unreachable); e.NotApplied {
			t.Error("the POST was written and may have been applied")
		}
		if err := get(ctx, client); err != nil { // on a new connection
			t.Fatal(err)
		}
		// net/http repeats this one by itself, on a third connection.
		if err := get(ctx, client); err != nil {
			t.Fatal(err)
		}
		var sent int
		for _, i := range told {
			sent += i.Sent
		}
		if got := len(arrived); got != 5 || sent != 5 || len(told) != 4 || told[1].Sent != 1 || told[3].Sent != 2 {
			t.Errorf("%d requests arrived, the trace counts %d in %+v, want 5 and 5", got, sent, told)
		}
		client.CloseIdleConnections()
		l.Close()
		<-served
	})
}

// Whether anything can have arrived is only certain at the two ends: before there
// is a connection, and before the header has been handed to it whole. Between
// them, a request that is given up is still being written.
func TestARequestThatIsStuckInItsHeader(t *testing.T) {
	long := func(c *k8s.Config) {
		c.RequestTimeout = time.Second
		c.Token = func(context.Context) (string, error) { return strings.Repeat("x", 32<<10), nil }
	}
	for _, c := range []struct {
		why        string
		conn       func() net.Conn
		kind       k8s.Kind
		notApplied bool
	}{
		{"the peer does not read on", func() net.Conn { return stuckConn{} }, k8s.Timeout, false},
		{"the peer is gone before the end of it", func() net.Conn { return goneConn{} }, k8s.Unreachable, true},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, hang, long, func(cfg *k8s.Config) {
					cfg.DialContext = func(context.Context, string, string) (net.Conn, error) { return c.conn(), nil }
				})
				if e := apiError(t, post(t.Context(), client), c.kind); e.NotApplied != c.notApplied {
					t.Errorf("NotApplied = %v, want %v", e.NotApplied, c.notApplied)
				}
				time.Sleep(3 * time.Second) // the connections come to their end
			})
		})
	}
}

// A stuckConn takes nothing for two seconds, and then fails.
type stuckConn struct{ net.Conn }

func (stuckConn) Write([]byte) (int, error) {
	time.Sleep(2 * time.Second)
	return 0, syscall.ECONNRESET
}
func (stuckConn) Read([]byte) (int, error) {
	time.Sleep(2 * time.Second)
	return 0, syscall.ECONNRESET
}
func (stuckConn) Close() error { return nil }

// A goneConn fails to write, and has nothing to read for two seconds.
type goneConn struct{ stuckConn }

func (goneConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestTheCallersEndIsNeverWrapped(t *testing.T) {
	reason := errors.New("the caller has changed its mind")
	t.Run("before the request", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			client, server := serve(t, hang, func(c *k8s.Config) {
				c.Token = func(context.Context) (string, error) { asked++; return secret, nil }
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(reason)
			for _, err := range []error{
				get(ctx, client), post(ctx, client),
				second(client.MergePatch(ctx, k8s.Pods, "a", k8s.Object{})),
				second(client.JSONPatch(ctx, k8s.Pods, "a", []k8s.PatchOp{{Op: "remove", Path: "/a"}})),
				second(client.Delete(ctx, k8s.Pods, "a", k8s.DeleteOptions{})),
				second(client.List(ctx, k8s.Pods, k8s.ListOptions{})),
				second(client.Watch(ctx, k8s.Pods, "a", "")),
			} {
				if err != reason {
					t.Errorf("got %v, want the caller's own reason", err)
				}
			}
			if asked != 0 || len(server.requests()) != 0 {
				t.Errorf("%d tokens and %d requests for a context that is over", asked, len(server.requests()))
			}
		})
	})
	for why, edit := range map[string]func(*k8s.Config){
		"while the server is silent": func(*k8s.Config) {},
		"while the token is awaited": func(c *k8s.Config) {
			c.Token = func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		},
		"while a connection is made": func(c *k8s.Config) {
			c.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, hang, edit)
				start := time.Now()
				ctx, cancel := context.WithCancelCause(t.Context())
				stop := context.AfterFunc(after(ctx, 20*time.Millisecond), func() { cancel(reason) })
				defer stop()
				if err := post(ctx, client); err != reason {
					t.Errorf("got %v, want the caller's own reason", err)
				}
				if took := time.Since(start); took != 20*time.Millisecond {
					t.Errorf("it took %v, want 20ms", took)
				}
			})
		})
	}
	t.Run("by its deadline, in the middle of a body", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				reply(w, 200, `{"kind":`)
				w.(http.Flusher).Flush()
				hang(n, w, r)
			})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reason)
			defer cancel()
			if err := get(ctx, client); err != reason {
				t.Errorf("got %v, want the cause of the deadline", err)
			}
		})
	})
	t.Run("even when the request has succeeded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			client, _ := serve(t, always(200, claim("a")), func(c *k8s.Config) {
				c.Warning = func(k8s.Warning) {}
			})
			traced := k8s.WithTrace(ctx, &k8s.Trace{Request: func(k8s.RequestInfo) { cancel(reason) }})
			if err := get(traced, client); err != reason {
				t.Errorf("got %v, want the caller's own reason", err)
			}
		})
	})
}

func second[T any](_ T, err error) error { return err }

// after is a context that ends after d.
func after(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(ctx, cancel)
	return ctx
}
