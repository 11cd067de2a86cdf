package memnet_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
)

// serve runs an http.Server over n until the returned function is called.
func serve(t testing.TB, n *memnet.Network, h http.Handler) (client *http.Client, stop func()) {
	l := listen(t, n, "10.0.0.1:80")
	server := &http.Server{Handler: h}
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(l) })
	transport := &http.Transport{DialContext: n.DialContext}
	return &http.Client{Transport: transport}, func() {
		transport.CloseIdleConnections()
		server.Close()
		wg.Wait()
	}
}

func TestHTTPStreamsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, stop := serve(t, &memnet.Network{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; r.Context().Err() == nil; i++ {
				fmt.Fprintln(w, i)
				w.(http.Flusher).Flush()
				select {
				case <-time.After(time.Minute):
				case <-r.Context().Done():
				}
			}
		}))
		defer stop()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://10.0.0.1/", nil)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var lines []string
		scan := bufio.NewScanner(resp.Body)
		for scan.Scan() {
			lines = append(lines, scan.Text())
		}
		if got := strings.Join(lines, " "); got != "0 1 2" || !errors.Is(scan.Err(), context.DeadlineExceeded) {
			t.Errorf("read %q, %v; want three lines and DeadlineExceeded", got, scan.Err())
		}
		if took := time.Since(start); took != 150*time.Second {
			t.Errorf("took %v, want 150s", took)
		}
	})
}

func TestHTTPKeepsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		from := make(map[string]int)
		client, stop := serve(t, &memnet.Network{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			from[r.RemoteAddr]++
			mu.Unlock()
			io.Copy(w, r.Body)
		}))
		defer stop()
		for range 3 {
			resp, err := client.Post("http://10.0.0.1/", "text/plain", strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); string(body) != "hello" || err != nil {
				t.Errorf("body %q, %v", body, err)
			}
			resp.Body.Close()
		}
		if len(from) != 1 {
			t.Errorf("requests came over %d connections, want 1: %v", len(from), from)
		}
	})
}

func TestHTTPHijackAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, stop := serve(t, &memnet.Network{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.(*memnet.Conn).Reset()
		}))
		defer stop()
		_, err := client.Post("http://10.0.0.1/", "text/plain", strings.NewReader("x"))
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Post = %v, want ECONNRESET", err)
		}
	})
}

func TestManyConnectionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, stop := serve(t, &memnet.Network{Buffer: 100}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Write(body)
		}))
		defer stop()
		var wg sync.WaitGroup
		want := strings.Repeat("0123456789", 1000)
		for range 50 {
			wg.Go(func() {
				resp, err := client.Post("http://10.0.0.1/", "text/plain", strings.NewReader(want))
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if got, err := io.ReadAll(resp.Body); string(got) != want || err != nil {
					t.Errorf("read %d bytes, %v; want %d", len(got), err, len(want))
				}
			})
		}
		wg.Wait()
	})
}
