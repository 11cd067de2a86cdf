//go:build linux

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// TestClosedWorkspace runs the guest as an ordinary user in a workspace that is
// its own, below folders that are closed to it: it can only be reached because
// it is the working directory.
func TestClosedWorkspace(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and setpriv")
	}
	const nobody = 65534
	closed, err := os.MkdirTemp("", "guestd-closed-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(closed) })
	workspace := filepath.Join(closed, "ws")
	if err := os.MkdirAll(filepath.Join(workspace, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{workspace, workspace + "/dir"} {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("dir", filepath.Join(workspace, "link")); err != nil {
		t.Fatal(err)
	}
	binary := openBinary(t)
	d := start(t, workspace, "cd "+workspace+"; exec "+setpriv+" --reuid=65534 --regid=65534 --clear-groups "+binary+";", nil)
	if got, _ := d.shell("id -u; pwd"); got != "65534\n"+workspace+"\n" {
		t.Errorf("a program says %q", got)
	}
	for path, want := range map[string]string{"a/b/file": "", workspace + "/link/x": "", "../x": "path escapes the workspace"} {
		reply := d.call(wire.OpWriteFile, object{"path": path, "content": "x"})
		if got, _ := reply["error"].(string); got != want {
			t.Errorf("write %s: %v, want %q", path, reply, want)
		}
	}
	if reply := d.call(wire.OpReadFile, object{"path": workspace + "/dir/x"}); reply["content"] != "x" {
		t.Errorf("read: %v", reply)
	}
	r := d.ask(wire.OpExecute, object{"command": "pwd", "cwd": "new/folder"})
	if o := d.next(r); o["data"] != workspace+"/new/folder\n" {
		t.Errorf("a program in a folder says %v", o)
	}
}

// openBinary copies this test binary to where everybody can run it.
func openBinary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guestd-open-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	path := filepath.Join(dir, "guestd")
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
	if strings.ContainsAny(path, " '") {
		t.Skip("the temporary folder has an odd name")
	}
	return path
}
