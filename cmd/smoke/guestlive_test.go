package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A script types at a shell in a real pod: it waits for what each line brings
// about before it types the next, interrupts a program by key, and leaves with
// an exit code.
func TestLiveGuestShell(t *testing.T) {
	at := liveGuest(t)
	keys, script := io.Pipe()
	defer script.Close()
	b := inBackground(t, keys, at, "shell")
	for _, line := range []struct{ keys, shows string }{
		{"echo uid:$(id -u):\n", "uid:65534:"},
		{"echo size:$(stty size):\n", "size:24 80:"},
		{"sh -c 'trap \"echo caught; exit 0\" INT; echo wait\"\"ing; while :; do sleep 1; done'\n", "waiting"},
		{interruptKey, "caught"},
		{"echo ünïcode:$((6*7)):\n", "ünïcode:42:"},
	} {
		if _, err := io.WriteString(script, line.keys); err != nil {
			t.Fatal(err)
		}
		b.stdout.await(t, line.shows)
	}
	if _, err := io.WriteString(script, "exit 37\n"); err != nil {
		t.Fatal(err)
	}
	if code := <-b.ended; code != 37 {
		t.Errorf("exit code %d, want 37; standard error %s", code, b.stderr)
	}
}

// What a program of a real pod has written can be followed again, and a session
// outlives the shell that started it.
func TestLiveGuestAttachAndSessions(t *testing.T) {
	at := liveGuest(t)
	r := onGuest(t, nil, at, "exec", "-retain", "--", "sh", "-c", "echo one; sleep 0.1; echo two; exit 3")
	r.expect(t, 3, "one\ntwo\n", "smoke: execution ")
	_, id, _ := strings.Cut(r.stderr, "smoke: execution ")
	onGuest(t, nil, at, "attach", "-from", "4", strings.TrimSpace(id)).expect(t, 3, "two\n")

	keys, script := io.Pipe()
	defer script.Close()
	b := inBackground(t, keys, at, "shell", "-session", "live", "--", "sh", "-c", "echo up; read -r line; echo heard:$line:; sleep 600")
	b.stdout.await(t, "up")
	b.interrupt(errInterrupt)
	<-b.ended
	keys, script = io.Pipe()
	defer script.Close()
	b = inBackground(t, keys, at, "shell", "-session", "live")
	if _, err := io.WriteString(script, "again\n"); err != nil {
		t.Fatal(err)
	}
	b.stdout.await(t, "heard:again:")
	onGuest(t, nil, at, "sessions").expect(t, 0, "live", "attached")
	onGuest(t, nil, at, "sessions", "kill", "live").expect(t, 0, "signal-9")
	if code := <-b.ended; code != exitSignal+9 {
		t.Errorf("exit code %d of a shell whose session was killed, want %d", code, exitSignal+9)
	}
	onGuest(t, nil, at, "sessions", "read", "live").expect(t, 0, "heard:again:")
}

// A forward carries an HTTP server that the guest reaches at 127.0.0.1: pods of
// the rig share the machine's network. Many requests share few connections, and
// large bodies go both ways.
func TestLiveGuestForward(t *testing.T) {
	at := liveGuest(t)
	var accepted atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := strconv.Atoi(r.URL.Query().Get("down")); err == nil {
			io.Copy(w, io.LimitReader(rand.NewChaCha8([32]byte{1}), int64(n)))
			return
		}
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%d %x %v", n, h.Sum(nil), err)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			accepted.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	b := inBackground(t, neverEnding{t}, at, "forward", "0:"+port)
	url := "http://" + b.forwarding(t) + "/"

	const clients, requests = 8, 25
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	upload := func(body []byte) error {
		resp, err := client.Post(url, "application/octet-stream", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if want := fmt.Sprintf("%d %x <nil>", len(body), sha256.Sum256(body)); err == nil && string(got) != want {
			err = fmt.Errorf("the server says %q, want %q", got, want)
		}
		return err
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for j := range requests {
				if err := upload(bytes.Repeat([]byte{byte(i), byte(j)}, 10_000+i*j)); err != nil {
					t.Errorf("request %d of client %d: %v", j, i, err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests by %d clients in %v, on %d connections", clients*requests, clients, time.Since(begin), accepted.Load())
	if n := accepted.Load(); n > 2*clients {
		t.Errorf("the server accepted %d connections of %d clients that keep theirs", n, clients)
	}

	const large = 32 << 20
	body := make([]byte, large)
	rand.NewChaCha8([32]byte{1}).Read(body)
	begin = time.Now()
	if err := upload(body); err != nil {
		t.Error(err)
	}
	t.Logf("%d bytes up in %v", large, time.Since(begin))
	begin = time.Now()
	resp, err := client.Get(url + "?down=" + strconv.Itoa(large))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes came down, %v; want %d, the same", len(got), err, large)
	}
	t.Logf("%d bytes down in %v", large, time.Since(begin))
	b.interrupt(errInterrupt)
	if code := <-b.ended; code != exitOK {
		t.Errorf("exit code %d of a forward that was interrupted: %s", code, b.stderr)
	}
}
