package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandlot-go/sandlot/transport"
)

// onTerminal runs a program on a terminal and shows which one, which process it
// is, how it ended, and whether the terminal then is what it was before.
const onTerminal = `echo "tty:$(tty):"
before=$(stty -g)
sh -c 'echo "pid:$$:"; exec "$@"' sh "$@"
echo "code:$?:"
after=$(stty -g)
[ "$after" = "$before" ] && echo terminal:restored: || echo "terminal:$before became $after:"`

// shellProgram shows the size of its terminal whenever that has changed, until
// it is interrupted by a key.
const shellProgram = `trap 'echo caught:; exit 5' INT
while :; do
	size=$(stty size); [ "$size" = "$old" ] || echo "size:$size:"; old=$size
	sleep 0.02
done`

// A personAt sits at a terminal, which is one of a guest, at which smoke runs.
type personAt struct {
	t        *testing.T
	terminal *transport.Terminal
	*screen
}

func sitDown(t *testing.T, command []string) personAt {
	t.Helper()
	at, _ := startGuest(t)
	host, port, _ := net.SplitHostPort(at.address)
	number, _ := strconv.Atoi(port)
	agent, err := transport.New(transport.Config{Host: host, Port: number, Token: transport.Secret(at.token)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := agent.OpenTerminal(t.Context(), transport.TerminalConfig{
		Cols: 100, Rows: 30, Path: "sh", Args: append([]string{"-c", onTerminal, "sh", self}, command...), Env: []string{asProgram + "=1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return personAt{t, terminal, watch(t.Context(), terminal)}
}

// sees waits for "name:value:" and returns the value.
func (p personAt) sees(name string) string {
	p.t.Helper()
	if _, err := p.await(name + ":"); err != nil {
		p.t.Fatal(err)
	}
	value, err := p.await(":")
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSuffix(value, ":")
}

// At a real terminal every key is passed on as it is, the guest's terminal has
// the size of ours, and ours is as before when smoke ends, however that comes.
func TestGuestShellAtATerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("stty"); err != nil {
		t.Skip("needs stty: ", err)
	}
	for _, c := range []struct {
		sentence string
		end      func(p personAt, pid int, stopGuest func())
		codes    string
	}{
		{"a key interrupts the program, not smoke", func(p personAt, _ int, _ func()) {
			if err := p.enter(interruptKey, "caught:"); err != nil {
				p.t.Error(err)
			}
		}, "5"},
		{"smoke is asked to end", func(p personAt, pid int, _ func()) {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				p.t.Error(err)
			}
		}, strconv.Itoa(exitNoResult)},
		{"the guest is gone, which may or may not have said that it has killed the program", func(_ personAt, _ int, stopGuest func()) { stopGuest() },
			fmt.Sprint(exitNoResult, " ", exitSignal+int(syscall.SIGKILL))},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			at, _, stopGuest := startMortalGuest(t)
			p := sitDown(t, at.command("shell", "--", "sh", "-c", shellProgram))
			tty := p.sees("tty")
			pid, err := strconv.Atoi(p.sees("pid"))
			if err != nil {
				t.Fatal(err)
			}
			if size := p.sees("size"); size != "30 100" {
				t.Errorf("the guest's terminal is %s, want 30 100", size)
			}
			if err := p.terminal.Resize(120, 40); err != nil {
				t.Fatal(err)
			}
			if size := p.sees("size"); size != "40 120" {
				t.Errorf("the guest's terminal has become %s, want 40 120", size)
			}
			settings, err := exec.Command("stty", "-a", "-F", tty).Output()
			for _, want := range []string{" -echo ", "-icanon", "-isig", "-opost", "-icrnl"} {
				if err != nil || !strings.Contains(string(settings), want) {
					t.Errorf("%v; the terminal is not raw, %s is not in\n%s", err, want, settings)
				}
			}
			c.end(p, pid, stopGuest)
			if code := p.sees("code"); !slices.Contains(strings.Fields(c.codes), code) {
				t.Errorf("exit code %s, want %s", code, c.codes)
			}
			if after := p.sees("terminal"); after != "restored" {
				t.Errorf("the terminal is not what it was: %s", after)
			}
		})
	}
}

// A session is left by the escape, runs on, and is there to come back to.
func TestGuestShellIsLeftAtATerminal(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	for sentence, c := range map[string]struct {
		args []string
		code string
	}{
		"a session": {[]string{"shell", "-session", "work", "--", "sh", "-c", shellProgram}, "0"},
		"a program": {[]string{"shell", "--", "sh", "-c", shellProgram}, strconv.Itoa(exitNoResult)},
	} {
		p := sitDown(t, at.command(c.args...))
		p.sees("size")
		if _, err := io.WriteString(p.terminal, "\r~."); err != nil {
			t.Fatal(err)
		}
		if code := p.sees("code"); code != c.code {
			t.Errorf("%s: exit code %s, want %s", sentence, code, c.code)
		}
		if after := p.sees("terminal"); after != "restored" {
			t.Errorf("%s: the terminal is not what it was: %s", sentence, after)
		}
	}
	awaitDetached(t, at).expect(t, 0, "work", "running")
	onGuest(t, nil, at, "sessions", "kill", "work").expect(t, 0, "has ended")
}

// A shell that never came about leaves the terminal alone.
func TestGuestShellThatFailsAtATerminal(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	p := sitDown(t, at.command("shell", "--", "no-such-program"))
	if code := p.sees("code"); code != strconv.Itoa(exitNoResult) {
		t.Errorf("exit code %s", code)
	}
	if after := p.sees("terminal"); after != "restored" {
		t.Errorf("the terminal is not what it was: %s", after)
	}
}
