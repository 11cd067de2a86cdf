//go:build linux

package guest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

func TestCancelEndsTheGroup(t *testing.T) {
	t.Parallel()
	const immune = "(trap '' TERM; echo armed; while :; do sleep 0.05; done)"
	const orphaned = "while kill -0 $$ 2>/dev/null; do sleep 0.01; done"
	for _, test := range []struct {
		name, script string
		state        string
		signal       any
	}{
		{"a member ignores SIGTERM and holds the output", immune + " & sleep 600", "cancelled", "SIGTERM"},
		{"a member ignores it, with its output elsewhere", "(trap '' TERM; while :; do sleep 0.05; done) >/dev/null 2>&1 & sleep 0.1; echo armed; sleep 600", "cancelled", "SIGTERM"},
		{"the leader has ended and a member holds the output", "(" + orphaned + "; echo armed; sleep 600) &", "cancelled", nil},
		{"the leader has ended and an immune member holds it", "(" + orphaned + "; " + immune + ") &", "cancelled", nil},
		{"a process outside the group holds the output", "setsid sleep 600 & echo armed; sleep 600", "cancelled", "SIGTERM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGuest(t, guest.Config{})
			t.Cleanup(func() { killDaemons(g.workspace) })
			id := g.reserve()
			l := g.begin(id, test.script, nil)
			c := g.call(wire.OpCancel, object{"executionId": id})
			result, _ := c["result"].(object)
			if c["ok"] != true || c["state"] != test.state || c["started"] != true || result["signal"] != test.signal {
				t.Errorf("cancel: %v", c)
			}
			if r := l.finish(); r.result["signal"] != test.signal || !r.complete {
				t.Errorf("stream: %+v", r)
			}
			if again := g.call(wire.OpCancel, object{"executionId": id}); again["state"] != test.state {
				t.Errorf("again: %v", again)
			}
			if health := g.call(wire.OpHealth, nil); health["ok"] != true {
				t.Errorf("afterwards: %v", health)
			}
		})
	}
}

// TestCancelRacesWithExecute accepts that the program never started or that it
// was ended, and nothing else.
func TestCancelRacesWithExecute(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	outcomes := map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				id := g.reserve()
				stream := g.ask(wire.OpExecute, object{"executionId": id, "command": "sleep", "args": []string{"600"}, "cwd": "deep/" + id + "/a/b"})
				c := g.call(wire.OpCancel, object{"executionId": id})
				r := stream.finish()
				outcome := "neither"
				switch {
				case c["state"] == "cancelled" && c["started"] == false &&
					(r.result["error"] == "execution_cancelled" || r.result["error"] == "execution_not_reserved: terminal"):
					outcome = "not started"
				case c["state"] == "cancelled" && c["started"] == true && r.result["signal"] == "SIGTERM":
					outcome = "ended"
				default:
					t.Errorf("cancel %v, stream %+v", c, r)
				}
				mu.Lock()
				outcomes[outcome]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Log(outcomes)
}

func TestCancelDuringATimeout(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{CancelGrace: time.Second})
	id := g.reserve()
	l := g.begin(id, "trap 'echo asked' TERM; echo armed; while :; do sleep 0.05; done", object{"timeoutMs": 300})
	for !strings.Contains(l.next(), "asked") { // the timeout's SIGTERM has come
	}
	c := g.call(wire.OpCancel, object{"executionId": id})
	if result, _ := c["result"].(object); c["state"] != "completed" || result["timedOut"] != true || result["signal"] != "SIGKILL" {
		t.Errorf("cancel: %v, want the outcome of the timeout", c)
	}
	if r := l.finish(); r.result["timedOut"] != true {
		t.Errorf("%+v", r)
	}
}

func TestCancelsShareOneTermination(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{CancelGrace: 300 * time.Millisecond})
	id := g.reserve()
	l := g.begin(id, "trap '' TERM; echo armed; while :; do sleep 0.05; done", nil)
	var all sync.WaitGroup
	replies := make([]object, 6)
	for i := range replies {
		all.Go(func() { replies[i] = g.call(wire.OpCancel, object{"executionId": id}) })
	}
	all.Wait()
	for i, c := range replies {
		if result, _ := c["result"].(object); c["state"] != "cancelled" || result["signal"] != "SIGKILL" {
			t.Errorf("cancel %d: %v", i, c)
		}
	}
	l.finish()
}

// TestFence covers the guest that cannot prove that a process group is gone.
func TestFence(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	running, id := g.reserve(), g.reserve()
	g.shell("mkfifo go")
	other := g.begin(running, "echo started; read line < go; echo still here", nil)
	r := g.execute(object{"executionId": id, "command": "sh", "args": []string{"-c", "sleep 600 >/dev/null 2>&1 & echo started"}})
	if r.stdout != "started\n" || r.result != nil || r.complete {
		t.Errorf("%+v, want output and then the end without a result", r)
	}
	if health := g.call(wire.OpHealth, nil); health["ok"] != false || health["retiring"] != true {
		t.Errorf("healthz: %v", health)
	}
	start := time.Now()
	for range 2 {
		c := g.call(wire.OpCancel, object{"executionId": id})
		if c["error"] != wire.CodeCancelUnconfirmed || c["guestBootId"] == nil || c["message"] == "" {
			t.Errorf("cancel: %v", c)
		}
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the two cancels took %v, want them answered at once", took)
	}
	for op, want := range map[string]string{
		wire.OpReserve: wire.CodeRetiring, wire.OpExecute: wire.CodeRetiring, wire.OpReadFile: wire.CodeRetiring,
		wire.OpReadFileStream: wire.CodeRetiring, wire.OpWriteFile: wire.CodeRetiring, "frobnicate": wire.CodeRetiring,
		wire.OpCancel: wire.CodeInvalidExecutionID,
	} {
		if reply := g.call(op, object{"command": "true", "path": "x", "content": "y"}); reply["ok"] != false || reply["error"] != want {
			t.Errorf("%s: %v, want %s", op, reply, want)
		}
	}
	// What runs goes on, and can be cancelled.
	if c := g.call(wire.OpCancel, object{"executionId": running}); c["state"] != "cancelled" {
		t.Errorf("cancel of what runs: %v", c)
	}
	if r := other.finish(); r.result["signal"] != "SIGTERM" || !r.complete {
		t.Errorf("its stream: %+v", r)
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{QuiesceGrace: 2 * time.Second})
	g.put("f", "content", 0o644)
	used := g.dial() // accepted before
	used.write([]byte("0000"))
	silent := g.dial()
	polite := g.begin(g.reserve(), "echo started; sleep 600", nil)
	stubborn := g.begin(g.reserve(), "trap 'echo term > seen' TERM; echo started; while :; do sleep 0.05; done", nil)
	reader, writer, starter := g.dial(), g.dial(), g.dial()
	for _, l := range []*line{reader, writer, starter} {
		l.write([]byte("0"))
	}
	g.call(wire.OpReserve, nil) // after all of them
	ended := make(chan error, 1)
	go func() { ended <- g.server.Shutdown(context.Background()) }()
	if r := polite.finish(); r.result["signal"] != "SIGTERM" || !r.complete {
		t.Errorf("a program that ends at SIGTERM: %+v", r)
	}
	// The other one has two seconds. Meanwhile open connections are served, but
	// nothing begins.
	rest := func(l *line, b []byte) *line { return l.write(b[1:]) }
	if got := rest(reader, request(wire.OpReadFile, object{"path": "f"})).next(); !strings.Contains(got, `"content":"content"`) {
		t.Errorf("read-file: %s", got)
	}
	if got := rest(writer, request(wire.OpWriteFile, object{"path": "g", "content": "x"})).next(); !strings.Contains(got, `"ok":true`) {
		t.Errorf("write-file: %s", got)
	}
	if got := rest(starter, request(wire.OpExecute, object{"command": "true"})).rest(); len(got) != 2 || got[0] != `{"type":"error","error":"quiesce_in_progress"}` || got[1] != "" {
		t.Errorf("execute: %q", got)
	}
	if got := used.write(request(wire.OpReserve, nil)[4:]).next(); got != `{"ok":false,"error":"quiesce_in_progress"}` {
		t.Errorf("reserve-execution: %s", got)
	}
	if r := stubborn.finish(); r.result["signal"] != "SIGKILL" || !r.complete {
		t.Errorf("a program that ignores SIGTERM: %+v", r)
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	silent.end()
	if g.get("seen") != "term\n" {
		t.Error("no SIGTERM came first")
	}
}

func TestReservations(t *testing.T) {
	g := newGuest(t, guest.Config{MaxExecutions: 3, ReservationTTL: 5 * time.Second})
	const named = "exec_7e4f2b18-6c3d-4a95-b0e7-28d91f5c6a03"
	first := g.call(wire.OpReserve, object{"executionId": named})
	if again := g.call(wire.OpReserve, object{"executionId": named}); again["leaseExpiresAt"] != first["leaseExpiresAt"] || again["state"] != "reserved" {
		t.Errorf("%v, then %v", first, again)
	}
	one, two := g.reserve(), g.reserve()
	if full := g.call(wire.OpReserve, nil); full["error"] != wire.CodeExecutionCapacity {
		t.Errorf("a fourth: %v", full)
	}
	for _, id := range []string{one, two} {
		if r := g.execute(object{"executionId": id, "command": "true"}); r.result["exitCode"] != 0.0 {
			t.Errorf("%+v", r)
		}
	}
	g.reserve() // in place of what ended first
	for id, want := range map[string]any{one: wire.CodeUnknownExecution, two: nil} {
		if c := g.call(wire.OpCancel, object{"executionId": id}); c["error"] != want {
			t.Errorf("%s: %v, want error %v", id, c, want)
		}
	}
}
