//go:build linux

package guest_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// confined are the lines of /proc/self/status that a confined program shows.
const confined = `CapInh:	0000000000000000
CapPrm:	0000000000000000
CapEff:	0000000000000000
CapBnd:	0000000000000000
CapAmb:	0000000000000000
NoNewPrivs:	1
`

func TestConfine(t *testing.T) {
	g := newGuest(t, guest.Config{Confine: true, Environ: []string{"PATH=/usr/bin:/bin"}})
	const status = "grep -E '^(Cap|NoNewPrivs)' /proc/self/status"
	if r := g.shell(status); r.stdout != confined {
		t.Errorf("a program sees\n%s (%+v), want\n%s", r.stdout, r, confined)
	}
	if r := g.shell("sh -c \"" + status + "\""); r.stdout != confined {
		t.Errorf("a program of a program sees\n%s", r.stdout)
	}
	if r := g.shell("id -u; id -g"); r.stdout != strconv.Itoa(os.Getuid())+"\n"+strconv.Itoa(os.Getgid())+"\n" {
		t.Errorf("it runs as %q", r.stdout)
	}
	for _, test := range []struct {
		name string
		body object
		want string
	}{
		{"there is no such program", object{"command": "no-such-program"}, "spawn no-such-program ENOENT"},
		{"its interpreter is not there", object{"command": "./bad"}, "spawn ./bad ENOENT"},
		{"it cannot be run", object{"command": "./closed"}, "spawn ./closed EACCES"},
		{"it has too long an argument", object{"command": "true", "args": []string{strings.Repeat("x", 1<<20)}}, "spawn E2BIG"},
	} {
		g.put("bad", "#!/no/such/interpreter\n", 0o755)
		g.put("closed", "#!/bin/sh\n", 0o644)
		if r := g.execute(test.body); r.result["error"] != test.want || !r.complete {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
	if r := g.execute(object{"command": "sh", "args": []string{"-c", "echo $$; cut -d' ' -f5,6 /proc/self/stat"}}); strings.Count(r.stdout, strings.SplitN(r.stdout, "\n", 2)[0]) != 3 {
		t.Errorf("pid, group and session are %q, want them equal", r.stdout)
	}
	if r := g.execute(object{"command": "sleep", "args": []string{"600"}, "timeoutMs": 200}); r.result["signal"] != "SIGTERM" {
		t.Errorf("%+v", r)
	}
	// This process has lost nothing.
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 && (strings.Contains(string(own), "CapEff:\t0000000000000000") || strings.Contains(string(own), "NoNewPrivs:\t1")) {
		t.Errorf("the guest's own process has become\n%s", own)
	}
	if r := g.shell("setsid sh -c 'echo $0' x"); r.stdout != "x\n" {
		t.Errorf("%+v", r)
	}
}

// asNobody runs this test binary, for one test, as a user without privileges.
func asNobody(t *testing.T, test string) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	path := filepath.Join(folder(t), "guest.test")
	copied, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(copied, self); err != nil {
		t.Fatal(err)
	}
	if err := copied.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		c := exec.Command(path, "-test.run", "^"+test+"$", "-test.v")
		c.Dir = "/"
		c.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=/tmp", "HOME=/"}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.CombinedOutput()
		if !errors.Is(err, syscall.ETXTBSY) { // of a process that another test is starting
			return string(out), err
		}
		pause(5)
	}
}

func TestConfineWithoutPrivileges(t *testing.T) {
	t.Parallel()
	out, err := asNobody(t, "TestConfine")
	if strings.Contains(out, "user namespaces") {
		t.Skipf("user namespaces are not allowed here:\n%s", out)
	}
	if err != nil || !strings.Contains(out, "--- PASS: TestConfine") {
		t.Errorf("%v\n%s", err, out)
	}
}
