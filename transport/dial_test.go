package transport_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// TestDialing looks at how often and for how long connecting is tried. Health
// is bounded by nothing else.
func TestDialing(t *testing.T) {
	const name = "task.sandboxes.svc.cluster.local"
	dns := func(host string, set func(*net.DNSError)) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			e := &net.DNSError{Err: "no such host", Name: host}
			set(e)
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: e}
		}
	}
	notFound := func(e *net.DNSError) { e.IsNotFound = true }
	temporary := func(e *net.DNSError) { e.Err, e.IsTemporary = "server misbehaving", true }
	dialError := func(err error) bool { _, ok := errors.AsType[*transport.DialError](err); return ok }
	unresolvable := func(err error) bool {
		e, ok := errors.AsType[*transport.UnresolvableError](err)
		return ok && e.Host == name && strings.Contains(err.Error(), "pod-ip")
	}
	for _, tt := range []struct {
		name   string
		config transport.Config
		silent bool
		is     func(error) bool
		text   string
		dials  int64
		took   time.Duration
	}{
		{"nobody listens", transport.Config{}, false, func(err error) bool { return dialError(err) && errors.Is(err, syscall.ECONNREFUSED) },
			"no connection to tcp:10.0.0.7:1024 within 30s (300 attempts)", 300, 30 * time.Second},
		{"a black hole", transport.Config{}, true, dialError,
			"NetworkPolicy that does not let this host in", 6, 30 * time.Second},
		{"shorter times", transport.Config{AttemptTimeout: 400 * time.Millisecond, DialBudget: time.Second}, true, dialError,
			"within 1s (2 attempts)", 2, time.Second},
		{"the name does not exist", transport.Config{Host: name}, false, unresolvable, "no such host", 1, 0},
		{"the resolver says so of a name", transport.Config{Host: name, DialContext: dns(name, notFound)}, false, unresolvable, "does not resolve here", 1, 0},
		{"the resolver fails for as long as the budget lasts", transport.Config{Host: name, DialContext: dns(name, temporary)}, false, unresolvable, "server misbehaving", 300, 30 * time.Second},
		{"a literal address is never given up for what a resolver says", transport.Config{DialContext: dns(podIP, notFound)}, false, dialError, "no such host", 300, 30 * time.Second},
		{"nor is one with a zone", transport.Config{Host: "fe80::1%eth0", DialContext: dns("fe80::1", notFound)}, false, dialError, "tcp:[fe80::1%eth0]:1024", 300, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, tt.config, nil, func(t *testing.T, p *pod) {
				if tt.silent {
					p.net.Silence(podIP)
				}
				_, err := p.Health(t.Context())
				if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.text) || !transport.SafeToRetry(err) {
					t.Errorf("got %T %v, want %q in it", err, err, tt.text)
				}
				if got := p.dials.Load(); got != tt.dials {
					t.Errorf("%d attempts, want %d", got, tt.dials)
				}
				p.took(t, tt.took)
			})
		})
	}
}

func TestDialingRecovers(t *testing.T) {
	bubble(t, transport.Config{Host: "guest"}, nil, func(t *testing.T, p *pod) {
		p.net.AddHost("guest", "10.0.0.1")
		time.AfterFunc(250*time.Millisecond, func() {
			p.net.AddHost("guest", podIP)
			p.play(t, podIP, serve("healthz", features))
		})
		if _, err := p.Health(t.Context()); err != nil {
			t.Error(err)
		}
		p.took(t, 300*time.Millisecond) // the fourth attempt, at the name's new address
	})
}

// TestAddresses looks at what the dialler is asked for.
func TestAddresses(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.7": "10.0.0.7:1024", "::1": "[::1]:1024", "fe80::1%eth0": "[fe80::1%eth0]:1024", "a.b": "a.b:1024", "a:80": "[a:80]:1024",
	} {
		var got string
		a, err := transport.New(transport.Config{Host: host, Port: 1024, DialBudget: 1, DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			got = network + " " + address
			return nil, errors.New("no")
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Health(t.Context()); err == nil || got != "tcp "+want {
			t.Errorf("host %q: dialled %q, want %q", host, got, "tcp "+want)
		}
	}
}

func TestContextEndsDialing(t *testing.T) {
	for name, prepare := range map[string]func(*pod){
		"in an attempt":  func(p *pod) { p.net.Silence(podIP) },
		"between two":    func(*pod) {},
		"at its instant": func(*pod) {},
	} {
		after := 7050 * time.Millisecond
		if name == "at its instant" {
			after = 7 * time.Second
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
				prepare(p)
				if _, err := p.Health(endAfter(t, after)); err != errCause {
					t.Errorf("got %v, want the cause itself", err)
				}
				p.took(t, after)
			})
		})
	}
}

// TestDefaultDialer goes over loopback, with nothing but the defaults.
func TestDefaultDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	Start(t, l, Accept(), Expect("healthz", Token("")), answer(features))
	a, err := transport.New(transport.Config{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if h, err := a.Health(t.Context()); err != nil || !h.OK {
		t.Errorf("got %+v, %v", h, err)
	}
}

// rebound is a pod whose replacement listens at 10.0.0.8 and knows another
// token.
func rebound(refresh func(n int) (transport.Endpoint, error), calls *int) transport.Config {
	return transport.Config{Refresh: func(context.Context) (transport.Endpoint, error) {
		*calls++
		return refresh(*calls)
	}}
}

const newToken = "the-token-of-the-new-pod"

func moved(int) (transport.Endpoint, error) {
	return transport.Endpoint{Host: "10.0.0.8", Port: 1024, Token: newToken}, nil
}

// TestRefresh has a pod that is gone or that is another one, for each operation.
func TestRefresh(t *testing.T) {
	refusal := func(op string) Step { return serve(op, `{"ok":false,"error":"unauthorized"}`) }
	fresh := func(op, reply string, checks ...Check) Step {
		return Seq(Accept(), Expect(op, append(checks, Token(newToken))...), answer(reply))
	}
	for _, tt := range []struct {
		name string
		old  Step // what the old pod does unless it is gone
		new  []Step
		op   func(*pod) error
	}{
		{"Run", refusal("reserve-execution"), []Step{fresh("reserve-execution", strings.Replace(reserved, "boot-1", "boot-2", 1)), Accept(), Expect("execute", Token(newToken)), finish(exit0)},
			func(p *pod) error { return p.Command(context.Background(), "x").Run() }},
		{"ReadFile", Seq(serve("healthz", features), refusal("read-file-stream")), []Step{fresh("healthz", features), Accept(), Expect("read-file-stream", Token(newToken)),
			Send(`{"type":"meta","sizeBytes":0,"offset":0,"length":0}`), Send(`{"type":"end","bytesSent":0}`), ExpectClose()},
			func(p *pod) error { _, err := p.ReadFile(context.Background(), "a"); return err }},
		{"ReadRange", Seq(serve("healthz", features), refusal("read-file")), []Step{fresh("healthz", features),
			fresh("read-file", `{"ok":true,"content":"","sizeBytes":0,"encoding":"base64","offset":0,"bytesRead":0}`)},
			func(p *pod) error { _, _, err := p.ReadRange(context.Background(), "a", 0, 1); return err }},
		{"WriteFile", refusal("write-file"), []Step{fresh("write-file", `{"ok":true,"bytesWritten":1}`, Field("content", "eA=="))},
			func(p *pod) error {
				_, err := p.WriteFile(context.Background(), "a", strings.NewReader("x"))
				return err
			}},
	} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pod gone %v", tt.name, gone), func(t *testing.T) {
				calls := 0
				bubble(t, rebound(moved, &calls), nil, func(t *testing.T, p *pod) {
					if !gone {
						p.play(t, podIP, tt.old)
					}
					p.play(t, "10.0.0.8", tt.new...)
					if err := tt.op(p); err != nil || calls != 1 {
						t.Errorf("got %v after %d refreshes", err, calls)
					}
				})
			})
		}
	}
}

// TestRefreshThatDoesNotHelp sees that the first failure stands.
func TestRefreshThatDoesNotHelp(t *testing.T) {
	boom := errors.New("boom")
	refused := Seq(serve("reserve-execution", `{"ok":false,"error":"unauthorized"}`))
	same := func(int) (transport.Endpoint, error) {
		return transport.Endpoint{Host: podIP, Port: 1024, Token: token}, nil
	}
	for _, tt := range []struct {
		name    string
		steps   []Step
		refresh func(int) (transport.Endpoint, error)
		is      func(error) bool
		calls   int
	}{
		{"the pod is the same", []Step{refused}, same, isUnauthorized, 1},
		{"the refresh fails", []Step{refused}, func(int) (transport.Endpoint, error) { return transport.Endpoint{}, boom },
			func(err error) bool { return isUnauthorized(err) && errors.Is(err, boom) }, 1},
		{"the refresh gives no address", []Step{refused}, func(int) (transport.Endpoint, error) { return transport.Endpoint{Token: "t"}, nil }, isUnauthorized, 1},
		{"the new one refuses as well", []Step{refused, Accept(), Expect("reserve-execution", Token("t")), answer(`{"ok":false,"error":"unauthorized"}`)},
			func(int) (transport.Endpoint, error) {
				return transport.Endpoint{Host: podIP, Port: 1024, Token: "t"}, nil
			}, isUnauthorized, 1},
		{"another failure is not refreshed for", []Step{serve("reserve-execution", `{"ok":false,"error":"agent_retiring"}`)}, same,
			func(err error) bool { _, ok := errors.AsType[*transport.RetiringError](err); return ok }, 0},
		{"a broken connection is not refreshed for", []Step{Accept(), Expect("reserve-execution"), Reset()}, same,
			func(err error) bool { _, ok := errors.AsType[*transport.StartError](err); return ok }, 0},
		{"a text that only mentions it is not refreshed for", []Step{serve("reserve-execution", `{"ok":false,"error":"unauthorized: not really"}`)}, same,
			func(err error) bool { _, ok := errors.AsType[*transport.StartError](err); return ok }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			bubble(t, rebound(tt.refresh, &calls), tt.steps, func(t *testing.T, p *pod) {
				err := p.Command(t.Context(), "x").Run()
				if err == nil || !tt.is(err) || calls != tt.calls {
					t.Errorf("got %T %v after %d refreshes, want %d", err, err, calls, tt.calls)
				}
			})
		})
	}
	t.Run("a name that does not resolve is not refreshed for", func(t *testing.T) {
		calls := 0
		config := rebound(same, &calls)
		config.Host = "nowhere"
		bubble(t, config, nil, func(t *testing.T, p *pod) {
			err := p.Command(t.Context(), "x").Run()
			if errorAs[*transport.UnresolvableError](t, err); calls != 0 {
				t.Errorf("%d refreshes", calls)
			}
		})
	})
	t.Run("a health check is not refreshed for", func(t *testing.T) {
		calls := 0
		bubble(t, rebound(moved, &calls), nil, func(t *testing.T, p *pod) {
			_, err := p.Health(t.Context())
			if errorAs[*transport.DialError](t, err); calls != 0 {
				t.Errorf("%d refreshes", calls)
			}
		})
	})
}

func isUnauthorized(err error) bool {
	_, ok := errors.AsType[*transport.UnauthorizedError](err)
	return ok
}

// TestRefreshIsShared has three operations fail at once and one more later.
func TestRefreshIsShared(t *testing.T) {
	calls := 0
	slow := func(n int) (transport.Endpoint, error) {
		time.Sleep(time.Second)
		return moved(n)
	}
	bubble(t, rebound(slow, &calls), nil, func(t *testing.T, p *pod) {
		var late, fresh []Step
		for i := range 4 {
			late = append(late, AcceptAs(fmt.Sprint(i)), Expect("write-file"))
			fresh = append(fresh, Accept(), Expect("write-file", Token(newToken)), answer(`{"ok":true,"guestBootId":"boot-2","bytesWritten":1}`))
		}
		for i := range 3 {
			late = append(late, On(fmt.Sprint(i)), answer(`{"ok":false,"error":"unauthorized"}`))
		}
		// The fourth hears of it when the others have moved on already.
		late = append(late, On("3"), Delay(5*time.Second), answer(`{"ok":false,"error":"unauthorized"}`))
		p.play(t, podIP, late...)
		p.play(t, "10.0.0.8", fresh...)
		done := make(chan error, 4)
		for range 4 {
			go func() {
				_, err := p.WriteFile(t.Context(), "a", strings.NewReader("x"))
				done <- err
			}()
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if calls != 1 || p.BootID() != "boot-2" {
			t.Errorf("%d refreshes, boot id %q", calls, p.BootID())
		}
		p.took(t, 5*time.Second)
	})
}

// TestRefreshIsBounded has a Refresh that only its context ends.
func TestRefreshIsBounded(t *testing.T) {
	hang := transport.Config{Refresh: func(ctx context.Context) (transport.Endpoint, error) {
		<-ctx.Done()
		return transport.Endpoint{}, context.Cause(ctx)
	}}
	refused := []Step{serve("write-file", `{"ok":false,"error":"unauthorized"}`)}
	write := func(ctx context.Context, p *pod) error {
		_, err := p.WriteFile(ctx, "a", strings.NewReader("x"))
		return err
	}
	t.Run("by its own time", func(t *testing.T) {
		bubble(t, hang, refused, func(t *testing.T, p *pod) {
			if err := write(t.Context(), p); !isUnauthorized(err) {
				t.Errorf("got %v", err)
			}
			p.took(t, 10*time.Second)
		})
	})
	t.Run("by the caller, whom it does not belong to", func(t *testing.T) {
		bubble(t, hang, refused, func(t *testing.T, p *pod) {
			if err := write(endAfter(t, time.Second), p); err != errCause {
				t.Errorf("got %v", err)
			}
			p.took(t, time.Second)
		})
	})
	t.Run("by Close", func(t *testing.T) {
		bubble(t, hang, refused, func(t *testing.T, p *pod) {
			done := make(chan error)
			go func() { done <- write(context.Background(), p) }()
			time.Sleep(time.Second)
			p.Close()
			if err := <-done; err != transport.ErrClosed {
				t.Errorf("got %v", err)
			}
			p.took(t, time.Second)
		})
	})
}

// TestLateAnswerOfTheOldPod sees that a boot id counts for the pod that told
// it.
func TestLateAnswerOfTheOldPod(t *testing.T) {
	calls := 0
	bubble(t, rebound(moved, &calls), nil, func(t *testing.T, p *pod) {
		p.play(t, podIP,
			AcceptAs("late"), Expect("write-file"), serve("write-file", `{"ok":false,"error":"unauthorized"}`),
			On("late"), Delay(time.Second), answer(`{"ok":true,"guestBootId":"boot-1","bytesWritten":1}`))
		p.play(t, "10.0.0.8", Accept(), Expect("write-file", Token(newToken)), answer(`{"ok":true,"guestBootId":"boot-2","bytesWritten":1}`))
		done := make(chan error)
		go func() {
			_, err := p.WriteFile(t.Context(), "late", strings.NewReader("x"))
			done <- err
		}()
		synctest.Wait()
		if _, err := p.WriteFile(t.Context(), "b", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := p.BootID(); got != "boot-2" {
			t.Errorf("BootID = %q, want the new pod's", got)
		}
	})
}
