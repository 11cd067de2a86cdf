//go:build linux

package guest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// detach starts a session that runs a shell script.
func (g *testGuest) detach(id, script string) object {
	g.t.Helper()
	return g.call(wire.OpStartDetached, object{"sessionId": id, "command": "sh", "args": []string{"-c", script}})
}

// follow attaches to a session.
func (g *testGuest) follow(id string, more object) *line {
	g.t.Helper()
	body := object{"sessionId": id}
	for k, v := range more {
		body[k] = v
	}
	return g.ask(wire.OpAttachSession, body)
}

func (g *testGuest) sessions() []any {
	g.t.Helper()
	return g.call(wire.OpListSessions, nil)["sessions"].([]any)
}

func TestPersistentTerminal(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{Environ: []string{"PATH=/usr/bin:/bin", "PS1=> "}})
	first := g.open(object{"sessionId": "shell", "persistent": true})
	first.until("> ")
	first.write(typed("sleep 0.1; echo a$((1+1))b\n"))
	first.until("\n")
	first.conn.Close()
	second := g.follow("shell", object{"cols": 100, "rows": 30})
	second.next()
	second.until("a2b")
	second.write(typed("stty size\n"))
	second.until("30 100")
	third := g.follow("shell", object{"fromOffset": 2})
	third.next()
	if _, end := second.screen(); end["type"] != wire.TypeDetached || end["reason"] != wire.DetachedSuperseded {
		t.Errorf("%v, want superseded", end)
	}
	second.write(typed("echo intruder\n")).write(signalFrame("SIGKILL")) // it has no say any more
	third.write(typed("exit 4\n"))
	text, end := third.screen()
	if strings.Contains(text, "intruder") || !strings.Contains(text, "30 100") || end["exitCode"] != 4.0 || end["nextOffset"].(float64) < 20 {
		t.Errorf("%q %v", text, end)
	}
	if list := g.sessions(); len(list) != 1 || list[0].(object)["state"] != "exited" || list[0].(object)["lastInputAt"] == nil {
		t.Errorf("%v", list)
	}
	l := g.follow("shell", nil)
	if ready := parse(t, l.next()); ready["state"] != "exited" || ready["exitCode"] != 4.0 {
		t.Errorf("%v", ready)
	}
	if again, end := l.screen(); !strings.HasSuffix(again, text) || end["exitCode"] != 4.0 {
		t.Errorf("%q %v", again, end)
	}
	t.Run("programs that end at once", func(t *testing.T) {
		for i := range 10 {
			l := g.open(object{"command": "true", "sessionId": fmt.Sprint("short-", i), "persistent": true})
			if _, end := l.screen(); end["type"] != wire.TypeExit || end["exitCode"] != 0.0 {
				t.Errorf("%v", end)
			}
		}
	})
	t.Run("a program that cannot be started leaves the id free", func(t *testing.T) {
		for range 2 {
			l := g.ask(wire.OpTerminal, object{"cols": 1, "rows": 1, "command": "no-such-program", "sessionId": "none", "persistent": true})
			if got := l.rest(); len(got) != 1 || got[0] != `{"type":"error","error":"spawn no-such-program ENOENT"}` {
				t.Errorf("%q", got)
			}
		}
	})
}

func TestDetachedSession(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{SessionBytes: 1000})
	t.Cleanup(func() { killDaemons(g.workspace) })
	started := g.detach("job", "i=0; while [ $i -lt 2000 ]; do printf x; i=$((i+1)); done; sleep 0.2; echo err >&2; sleep 600")
	if started["ok"] != true || started["state"] != "running" || started["nextOffset"] != 0.0 || started["pid"].(float64) < 2 {
		t.Fatalf("%v", started)
	}
	l := g.follow("job", object{"fromOffset": 0})
	ready := parse(t, l.next())
	if ready["kind"] != wire.KindDetached || ready["state"] != "running" {
		t.Errorf("%v", ready)
	}
	l.until("err\n")
	once := g.follow("job", object{"follow": false, "fromOffset": 1500}).rest()
	if len(once) < 3 || once[len(once)-1] != "" || !strings.Contains(once[len(once)-2], `"stream":"stderr","data":"err\n","offset":2000,"nextOffset":2004`) {
		t.Errorf("%q", once)
	}
	if o := parse(t, once[0]); o["fromOffset"] != 1500.0 || o["droppedBytes"] != 0.0 || o["nextOffset"] != 2004.0 {
		t.Errorf("%v", o)
	}
	all := g.follow("job", object{"follow": false}).rest()
	if o := parse(t, all[0]); o["fromOffset"] != 1004.0 || o["droppedBytes"] != 1004.0 {
		t.Errorf("%v", o)
	}
	killed := g.call(wire.OpKillSession, object{"sessionId": "job", "signal": "SIGTERM"})
	if killed["state"] != "exited" || killed["signal"] != 15.0 || killed["signalled"].(float64) < 1 || killed["droppedBytes"] != 1004.0 {
		t.Errorf("%v", killed)
	}
	if _, end := l.screen(); end["exitCode"] != -1.0 || end["signal"] != 15.0 || end["nextOffset"] != 2004.0 {
		t.Errorf("%v", end)
	}
	if again := g.call(wire.OpKillSession, object{"sessionId": "job"}); again["signalled"] != nil || again["state"] != "exited" {
		t.Errorf("%v", again)
	}
	t.Run("a process outside that holds the output does not hold up the end", func(t *testing.T) {
		g.detach("tree", "sleep 600 & setsid sh -c 'echo armed; exec sleep 600' & wait")
		l := g.follow("tree", nil)
		l.until("armed")
		begin := time.Now()
		killed := g.call(wire.OpKillSession, object{"sessionId": "tree"})
		if took := time.Since(begin); killed["state"] != "exited" || killed["signalled"] != 2.0 || took > 4*time.Second {
			t.Errorf("%v after %v", killed, took)
		}
	})
	t.Run("one that ignores the signal goes on", func(t *testing.T) {
		g := newGuest(t, guest.Config{SessionKillTimeout: 100 * time.Millisecond})
		g.detach("immune", "trap '' TERM; echo armed; while :; do sleep 0.05; done")
		l := g.follow("immune", nil)
		l.until("armed")
		if o := g.call(wire.OpKillSession, object{"sessionId": "immune", "signal": "SIGTERM"}); o["state"] != "running" {
			t.Errorf("%v", o)
		}
	})
}

// TestSlowAttachment has an attachment that reads nothing: the program goes on,
// and the attachment is told why it was ended when it reads at last.
func TestSlowAttachment(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{SessionBytes: 64 << 10})
	g.detach("flood", "sleep 0.2; head -c 24000000 /dev/zero | tr '\\0' x; touch done")
	l := g.follow("flood", nil)
	g.runThrough(onShell("until [ -e done ]; do sleep 0.01; done"))
	text, end := l.screen()
	if end["type"] != wire.TypeDetached || end["reason"] != wire.DetachedSlowReader {
		t.Errorf("%d characters, %v", len(text), end)
	}
}

func TestSessionCapacity(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{MaxSessions: 2, SessionTTL: time.Hour})
	g.detach("a", "sleep 600")
	g.detach("b", "exit 1")
	l := g.follow("b", nil)
	l.screen()
	if o := g.detach("b", "true"); o["error"] != wire.CodeSessionExists {
		t.Errorf("%v", o)
	}
	if o := g.detach("c", "sleep 600"); o["ok"] != true {
		t.Errorf("the room of one that has exited: %v", o)
	}
	if o := g.detach("d", "true"); o["error"] != wire.CodeSessionCapacity {
		t.Errorf("%v", o)
	}
	var names []any
	for _, s := range g.sessions() {
		names = append(names, s.(object)["sessionId"])
	}
	if fmt.Sprint(names) != "[a c]" {
		t.Errorf("%v", names)
	}
}

// TestDefaultSessionCapacity has as many sessions as there can be by default.
func TestDefaultSessionCapacity(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	for i := range 16 {
		if o := g.detach(fmt.Sprint("s", i), "exec sleep 600"); o["ok"] != true {
			t.Fatalf("session %d: %v", i, o)
		}
	}
	if o := g.detach("one-more", "true"); o["error"] != wire.CodeSessionCapacity {
		t.Errorf("%v", o)
	}
	g.call(wire.OpKillSession, object{"sessionId": "s7"})
	if o := g.detach("one-more", "true"); o["ok"] != true {
		t.Errorf("in the place of one that has exited: %v", o)
	}
}

// TestSessionsEndWithTheGuest ends a guest in order: attachments hear it.
func TestSessionsEndWithTheGuest(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	g.detach("svc", "echo armed; exec sleep 600")
	l := g.follow("svc", nil)
	l.until("armed")
	if err := g.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, end := l.screen(); end["signal"] != 15.0 {
		t.Errorf("%v", end)
	}
}

// TestSessionRetention forgets a session that has exited, and no other.
func TestSessionRetention(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{SessionTTL: time.Millisecond})
	g.detach("runs", "sleep 600")
	g.detach("ends", "exit 5")
	for len(g.sessions()) > 1 {
		pause(5)
	}
	if o := parse(t, g.follow("ends", nil).next()); o["error"] != wire.CodeUnknownSession {
		t.Errorf("%v", o)
	}
	if o := g.detach("ends", "sleep 600"); o["ok"] != true {
		t.Errorf("its id is not free: %v", o)
	}
	if o := g.call(wire.OpKillSession, object{"sessionId": "runs"}); o["state"] != "exited" {
		t.Errorf("%v", o)
	}
}
