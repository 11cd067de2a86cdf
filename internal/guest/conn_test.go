//go:build linux

package guest_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

func TestRequestCutAnywhere(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	healthz := frame(object{"op": "healthz"})
	whole := g.dial().write(healthz).next()
	for at := 1; at < len(healthz); at++ {
		if got := g.dial().write(healthz[:at]).write(healthz[at:]).next(); got != whole {
			t.Errorf("cut at %d: %s", at, got)
		}
	}
	execute := request(wire.OpExecute, object{"command": "echo", "args": []string{"hé"}})
	for at := 1; at < len(execute); at += 7 {
		r := g.dial().write(execute[:at]).write(execute[at:]).finish()
		if r.stdout != "hé\n" || r.result["exitCode"] != 0.0 || !r.complete {
			t.Errorf("cut at %d: %+v", at, r)
		}
	}
}

func TestFloodIsEndedEarly(t *testing.T) {
	g := newGuest(t, guest.Config{})
	l := g.dial()
	piece := bytes.Repeat([]byte("A"), 16<<10)
	sent := 0
	for sent < 256<<20 {
		n, err := l.conn.Write(piece)
		sent += n
		if err != nil {
			break
		}
	}
	// What is still taken is what fits into the buffers of two sockets.
	if sent >= 32<<20 {
		t.Errorf("%d bytes were taken of a stream that is no frame", sent)
	}
}

// TestFramesAfterTheRequest covers what has no meaning any more.
func TestFramesAfterTheRequest(t *testing.T) {
	config := guest.Config{MaxFirstFrameBytes: 64 << 10, MaxFrameBytes: 1 << 20, RefusalGrace: 100 * time.Millisecond}
	const waiting = "read line < go; echo done"
	for _, test := range []struct {
		name   string
		frames []byte
		want   string // of the stream's frames: the result, or a refusal, or "" for none
	}{
		{"frames are ignored", bytes.Repeat(request(wire.OpExecute, object{"command": "touch", "args": []string{"second"}}), 3), "result"},
		{"frames above the limit of the first, but not that of all, are ignored", wire.AppendFrame(nil, make([]byte, 900<<10)), "result"},
		{"eight bytes that begin no frame are never looked at", []byte("garbage!"), "result"},
		{"nine are no header, and end the connection", []byte("garbage!!"), ""},
		{"a frame above the limit of all is refused in the control shape", []byte("00100001\n"),
			`{"ok":false,"error":"frame_too_large: announced 1048577 bytes, limit 1048576 (NAMZU_AGENT_MAX_FRAME_BYTES)"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGuest(t, config)
			if r := g.shell("mkfifo go"); r.result["exitCode"] != 0.0 {
				t.Fatalf("mkfifo: %+v", r)
			}
			l := g.begin(g.reserve(), "echo started; "+waiting, nil).write(test.frames)
			if test.want == "result" {
				g.shell("echo > go")
				if r := l.finish(); r.stdout != "done\n" || !r.complete {
					t.Errorf("%+v", r)
				}
			} else {
				if got := strings.Join(l.rest(), " "); got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
				g.shell("echo > go") // which waits for the program: it still runs
			}
			if _, err := os.Stat(g.workspace + "/second"); err == nil {
				t.Error("a second request was served")
			}
		})
	}
}

func TestConnectionsDoNotOwnPrograms(t *testing.T) {
	g := newGuest(t, guest.Config{})
	g.shell("mkfifo go out")
	id := g.reserve()
	l := g.begin(id, "echo started; read line < go; echo $line > out", nil)
	l.conn.Close()
	reader := g.ask(wire.OpExecute, object{"command": "cat", "args": []string{"out"}})
	g.shell("echo after > go")
	if r := reader.finish(); r.stdout != "after\n" {
		t.Errorf("the program whose connection was closed said %q, want it to go on", r.stdout)
	}
	for g.call(wire.OpReserve, object{"executionId": id})["state"] != wire.StateTerminal {
		pause(5)
	}
	if c := g.call(wire.OpCancel, object{"executionId": id}); c["state"] != "completed" {
		t.Errorf("its end: %v", c)
	}
}

func TestKeepAlive(t *testing.T) {
	g := newGuest(t, guest.Config{})
	l := g.dial()
	l.write(frame(object{"op": "healthz"})).next()
	l = g.dial().write([]byte("0")) // accepted before, or at least at the same time
	g.call(wire.OpReserve, nil)     // accepted after it
	local, peer := l.conn.RemoteAddr().(*net.TCPAddr), l.conn.LocalAddr().(*net.TCPAddr)
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Skip("no /proc/net/tcp: ", err)
	}
	want := fmt.Sprintf(" 0100007F:%04X 0100007F:%04X ", local.Port, peer.Port)
	for line := range strings.Lines(string(table)) {
		if _, rest, ok := strings.Cut(line, want); ok {
			if timer := strings.Fields(rest)[2]; !strings.HasPrefix(timer, "02:") {
				t.Errorf("timer %s of the guest's socket, want 02, that of keep-alive", timer)
			}
			return
		}
	}
	t.Errorf("no socket %q in\n%s", want, table)
}

func TestPreauthLimitsEndWithAuthentication(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{PreauthIdle: 300 * time.Millisecond, PreauthDeadline: 300 * time.Millisecond, MaxPreauth: 1})
	l := g.begin(g.reserve(), "echo started; sleep 0.8; echo late", nil)
	g.dial().write([]byte("0")) // takes the only place
	if r := l.finish(); r.stdout != "late\n" || !r.complete {
		t.Errorf("%+v", r)
	}
}

func TestFirstTokenBinds(t *testing.T) {
	g := newGuest(t, guest.Config{RequireToken: true})
	reserve := func(token any) string {
		l := g.dial().write(frame(object{"op": wire.OpReserve, "token": token}))
		defer l.conn.Close()
		return l.next()
	}
	for _, token := range []any{nil, "", 7, []any{"x"}, object{}, true} {
		if got := reserve(token); !strings.Contains(got, `"unauthorized"`) {
			t.Errorf("token %v: %s", token, got)
		}
	}
	// Of many at once, exactly one binds.
	var mu sync.Mutex
	admitted := map[string]bool{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			token := fmt.Sprint("token-", i)
			if !strings.Contains(reserve(token), `"unauthorized"`) {
				mu.Lock()
				admitted[token] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(admitted) != 1 {
		t.Fatalf("admitted: %v, want one", admitted)
	}
	for i := range 8 {
		token := fmt.Sprint("token-", i)
		if got := strings.Contains(reserve(token), `"unauthorized"`); got == admitted[token] {
			t.Errorf("%s: refused %v although bound %v", token, got, admitted[token])
		}
	}
}

func TestOddTexts(t *testing.T) {
	g := newGuest(t, guest.Config{})
	// A program's bytes and the text that becomes of them, as the WHATWG
	// Encoding Standard has it.
	for in, want := range map[string]string{
		"fffe6f6bc3": "��ok�", "e282": "�", "f09f98": "�", "eda080": "���", "f4908080": "����", "c080": "��",
		"e28261": "�a", "f0808080": "����", "f08f8080ff": "�����", "efbbbf61": "\ufeffa", "f09f9880e2": "😀�", "610062": "a\x00b",
	} {
		raw, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		g.put("bytes", string(raw), 0o644)
		if r := g.execute(object{"command": "cat", "args": []string{"bytes"}}); r.stdout != want {
			t.Errorf("output %s: %q, want %q", in, r.stdout, want)
		}
		if r := g.call(wire.OpReadFile, object{"path": "bytes"}); r["content"] != want || r["sizeBytes"] != float64(len(raw)) {
			t.Errorf("file %s: %v, want %q", in, r, want)
		}
	}
	if r := g.call(strings.Repeat("x", 1<<20), nil); len(r["error"].(string)) > 2000 {
		t.Errorf("an unknown op comes back with %d bytes", len(r["error"].(string)))
	}
}

func TestCloseEndsEverything(t *testing.T) {
	g := newGuest(t, guest.Config{})
	silent, running := g.dial(), g.begin(g.reserve(), "trap '' TERM; echo started; while :; do sleep 1; done", nil)
	stream := g.begin(g.reserve(), "echo started; sleep 600", nil)
	if err := g.server.Close(); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*line{"silent": silent, "running": running, "stream": stream} {
		if _, err := io.Copy(io.Discard, l.conn); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v, want the end", name, err)
		}
	}
	if left := processesIn(g.workspace); len(left) > 0 {
		t.Errorf("programs are left: %v", left)
	}
	if err := g.server.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.server.Serve(l); err != nil {
		t.Errorf("Serve afterwards: %v", err)
	}
	if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
		conn.Close()
		t.Error("Serve has left its listener open")
	}
}
