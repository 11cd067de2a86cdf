//go:build linux

package guest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// TestDaemonInAClosedWorkspace runs the guest as an ordinary user in a workspace
// that is its own, below folders that are closed to it: it can only be reached
// because it is the working directory.
func TestDaemonInAClosedWorkspace(t *testing.T) {
	t.Parallel()
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
	g := newDaemon(t, daemonSpec{workspace: workspace, prepare: "exec " + setpriv + ` --reuid=65534 --regid=65534 --clear-groups "$0";`})
	if r := g.shell("id -u; pwd"); r.stdout != "65534\n"+workspace+"\n" {
		t.Errorf("a program says %+v", r)
	}
	for path, want := range map[string]string{"a/b/file": "", workspace + "/link/x": "", "../x": "path escapes the workspace"} {
		reply := g.call(wire.OpWriteFile, object{"path": path, "content": "x"})
		if got, _ := reply["error"].(string); got != want {
			t.Errorf("write %s: %v, want %q", path, reply, want)
		}
	}
	if reply := g.call(wire.OpReadFile, object{"path": workspace + "/dir/x"}); reply["content"] != "x" {
		t.Errorf("read: %v", reply)
	}
	if r := g.execute(object{"command": "pwd", "cwd": "new/folder"}); r.stdout != workspace+"/new/folder\n" {
		t.Errorf("a program in a folder says %+v", r)
	}
}
