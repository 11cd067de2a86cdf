//go:build linux

package guest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

func TestQuiesceIdle(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	for _, body := range []any{nil, object{}, object{"graceMs": 4999}} {
		o := g.call(wire.OpQuiesce, body)
		if o["ok"] != true || o["scope"] != wire.ScopeOwned || o["rounds"] != 0.0 || len(o["stopped"].([]any)) != 0 {
			t.Errorf("%v: %v", body, o)
		}
	}
}

func TestQuiesceRefusesGraces(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	for text, grace := range map[string]any{"got 0": 0, "got 5000": 5000, "got 1.5": 1.5, "got 1": "1", "got -1": -1, "got null": nil} {
		o := g.call(wire.OpQuiesce, object{"graceMs": grace})
		message, _ := o["message"].(string)
		if o["ok"] != false || o["error"] != wire.CodeQuiesceGrace || !strings.HasSuffix(message, text) || !strings.Contains(message, "4999ms") {
			t.Errorf("%v: %v", grace, o)
		}
	}
	for text, timeout := range map[string]any{"got 0": 0, "got 1.5": 1.5, "got 5": "5", "got null": nil} {
		o := g.call(wire.OpFlush, object{"timeoutMs": timeout})
		message, _ := o["message"].(string)
		if o["ok"] != false || o["error"] != wire.CodeFlushTimeout || !strings.HasSuffix(message, text) {
			t.Errorf("%v: %v", timeout, o)
		}
	}
}

// TestQuiesceEverything ends programs of each kind, one of which ignores
// SIGTERM, and what they have started; the guest goes on.
func TestQuiesceEverything(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	id := g.reserve()
	g.begin(id, "echo started; sleep 901", nil)
	terminal := g.open(object{"command": "sh", "args": []string{"-c", "echo up; sleep 902"}})
	terminal.until("up")
	g.detach("stubborn", "trap '' TERM; sleep 903 & echo up; while :; do sleep 0.05; done")
	stubborn := g.follow("stubborn", nil)
	stubborn.until("up")

	o := g.call(wire.OpQuiesce, object{"graceMs": 200})
	if o["ok"] != true || o["graceMs"] != 200.0 || o["rounds"].(float64) < 1 {
		t.Fatalf("%v", o)
	}
	signals := map[string]int{}
	for _, s := range o["stopped"].([]any) {
		signals[s.(object)["signal"].(string)]++
	}
	if signals["SIGTERM"] < 3 || signals["SIGKILL"] < 1 {
		t.Errorf("stopped: %v", o["stopped"])
	}
	if left := processesIn(g.workspace); len(left) > 0 {
		t.Errorf("confirmed, and still there: %v", left)
	}
	if end := g.call(wire.OpCancel, object{"executionId": id}); end["state"] != wire.StateCancelled || end["result"].(object)["signal"] != "SIGTERM" {
		t.Errorf("the execution ended as %v", end)
	}
	if _, end := terminal.screen(); end["type"] != wire.TypeExit {
		t.Errorf("the terminal ended as %v", end)
	}
	if all := g.sessions(); len(all) != 1 || all[0].(object)["state"] != "exited" || all[0].(object)["signal"] != 9.0 {
		t.Errorf("sessions: %v", all)
	}
	if r := g.shell("echo works"); r.stdout != "works\n" {
		t.Errorf("afterwards: %+v", r)
	}
}

func TestDuringQuiesce(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	g.put("file", "readable", 0o644)
	id := g.reserve()
	g.detach("hold", "trap 'echo told' TERM; echo up; while :; do sleep 0.05; done")
	hold := g.follow("hold", nil)
	hold.until("up")
	quiesce := g.ask(wire.OpQuiesce, object{"graceMs": 2000})
	hold.until("told") // from here on it is under way
	for op, body := range map[string]any{
		wire.OpReserve: nil, wire.OpQuiesce: nil, wire.OpFlush: nil,
		wire.OpStartDetached: object{"sessionId": "n", "command": "true"}, wire.OpKillSession: object{"sessionId": "hold"},
		wire.OpExecute: object{"executionId": id, "command": "true"}, wire.OpAttachExecution: object{"executionId": id},
		wire.OpTerminal: object{"cols": 80, "rows": 24}, wire.OpAttachSession: object{"sessionId": "hold"},
	} {
		if o := parse(t, g.ask(op, body).next()); o["error"] != "quiesce_in_progress" {
			t.Errorf("%s meanwhile: %v", op, o)
		}
	}
	if o := g.call(wire.OpReadFile, object{"path": "file"}); o["content"] != "readable" {
		t.Errorf("a file meanwhile: %v", o)
	}
	if len(g.sessions()) != 1 {
		t.Error("sessions are not listed meanwhile")
	}
	if o := parse(t, quiesce.next()); o["ok"] != true {
		t.Errorf("%v", o)
	}
	if r := g.shell("echo works"); r.stdout != "works\n" {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestQuiesceUnconfirmed has no time for a program that ignores SIGTERM.
func TestQuiesceUnconfirmed(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{QuiesceDeadline: 50 * time.Millisecond})
	g.detach("hold", "trap '' TERM; echo up; while :; do sleep 0.05; done")
	hold := g.follow("hold", nil)
	hold.until("up")
	o := g.call(wire.OpQuiesce, object{"graceMs": 1000})
	if message, _ := o["message"].(string); o["error"] != wire.CodeQuiesceUnconfirmed || !strings.Contains(message, "within 50ms") {
		t.Errorf("%v", o)
	}
	if health := g.call(wire.OpHealth, nil); health["ok"] != true {
		t.Errorf("afterwards: %v", health)
	}
}

// TestQuiesceRounds has a program that is another when it is told to end.
func TestQuiesceRounds(t *testing.T) {
	t.Parallel()
	for rounds, want := range map[int]string{1: "after 1 rounds", 0: ""} {
		g := newGuest(t, guest.Config{QuiesceRounds: rounds})
		g.detach("heir", "trap 'sleep 600 & exit' TERM; echo up; while :; do sleep 0.05; done")
		g.follow("heir", nil).until("up")
		o := g.call(wire.OpQuiesce, nil)
		message, _ := o["message"].(string)
		if (o["ok"] == true) != (want == "") || !strings.Contains(message, want) {
			t.Errorf("%d rounds at most: %v", rounds, o)
		}
		if o["ok"] == true && o["rounds"] != 2.0 {
			t.Errorf("%v, want 2 rounds", o)
		}
		killDaemons(g.workspace)
	}
}

// TestQuiesceFindsWhatIsLeft ends what programs have left in their session: that
// of one that has ended is still the guest's.
func TestQuiesceFindsWhatIsLeft(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	g.detach("left", "sleep 600 >/dev/null 2>&1 &")
	g.follow("left", nil).screen()
	// timeout(1) makes a group of its own, as a shell does with job control.
	g.execute(object{"executionId": g.reserve(), "command": "sh", "args": []string{"-c", "timeout 600 sleep 600 >/dev/null 2>&1 &"}})
	if o := g.call(wire.OpQuiesce, nil); o["ok"] != true || len(o["stopped"].([]any)) < 2 {
		t.Errorf("%v", o)
	}
}

// TestQuiesceLeavesOtherUsers has a session and an execution that have become
// another user: neither is touched, and the guest is not fenced for it.
func TestQuiesceLeavesOtherUsers(t *testing.T) {
	t.Parallel()
	if !canDrop() {
		t.Skip("needs root and setpriv")
	}
	g := newGuest(t, guest.Config{CancelTimeout: 200 * time.Millisecond})
	drop := object{"command": "setpriv", "args": []string{"--reuid=1001", "--clear-groups", "sh", "-c", "echo up; exec sleep 600"}}
	id := g.reserve()
	other := g.ask(wire.OpExecute, object{"executionId": id, "command": drop["command"], "args": drop["args"]})
	other.next()
	g.call(wire.OpStartDetached, object{"sessionId": "other", "command": drop["command"], "args": drop["args"]})
	g.follow("other", nil).until("up")
	g.detach("own", "exec sleep 600")
	o := g.call(wire.OpQuiesce, object{"graceMs": 100})
	if stopped, _ := o["stopped"].([]any); o["ok"] != true || len(stopped) != 1 {
		t.Errorf("%v, want only what is this user's stopped", o)
	}
	if health := g.call(wire.OpHealth, nil); health["ok"] != true {
		t.Errorf("fenced: %v", health)
	}
	if all := g.sessions(); all[0].(object)["state"] != "running" || all[1].(object)["state"] != "exited" {
		t.Errorf("%v", all)
	}
}

func TestRealUser(t *testing.T) {
	for status, want := range map[string]int{
		"Name:\tx\nUid:\t1001\t0\t0\t0\nGid:\t5\t5\t5\t5\n": 1001,
		"Name:\tUid:\nState:\tR\nUid:\t0\t7\t7\t7\n":        0,
		"Uid:\t1\n": -1, "Uid:\tx\t0\t0\t0\n": -1, "": -1,
	} {
		if got := guest.RealUser([]byte(status)); got != want {
			t.Errorf("%q: %d, want %d", status, got, want)
		}
	}
}

func TestFlush(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	g.put("file", "content", 0o644)
	for _, body := range []any{nil, object{}, object{"timeoutMs": 20_000}} {
		if o := g.call(wire.OpFlush, body); o["ok"] != true || o["workspace"] != g.workspace || o["durationMs"].(float64) < 0 {
			t.Errorf("%v: %v", body, o)
		}
	}
}

// TestFlushCommand runs the operator's command in the place of syncfs(2).
func TestFlushCommand(t *testing.T) {
	t.Parallel()
	for command, test := range map[string]struct {
		timeout int
		message string // of flush_unconfirmed; "" for success
	}{
		"true":                                 {5000, ""},
		"pwd > where; test $NAMZU_AGENT_X = y": {5000, ""},
		"sleep 600 & exit 0":                   {60000, ""}, // and somebody still has its outputs
		"echo disk is full >&2; exit 5":        {5000, "flush command '/bin/sh' exited 5: disk is full"},
		"kill -9 $$":                           {5000, "flush command '/bin/sh' was ended by SIGKILL"},
		"head -c 300000 /dev/zero >&2; exit 1": {5000, "flush command '/bin/sh' exited 1: "},
		"trap '' TERM; sleep 600 & sleep 600":  {150, "flush did not finish within 150ms"},
	} {
		g := newGuest(t, guest.Config{FlushCommand: command, Environ: []string{"PATH=/usr/bin:/bin", "NAMZU_AGENT_X=y"}})
		o := g.call(wire.OpFlush, object{"timeoutMs": test.timeout})
		message, _ := o["message"].(string)
		if (o["ok"] == true) != (test.message == "") || !strings.HasPrefix(message, test.message) || len(message) > 4000 {
			t.Errorf("%s: %.300v", command, o)
		}
		if strings.HasPrefix(command, "pwd") && strings.TrimSpace(g.get("where")) != g.workspace {
			t.Errorf("it runs in %q", g.get("where"))
		}
		killDaemons(g.workspace)
	}
}

// TestFlushEndsWithTheGuest closes a guest in the middle of one.
func TestFlushEndsWithTheGuest(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{FlushCommand: "echo > there; exec sleep 600"})
	l := g.ask(wire.OpFlush, object{"timeoutMs": 600_000})
	g.runThrough(onShell("until [ -e there ]; do sleep 0.01; done"))
	if o := g.call(wire.OpQuiesce, nil); o["ok"] != true || len(o["stopped"].([]any)) != 0 {
		t.Errorf("a quiesce meanwhile: %v", o)
	}
	if err := g.server.Close(); err != nil {
		t.Error(err)
	}
	l.conn.Close()
}
