package k8s_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/k8s"
)

const tlsAddress = "127.0.0.1:6443"

// overTLS starts server on l in memory and returns a client of it. The listener
// is closed, and all joined, with the test.
func overTLS(t *testing.T, wrap func(net.Listener) net.Listener, serve func(net.Listener, *tls.Config), edits ...func(*k8s.Config)) *k8s.Client {
	t.Helper()
	ca := newAuthority(t, "ca")
	network := new(memnet.Network)
	l, err := network.Listen("tcp", tlsAddress)
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		l = wrap(l)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		serve(l, &tls.Config{Certificates: []tls.Certificate{ca.issue("api", "127.0.0.1")}, NextProtos: []string{"h2"}})
	})
	cfg := k8s.Config{Server: "https://" + tlsAddress, CA: ca.pem(), Token: withToken, Namespace: "ns", DialContext: network.DialContext}
	for _, edit := range edits {
		edit(&cfg)
	}
	client := newClient(t, cfg)
	t.Cleanup(func() {
		client.CloseIdleConnections()
		l.Close()
		wg.Wait()
	})
	return client
}

// standard serves with net/http.
func standard(t *testing.T, a *api) func(net.Listener, *tls.Config) {
	return func(l net.Listener, c *tls.Config) {
		s := &http.Server{Handler: a, TLSConfig: c, ErrorLog: quiet}
		t.Cleanup(func() { s.Close() })
		s.ServeTLS(l, "", "")
	}
}

// A mutable listener's connections can be made to vanish: what is sent to them
// is swallowed, and nothing comes back.
type mutable struct {
	net.Listener
	mu    sync.Mutex // guards conns
	conns []*mutableConn
}

func (l *mutable) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m := &mutableConn{Conn: c}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, m)
	return m, nil
}

// mute makes all connections that there are vanish, and counts them.
func (l *mutable) mute() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.muted.Store(true)
	}
	return len(l.conns)
}

type mutableConn struct {
	net.Conn
	muted atomic.Bool
}

func (c *mutableConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.muted.Load() {
			return n, err
		}
	}
}

func (c *mutableConn) Write(p []byte) (int, error) {
	if c.muted.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestADeadConnectionIsFoundByPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{handle: always(200, claim("a"))}
		var m *mutable
		client := overTLS(t, func(l net.Listener) net.Listener { m = &mutable{Listener: l}; return m }, standard(t, a))
		if err := get(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		if n := m.mute(); n != 1 {
			t.Fatalf("%d connections, want 1", n)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := k8s.RetryRead(t.Context(), k8s.Backoff{Initial: time.Millisecond}, func(ctx context.Context) (k8s.Object, error) {
					return client.Get(ctx, k8s.SandboxClaims, "a")
				})
				if took, want := time.Since(start), k8s.PingAfter+k8s.PingWait; err != nil || took < want || took > want+time.Millisecond {
					t.Errorf("got %v after %v, want an answer over a new connection after %v", err, took, want)
				}
			})
		}
		wg.Wait()
		if r := a.requests()[3]; r.Proto != 2 {
			t.Errorf("HTTP/%d, want 2", r.Proto)
		}
	})
}

func TestManyRequestsAtOnceWaitForNothing(t *testing.T) {
	slow := func(_ int, w http.ResponseWriter, r *http.Request) {
		pause(r, 100*time.Millisecond)
		reply(w, 200, claim("a"))
	}
	// More than net/http puts on one HTTP/2 connection whose limit it has not heard.
	const many = 120
	run := func(t *testing.T, client *k8s.Client) {
		start := time.Now()
		var wg sync.WaitGroup
		for range many {
			wg.Go(func() {
				if err := get(t.Context(), client); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("%d requests of 100ms took %v", many, took)
		}
	}
	t.Run("HTTP/1", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, _ := serve(t, slow)
			run(t, client)
		})
	})
	t.Run("HTTP/2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			run(t, overTLS(t, nil, standard(t, &api{handle: slow})))
		})
	})
}

// resetting is an HTTP/2 server, frame by frame (RFC 9113), that resets every
// stream with the given code once the whole request has arrived.
func resetting(code uint32, streams *atomic.Int64) func(net.Listener, *tls.Config) {
	const data, headers, rstStream, settings, endStream, ack = 0, 1, 3, 4, 1, 1
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		b = append(b, flags)
		return append(binary.BigEndian.AppendUint32(b, stream), payload...)
	}
	conn := func(c net.Conn) {
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		c.Write(frame(settings, 0, 0, nil))
		for {
			var h [9]byte
			if _, err := io.ReadFull(c, h[:]); err != nil {
				return
			}
			kind, flags, stream := h[3], h[4], binary.BigEndian.Uint32(h[5:])
			if _, err := io.CopyN(io.Discard, c, int64(h[0])<<16|int64(h[1])<<8|int64(h[2])); err != nil {
				return
			}
			switch {
			case kind == settings && flags&ack == 0:
				c.Write(frame(settings, ack, 0, nil))
			case kind == headers:
				streams.Add(1)
			}
			if (kind == headers || kind == data) && flags&endStream != 0 {
				c.Write(frame(rstStream, 0, stream, binary.BigEndian.AppendUint32(nil, code)))
			}
		}
	}
	return func(l net.Listener, cfg *tls.Config) {
		var wg sync.WaitGroup
		defer wg.Wait()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { conn(tls.Server(c, cfg)) })
		}
	}
}

// With these two codes net/http repeats a request by itself where it can. It
// must not be able to for a request that may have been applied.
func TestAWriteIsSentOnceWhateverTheServerResets(t *testing.T) {
	for why, code := range map[string]uint32{"PROTOCOL_ERROR": 1, "REFUSED_STREAM": 7, "INTERNAL_ERROR": 2} {
		t.Run(why, func(t *testing.T) {
			for verb, do := range map[string]func(context.Context, *k8s.Client) error{
				"POST": post,
				"PATCH": func(ctx context.Context, c *k8s.Client) error {
					_, err := c.MergePatch(ctx, k8s.SandboxClaims, "a", k8s.Object{"spec": k8s.Object{}})
					return err
				},
			} {
				synctest.Test(t, func(t *testing.T) {
					var streams atomic.Int64
					client := overTLS(t, nil, resetting(code, &streams))
					err := do(t.Context(), client)
					if e := apiError(t, err, k8s.Unreachable); e.NotApplied || streams.Load() != 1 {
						t.Errorf("%s: sent %d times, NotApplied %v, want once and false", verb, streams.Load(), e.NotApplied)
					}
				})
			}
		})
	}
}

func TestWhatNetHTTPRepeatsByItselfIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var streams atomic.Int64
		client := overTLS(t, nil, resetting(7, &streams))
		var told []k8s.RequestInfo
		ctx := k8s.WithTrace(t.Context(), &k8s.Trace{Request: func(i k8s.RequestInfo) { told = append(told, i) }})
		apiError(t, get(ctx, client), k8s.Timeout)
		if n := int(streams.Load()); n < 3 || len(told) != 1 || told[0].Sent != n {
			t.Errorf("%d requests arrived, the trace says %+v", n, told)
		}
	})
}
