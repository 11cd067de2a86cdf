//go:build linux

package guest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

func TestDaemonRefusesToStart(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	ws := "NAMZU_SANDBOX_WORKSPACE=" + t.TempDir()
	for _, test := range []struct {
		name    string
		environ []string
		want    string
	}{
		{"nothing is said", nil, "NAMZU_AGENT_TCP_PORT"},
		{"no credential", []string{ws, "NAMZU_AGENT_TCP_PORT=0"}, "NAMZU_AGENT_BIND_TOKEN"},
		{"no workspace", []string{"NAMZU_SANDBOX_WORKSPACE=/no/such", "NAMZU_AGENT_TCP_PORT=0", "NAMZU_AGENT_BIND_TOKEN=t"}, "Workspace"},
		{"the port is taken", []string{ws, "NAMZU_AGENT_ADDR=127.0.0.1", "NAMZU_AGENT_TCP_PORT=" + port, "NAMZU_AGENT_BIND_TOKEN=t"}, "address already in use"},
		{"a number that is none", []string{ws, "NAMZU_AGENT_TCP_PORT=0", "NAMZU_AGENT_BIND_TOKEN=t", "NAMZU_AGENT_MAX_SESSIONS=many"}, "NAMZU_AGENT_MAX_SESSIONS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := exec.Command(self)
			c.Env = append(test.environ, daemonVariable+"=1")
			out, err := c.CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
				t.Errorf("%v, want exit 1", err)
			}
			if text := string(out); strings.Count(text, "\n") != 1 || !strings.Contains(text, test.want) || !strings.HasPrefix(text, "guestd: not started: ") {
				t.Errorf("said %q, want one line about %s", text, test.want)
			}
		})
	}
}

func TestDaemonTermination(t *testing.T) {
	t.Parallel()
	g := newDaemon(t, daemonSpec{})
	program := g.ask(wire.OpExecute, onShell("trap 'echo saw it' TERM; echo started; while :; do sleep 0.05; done"))
	program.next()
	silent := g.dial()
	g.call(wire.OpHealth, nil) // accepted after it
	g.daemon.signal(syscall.SIGTERM)
	if o := parse(t, program.next()); o["data"] != "saw it\n" && o["type"] != wire.TypeStderr {
		t.Errorf("%v", o)
	}
	if conn, _, err := g.connect(); err == nil {
		conn.Close()
		t.Error("a connection is accepted after SIGTERM")
	}
	g.daemon.signal(syscall.SIGTERM) // the second changes nothing
	if r := program.finish(); r.result["signal"] != "SIGKILL" {
		t.Errorf("%v, want the program killed after its second", r.result)
	}
	silent.end()
	if code := g.daemon.end(); code != 0 || !strings.Contains(g.daemon.log.String(), "already stopping") {
		t.Errorf("exit %d", code)
	}
}

func TestDaemonTerminationDeadline(t *testing.T) {
	t.Parallel()
	g := newDaemon(t, daemonSpec{environ: []string{"NAMZU_AGENT_SHUTDOWN_DEADLINE_MS=400", "NAMZU_AGENT_QUIESCE_GRACE_MS=4000"}})
	program := g.ask(wire.OpExecute, onShell("trap '' TERM; echo $$; while :; do sleep 0.05; done"))
	pid := strings.TrimSpace(parse(t, program.next())["data"].(string))
	begin := time.Now()
	g.daemon.signal(syscall.SIGTERM)
	if code := g.daemon.end(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v, want 0.4 s", took)
	}
	if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("the program is left: %s", stat)
	}
}

// TestDaemonOrphans leaves processes behind in all ways.
func TestDaemonOrphans(t *testing.T) {
	t.Parallel()
	scripts := []string{
		"(sleep 0.05; exit 0) >/dev/null 2>&1 & echo started; sleep 0.01",
		"(exit 0) >/dev/null 2>&1 & sleep 0.1; echo started",
		"sh -c 'sleep 0.05 >/dev/null 2>&1 & exit 0'; sleep 0.2; echo started",
		"i=0; while [ $i -lt 50 ]; do (sleep 0.05 &); i=$((i+1)); done; sleep 0.2; echo started",
	}
	check := func(t *testing.T, g *testGuest) {
		for _, script := range scripts {
			if r := g.shell(script); r.stdout != "started\n" || r.result["exitCode"] != 0.0 {
				t.Errorf("%s: %+v", script, r)
			}
		}
		if health := g.call(wire.OpHealth, nil); health["ok"] != true {
			t.Errorf("%v", health)
		}
		// The guest itself is the only process that is not of this script.
		r := g.shell(fmt.Sprintf("setsid sh -c 'sleep 0.01' & sleep 0.1; grep -l '^PPid:[[:space:]]%d$' /proc/[0-9]*/status |"+
			" xargs grep -l '^State:[[:space:]]Z' | wc -l", g.daemon.command.Process.Pid))
		if strings.TrimSpace(r.stdout) != "0" {
			t.Errorf("%s ended processes are not reaped", strings.TrimSpace(r.stdout))
		}
	}
	t.Run("the guest is an ordinary process", func(t *testing.T) { check(t, newDaemon(t, daemonSpec{})) })
	t.Run("the guest is process 1", func(t *testing.T) {
		g := newDaemon(t, daemonSpec{attr: namespaced(0)})
		if r := g.shell("echo $PPID"); r.stdout != "1\n" {
			t.Fatalf("the guest is process %s", r.stdout)
		}
		check(t, g) // /proc is that of this test
		if o := g.call(wire.OpQuiesce, nil); o["error"] != wire.CodeQuiesceUnsupported {
			t.Errorf("a quiesce by the numbers of another PID namespace: %v", o)
		}
		g.daemon.signal(syscall.SIGTERM)
		if code := g.daemon.end(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
}

// TestDaemonFileSizeLimit has the guest write beyond RLIMIT_FSIZE, which is a
// signal as well as an error.
func TestDaemonFileSizeLimit(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, daemonSpec{prepare: "ulimit -f 128;"}) // of 512 bytes
	old := filepath.Join(d.workspace, "t.bin")
	if err := os.WriteFile(old, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := func(n int) string { return strings.Repeat("w", n) }
	part := func(n, offset int) object {
		return object{"path": ".namzu-write-lim.part", "content": text(n), "part": object{"offset": offset, "final": offset > 0, "renameTo": "t.bin"}}
	}
	for _, step := range []struct {
		name string
		body object
		want string
	}{
		{"a whole file", object{"path": "t.bin", "content": text(100000)}, "write_short_write: wrote 65536 of 100000 bytes, temp file is 65536 bytes"},
		{"a first part", part(60000, 0), ""},
		{"a part beyond the limit", part(40000, 60000), "write_part_short_write: wrote 5536 of 40000 bytes at offset 60000, temp file is 65536 bytes"},
		{"the same again", part(40000, 60000), "write_part_offset_mismatch: temp file is 65536 bytes, part starts at offset 60000"},
		{"not a byte fits", part(10, 65536), "EFBIG: file too large, write"},
	} {
		reply := d.call(wire.OpWriteFile, step.body)
		if got, _ := reply["error"].(string); got != step.want {
			t.Errorf("%s: %v, want %q", step.name, reply, step.want)
		}
	}
	if got, _ := os.ReadFile(old); string(got) != "old" {
		t.Errorf("the target is now %d bytes", len(got))
	}
	if health := d.call(wire.OpHealth, nil); health["ok"] != true {
		t.Errorf("%v", health)
	}
	left, _ := filepath.Glob(filepath.Join(d.workspace, ".namzu-write-*"))
	if len(left) != 1 { // that of the parts, to be discarded
		t.Errorf("left: %q", left)
	}
	if r := d.shell("grep SigIgn /proc/self/status"); !strings.Contains(r.stdout, "SigIgn:\t0000000000000000") {
		t.Errorf("programs ignore signals: %q", r.stdout)
	}
}

// TestDaemonIgnoresSignals starts a guest that is to ignore some, as nohup(1)
// does: it does, and its programs do not.
func TestDaemonIgnoresSignals(t *testing.T) {
	t.Parallel()
	g := newDaemon(t, daemonSpec{prepare: "trap '' HUP INT QUIT TSTP TTIN TTOU CONT USR2 PIPE CHLD WINCH;"})
	g.daemon.signal(syscall.SIGHUP)
	if r := g.shell("grep SigIgn /proc/self/status"); r.stdout != "SigIgn:\t0000000000000000\n" {
		t.Errorf("programs ignore signals: %q", r.stdout)
	}
	g.detach("d", "exec sleep 600")
	terminal := g.open(object{"command": "sleep", "args": []string{"600"}})
	terminal.write(signalFrame("SIGHUP"))
	if _, end := terminal.screen(); end["signal"] != 1.0 {
		t.Errorf("a terminal's program after SIGHUP: %v", end)
	}
	if o := g.call(wire.OpKillSession, object{"sessionId": "d", "signal": "SIGINT"}); o["signal"] != 2.0 {
		t.Errorf("a session after SIGINT: %v", o)
	}
}

// TestDaemonInherits starts a guest with a file that is not its programs'.
func TestDaemonInherits(t *testing.T) {
	t.Parallel()
	g := newDaemon(t, daemonSpec{prepare: "exec 9</etc/passwd;"})
	if r := g.shell("ls /proc/$$/fd"); r.stdout != "0\n1\n2\n" {
		t.Errorf("a program has the descriptors %q", r.stdout)
	}
}

// TestDaemonHook has a hook that fails: the guest serves all the same.
func TestDaemonHook(t *testing.T) {
	t.Parallel()
	g := newDaemon(t, daemonSpec{environ: []string{"NAMZU_AGENT_RESEED_HOOK=echo $NAMZU_AGENT_BIND_TOKEN >> seen; echo no luck >&2; exit 3"}})
	before := g.address.String()
	open := g.open(object{"command": "cat"})
	if err := g.tell(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := g.get("seen"); got != testToken+"\n"+testToken+"\n" || g.address.String() != before {
		t.Errorf("the hook saw %q, and the guest listens at %v, not %s", got, g.address, before)
	}
	if r := g.shell("echo works"); r.stdout != "works\n" {
		t.Errorf("%+v", r)
	}
	open.write(typed("served\n")).until("served")
	open.conn.Close()
	g.stop()
	if all := g.daemon.complaints(); len(all) != 2 || !strings.Contains(all[1], "no luck") {
		t.Errorf("%q", all)
	}
}

// procScript gives a PID namespace a /proc of its own.
const procScript = "mount --make-rprivate / && mount -t proc proc /proc || exit 1; "

// TestDaemonInCharge has a guest that is in charge of its PID namespace end what
// has left it as well.
func TestDaemonInCharge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare, environ string
		everything       bool
	}{
		"it is process 1":            {procScript, "", true},
		"it is the child of an init": {procScript + `"$0" & trap "kill -TERM $!" TERM; wait $!; wait $!; exit;`, "", true},
		"it is not to be":            {procScript, "NAMZU_AGENT_QUIESCE_SCOPE=owned-sessions", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newDaemon(t, daemonSpec{
				prepare: test.prepare, attr: namespaced(syscall.CLONE_NEWNS), environ: []string{test.environ},
			})
			leave := "setsid sh -c 'trap \"touch told; exit\" TERM; touch there; while :; do sleep 0.05; done' >/dev/null 2>&1 & until [ -e there ]; do sleep 0.01; done"
			g.shell(leave)
			o := g.call(wire.OpQuiesce, nil)
			scope := map[bool]string{true: wire.ScopeNamespace, false: wire.ScopeOwned}[test.everything]
			if o["ok"] != true || o["scope"] != scope || (len(o["stopped"].([]any)) > 0) != test.everything {
				t.Errorf("%v", o)
			}
			os.Remove(g.workspace + "/there")
			os.Remove(g.workspace + "/told")
			g.shell(leave)
			g.daemon.signal(syscall.SIGTERM)
			if code := g.daemon.end(); code != 0 {
				t.Errorf("exit %d", code)
			}
			if _, err := os.Stat(g.workspace + "/told"); (err == nil) != test.everything {
				t.Errorf("told by SIGTERM: %v, want %v", err, test.everything)
			}
		})
	}
}

func TestInCharge(t *testing.T) {
	for _, test := range []struct {
		name        string
		namespace   string
		pid, parent int
		want        bool
	}{
		{"the first process of a container", "pid:[4026532201]", 1, 0, true},
		{"the child of a container's init", "pid:[4026532201]", 7, 1, true},
		{"another process of a container", "pid:[4026532201]", 9, 7, false},
		{"a process that a container's runtime has put there", "pid:[4026532201]", 9, 0, false},
		{"a service of the machine", "pid:[4026531836]", 700, 1, false},
	} {
		if got := guest.InChargeOf(test.namespace, test.pid, test.parent); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
