//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// runVariable makes this test binary the command itself.
const runVariable = "TEST_RUN_GUESTD"

func TestMain(m *testing.M) {
	if os.Getenv(runVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

const (
	token    = "5b0c7f1e-93d4-4e0a-8c55-1f2a6d9e7b31"
	patience = 30 * time.Second
)

// A daemon is a guestd that runs.
type daemon struct {
	t         *testing.T
	command   *exec.Cmd
	address   string
	workspace string
	log       *strings.Builder // valid when logged is closed
	logged    chan struct{}
}

// start starts a guestd with more variables, as the child of a shell that runs
// prepare first, and waits until it listens.
func start(t *testing.T, workspace, prepare string, attr *syscall.SysProcAttr, environ ...string) *daemon {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/sh", "-c", prepare+` exec "$0"`, self)
	c.Env = append([]string{
		runVariable + "=1", "PATH=/usr/bin:/bin", "NAMZU_SANDBOX_WORKSPACE=" + workspace,
		"NAMZU_AGENT_ADDR=127.0.0.1", "NAMZU_AGENT_TCP_PORT=0", "NAMZU_AGENT_BIND_TOKEN=" + token,
	}, environ...)
	c.SysProcAttr = attr
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		if attr != nil && errors.Is(err, syscall.EPERM) {
			t.Skip("not allowed here: ", err)
		}
		t.Fatal(err)
	}
	d := &daemon{t: t, command: c, workspace: workspace, log: &strings.Builder{}, logged: make(chan struct{})}
	t.Cleanup(func() {
		c.Process.Kill()
		<-d.logged
		c.Wait()
		if t.Failed() {
			t.Logf("guestd said:\n%s", d.log)
		}
	})
	address := make(chan string, 1)
	go func() {
		defer close(d.logged)
		defer close(address)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			d.log.WriteString(lines.Text() + "\n")
			if found := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(lines.Text()); found != nil {
				address <- found[1]
			}
		}
	}()
	d.address = <-address
	return d
}

// end waits for the end and returns the exit code.
func (d *daemon) end() int {
	d.t.Helper()
	select {
	case <-d.logged:
	case <-time.After(patience):
		d.t.Fatal("guestd does not end")
	}
	d.command.Wait()
	return d.command.ProcessState.ExitCode()
}

// ask sends a request on a connection of its own.
func (d *daemon) ask(op string, body any) *wire.FrameReader {
	d.t.Helper()
	conn, err := net.Dial("tcp", d.address)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	b, err := json.Marshal(map[string]any{"op": op, "body": body, "token": token})
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := conn.Write(wire.AppendFrame(nil, b)); err != nil {
		d.t.Fatal(err)
	}
	return wire.NewFrameReader(conn, 64<<20)
}

type object = map[string]any

func (d *daemon) next(r *wire.FrameReader) object {
	d.t.Helper()
	payload, err := r.Next()
	if err != nil {
		d.t.Fatal(err)
	}
	var o object
	if len(payload) > 0 {
		if err := json.Unmarshal(payload, &o); err != nil {
			d.t.Fatal(err)
		}
	}
	return o
}

func (d *daemon) call(op string, body any) object {
	d.t.Helper()
	return d.next(d.ask(op, body))
}

// shell runs a script and returns its stdout and its result, which is nil if
// none came.
func (d *daemon) shell(script string) (stdout string, result object) {
	d.t.Helper()
	r := d.ask(wire.OpExecute, object{"command": "sh", "args": []string{"-c", script}})
	for {
		payload, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				d.t.Fatal(err)
			}
			return stdout, result
		}
		var o object
		json.Unmarshal(payload, &o)
		switch o["type"] {
		case wire.TypeStdout:
			stdout += o["data"].(string)
		case wire.TypeResult, wire.TypeError:
			result = o
		}
	}
}

func TestRefusesToStart(t *testing.T) {
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
			c.Env = append(test.environ, runVariable+"=1")
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

func TestTermination(t *testing.T) {
	d := start(t, t.TempDir(), "", nil)
	program := d.ask(wire.OpExecute, object{"command": "sh", "args": []string{"-c", "trap 'echo saw it' TERM; echo started; while :; do sleep 0.05; done"}})
	d.next(program)
	silent, err := net.Dial("tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	d.call(wire.OpHealth, nil) // accepted after it
	d.command.Process.Signal(syscall.SIGTERM)
	if o := d.next(program); o["data"] != "saw it\n" && o["type"] != wire.TypeStderr {
		t.Errorf("%v", o)
	}
	if conn, err := net.Dial("tcp", d.address); err == nil {
		conn.Close()
		t.Error("a connection is accepted after SIGTERM")
	}
	d.command.Process.Signal(syscall.SIGTERM) // the second changes nothing
	for {
		o := d.next(program)
		if o["type"] == wire.TypeResult {
			if o["signal"] != "SIGKILL" {
				t.Errorf("%v, want the program killed after its second", o)
			}
			break
		}
	}
	if _, err := io.Copy(io.Discard, silent); err != nil {
		t.Errorf("a silent connection: %v", err)
	}
	if code := d.end(); code != 0 || !strings.Contains(d.log.String(), "already stopping") {
		t.Errorf("exit %d", code)
	}
}

func TestTerminationDeadline(t *testing.T) {
	d := start(t, t.TempDir(), "", nil, "NAMZU_AGENT_SHUTDOWN_DEADLINE_MS=400", "NAMZU_AGENT_QUIESCE_GRACE_MS=4000")
	program := d.ask(wire.OpExecute, object{"command": "sh", "args": []string{"-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done"}})
	pid := strings.TrimSpace(d.next(program)["data"].(string))
	begin := time.Now()
	d.command.Process.Signal(syscall.SIGTERM)
	if code := d.end(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v, want 0.4 s", took)
	}
	if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("the program is left: %s", stat)
	}
}

func TestKilledAndStartedAgain(t *testing.T) {
	workspace := t.TempDir()
	first := start(t, workspace, "", nil)
	reservation := first.call(wire.OpReserve, nil)
	id := reservation["executionId"]
	program := first.ask(wire.OpExecute, object{"executionId": id, "command": "sh", "args": []string{"-c", "echo $$; sleep 600"}})
	var pid int
	fmt.Sscan(first.next(program)["data"].(string), &pid)
	defer syscall.Kill(-pid, syscall.SIGKILL) // in a pod it would be gone
	first.command.Process.Kill()
	first.end()
	if payload, err := program.Next(); err == nil {
		t.Errorf("the stream goes on with %q", payload)
	}
	second := start(t, workspace, "", nil)
	c := second.call(wire.OpCancel, object{"executionId": id})
	if c["error"] != wire.CodeUnknownExecution || c["guestBootId"] == reservation["guestBootId"] || c["guestBootId"] == nil {
		t.Errorf("%v, want unknown_execution of another boot id than %v", c, reservation["guestBootId"])
	}
}

// TestOrphans leaves processes behind in all ways.
func TestOrphans(t *testing.T) {
	scripts := []string{
		"(sleep 0.05; exit 0) >/dev/null 2>&1 & echo started; sleep 0.01",
		"(exit 0) >/dev/null 2>&1 & sleep 0.1; echo started",
		"sh -c 'sleep 0.05 >/dev/null 2>&1 & exit 0'; sleep 0.2; echo started",
		"i=0; while [ $i -lt 50 ]; do (sleep 0.05 &); i=$((i+1)); done; sleep 0.2; echo started",
	}
	check := func(t *testing.T, d *daemon, self string) {
		for _, script := range scripts {
			stdout, result := d.shell(script)
			if stdout != "started\n" || result["exitCode"] != 0.0 {
				t.Errorf("%s: %q, %v", script, stdout, result)
			}
		}
		if health := d.call(wire.OpHealth, nil); health["ok"] != true {
			t.Errorf("%v", health)
		}
		// The guest itself is the only process that is not of this script.
		stdout, _ := d.shell("setsid sh -c 'sleep 0.01' & sleep 0.1; grep -l '^PPid:[[:space:]]" + self + "$' /proc/[0-9]*/status | xargs grep -l '^State:[[:space:]]Z' | wc -l")
		if strings.TrimSpace(stdout) != "0" {
			t.Errorf("%s ended processes are not reaped", strings.TrimSpace(stdout))
		}
	}
	t.Run("the guest is an ordinary process", func(t *testing.T) {
		d := start(t, t.TempDir(), "", nil)
		check(t, d, fmt.Sprint(d.command.Process.Pid))
	})
	t.Run("the guest is process 1", func(t *testing.T) {
		attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		if os.Geteuid() != 0 {
			attr.Cloneflags |= syscall.CLONE_NEWUSER
			attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		}
		d := start(t, t.TempDir(), "", attr)
		if stdout, _ := d.shell("echo $PPID"); stdout != "1\n" {
			t.Fatalf("the guest is process %s", stdout)
		}
		check(t, d, fmt.Sprint(d.command.Process.Pid)) // /proc is that of this test
		d.command.Process.Signal(syscall.SIGTERM)
		if code := d.end(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
}

// TestFileSizeLimit has the guest write beyond RLIMIT_FSIZE, which is a signal as
// well as an error.
func TestFileSizeLimit(t *testing.T) {
	d := start(t, t.TempDir(), "ulimit -f 128;", nil) // of 512 bytes
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
	if stdout, _ := d.shell("grep SigIgn /proc/self/status"); !strings.Contains(stdout, "SigIgn:\t0000000000000000") {
		t.Errorf("programs ignore signals: %q", stdout)
	}
}
