//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// open opens a terminal of 80 by 24, which must work.
func (g *testGuest) open(more object) *line {
	g.t.Helper()
	body := object{"cols": 80, "rows": 24}
	for k, v := range more {
		body[k] = v
	}
	l := g.ask(wire.OpTerminal, body)
	if first := parse(g.t, l.next()); first["type"] != wire.TypeReady || first["guestBootId"] == nil {
		g.t.Fatalf("%v, want ready", first)
	}
	return l
}

func onShell(text string) object { return object{"command": "sh", "args": []string{"-c", text}} }

// screen reads a terminal to its end: all that was written, and the exit.
func (l *line) screen() (text string, exit object) {
	l.t.Helper()
	var shown strings.Builder
	for _, payload := range l.rest() {
		if payload == "" {
			continue // of a session
		}
		switch o := parse(l.t, payload); o["type"] {
		case wire.TypeData:
			shown.WriteString(o["data"].(string))
		case wire.TypeHeartbeat, wire.TypeReady:
		default:
			exit = o
		}
	}
	return shown.String(), exit
}

// until reads a terminal until it shows a text.
func (l *line) until(want string) string {
	l.t.Helper()
	seen := ""
	for !strings.Contains(seen, want) {
		o := parse(l.t, l.next())
		if o["type"] == wire.TypeReady || o["type"] == wire.TypeHeartbeat {
			continue
		}
		data, ok := o["data"].(string)
		if !ok {
			l.t.Fatalf("%v after %q, want %q", o, seen, want)
		}
		seen += data
	}
	return seen
}

func typed(text string) []byte { return frame(object{"type": wire.TypeInput, "data": text}) }

func signalFrame(name string) []byte { return frame(object{"type": wire.TypeKill, "signal": name}) }

func TestTerminal(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{Environ: []string{"PATH=/usr/bin:/bin", "PS1=> ", "NAMZU_AGENT_BIND_TOKEN=secret"}})
	for _, test := range []struct {
		name string
		body object
		want string
		code float64
	}{
		{"the size is there before the program", object{"cols": 132, "rows": 50, "command": "stty", "args": []string{"size"}}, "50 132\r\n", 0},
		{"it is the terminal of its session", onShell("tty > /dev/tty; ps -o tpgid= -p $$ | grep -qv -- -1; exit $?"), "/dev/pts/", 0},
		{"the environment", object{"command": "env", "env": object{"EXTRA": "1"}}, "EXTRA=1\r\n", 0},
		{"TERM has a default", onShell("echo $TERM"), "xterm-256color\r\n", 0},
		{"TERM can be set", object{"command": "sh", "args": []string{"-c", "echo $TERM"}, "env": object{"TERM": "dumb"}}, "dumb\r\n", 0},
		{"the directory is made", object{"command": "pwd", "cwd": "a/b"}, "/a/b\r\n", 0},
		{"the exit code", onShell("exit 300"), "", 44},
		{"no descriptors but three", onShell("ls /proc/$$/fd | grep -v '^10$' | tr '\\n' ' '"), "0 1 2 ", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, exit := g.open(test.body).screen()
			if !strings.Contains(text, test.want) || exit["type"] != wire.TypeExit || exit["exitCode"] != test.code || exit["signal"] != nil {
				t.Errorf("%q, %v; want %q and %v", text, exit, test.want, test.code)
			}
			if strings.Contains(text, "NAMZU") {
				t.Errorf("the guest's own variables: %q", text)
			}
		})
	}
	t.Run("a program that cannot be started", func(t *testing.T) {
		l := g.ask(wire.OpTerminal, object{"cols": 80, "rows": 24, "command": "no-such-program"})
		if got := l.rest(); len(got) != 1 || got[0] != `{"type":"error","error":"spawn no-such-program ENOENT"}` {
			t.Errorf("%q", got)
		}
	})
	t.Run("a shell is used", func(t *testing.T) {
		l := g.open(nil)
		l.until("> ")
		l.write(typed("stty size; echo $((6*7))\n"))
		l.until("42\r\n")
		l.write(frame(object{"type": wire.TypeResize, "cols": 100, "rows": 30}))
		l.write(typed("stty size\n"))
		l.until("30 100\r\n")
		l.write(typed("exit 3\n"))
		if _, exit := l.screen(); exit["exitCode"] != 3.0 {
			t.Errorf("%v", exit)
		}
	})
	t.Run("an interrupt is typed", func(t *testing.T) {
		l := g.open(onShell("echo armed; exec sleep 600"))
		l.until("armed")
		l.write(typed("\x03"))
		if _, exit := l.screen(); exit["signal"] != 2.0 {
			t.Errorf("%v", exit)
		}
	})
	t.Run("input comes with the request", func(t *testing.T) {
		l := g.dial().write(append(request(wire.OpTerminal, object{"cols": 80, "rows": 24, "command": "cat"}), typed("early\n\x04")...))
		if text, exit := l.screen(); !strings.Contains(text, "early\r\nearly\r\n") || exit["exitCode"] != 0.0 {
			t.Errorf("%q, %v", text, exit)
		}
	})
	t.Run("many that end at once, all with ready and exit", func(t *testing.T) {
		for range 30 {
			if text, exit := g.open(onShell("printf x")).screen(); text != "x" || exit["exitCode"] != 0.0 {
				t.Errorf("%q %v", text, exit)
			}
		}
	})
}

func TestTerminalKill(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	const immune = "trap '' TERM HUP INT; (trap '' TERM HUP; while :; do sleep 0.05; done) & echo armed; while :; do sleep 0.05; done"
	for _, test := range []struct {
		name, script string
		kills        []string
		signal       float64
	}{
		{"the default", "echo armed; sleep 600", []string{""}, 15},
		{"SIGINT", "trap - INT; echo armed; exec sleep 600", []string{"SIGINT"}, 2},
		{"SIGHUP", "echo armed; exec sleep 600", []string{"SIGHUP"}, 1},
		{"SIGKILL", "echo armed; exec sleep 600", []string{"SIGKILL"}, 9},
		{"another is SIGTERM", "echo armed; exec sleep 600", []string{"SIGSTOP"}, 15},
		{"SIGTERM is ignored and SIGKILL not", immune, []string{"SIGTERM", "SIGKILL"}, 9},
		{"the program itself", "echo armed; kill -KILL $$", nil, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := g.open(onShell(test.script))
			l.until("armed")
			for _, name := range test.kills {
				l.write(signalFrame(name))
			}
			if _, exit := l.screen(); exit["exitCode"] != -1.0 || exit["signal"] != test.signal {
				t.Errorf("%v, want signal %v", exit, test.signal)
			}
		})
	}
	t.Run("input that nobody reads is no obstacle", func(t *testing.T) {
		l := g.open(onShell("stty raw -echo; echo armed; exec sleep 600"))
		l.until("armed")
		l.write(typed(strings.Repeat("y", 900<<10))).write(signalFrame("SIGKILL"))
		if _, exit := l.screen(); exit["signal"] != 9.0 {
			t.Errorf("%v", exit)
		}
	})
	if left := processesIn(g.workspace); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestTerminalOutlivesNothing closes connections at all moments.
func TestTerminalOutlivesNothing(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	lonely := request(wire.OpTerminal, object{"cols": 80, "rows": 24, "command": "sh", "args": []string{"-c", "trap '' HUP TERM; nohup sleep 600 >/dev/null 2>&1 & sleep 600"}})
	for i := range 20 {
		l := g.dial().write(lonely)
		if i%2 == 0 {
			pause(float64(i))
		}
		l.conn.Close()
	}
	l := g.open(onShell("stty raw; echo armed; nohup sleep 600 >/dev/null 2>&1 & sleep 600"))
	l.until("armed")
	l.conn.Close()
	for begin := time.Now(); ; pause(10) {
		left := processesIn(g.workspace)
		if len(left) == 0 {
			break
		}
		if time.Since(begin) > patience {
			t.Fatalf("left: %q", left)
		}
	}
	t.Run("what a program leaves behind ends with it", func(t *testing.T) {
		l := g.open(onShell("nohup sleep 600 & echo out; exit 2"))
		if text, exit := l.screen(); !strings.Contains(text, "out") || exit["exitCode"] != 2.0 {
			t.Errorf("%q %v", text, exit)
		}
		if left := processesIn(g.workspace); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
	t.Run("a process of another session that keeps the terminal does not hold up the end", func(t *testing.T) {
		t.Cleanup(func() { killDaemons(g.workspace) })
		l := g.open(onShell("setsid sleep 600 & sleep 0.1; echo out; exit 2"))
		if text, exit := l.screen(); !strings.Contains(text, "out") || exit["exitCode"] != 2.0 {
			t.Errorf("%q %v", text, exit)
		}
	})
}

// TestTerminalOutput has a peer that reads late: the program waits, and nothing
// is lost.
func TestTerminalOutput(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	const size = 14 << 20
	l := g.open(onShell(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' z; touch done; echo END", size)))
	pause(500)
	if _, err := os.Stat(g.workspace + "/done"); err == nil {
		t.Error("the program has ended before anybody has read")
	}
	text, exit := l.screen()
	if len(text) != size+len("END\r\n") || !strings.HasSuffix(text, "zEND\r\n") || exit["exitCode"] != 0.0 {
		t.Errorf("%d characters, %v", len(text), exit)
	}
}

// TestTerminalsEndWithTheGuest ends guests in both ways.
func TestTerminalsEndWithTheGuest(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{QuiesceGrace: 200 * time.Millisecond})
	polite := g.open(onShell("echo armed; exec sleep 600"))
	stubborn := g.open(onShell("trap '' TERM; echo armed; while :; do sleep 0.05; done"))
	polite.until("armed")
	stubborn.until("armed")
	if err := g.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, exit := polite.screen(); exit["signal"] != 15.0 {
		t.Errorf("%v", exit)
	}
	if _, exit := stubborn.screen(); exit["signal"] != 9.0 {
		t.Errorf("%v", exit)
	}
	g = newGuest(t, guest.Config{})
	l := g.open(onShell("trap '' TERM HUP; echo armed; while :; do sleep 0.05; done"))
	l.until("armed")
	if err := g.stop(); err != nil {
		t.Error(err)
	}
}
