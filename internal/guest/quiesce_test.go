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
