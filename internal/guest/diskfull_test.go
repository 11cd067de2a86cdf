//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// TestDaemonFullDisk has a workspace that is a file system of 1 MiB.
func TestDaemonFullDisk(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, daemonSpec{
		prepare: `mount -t tmpfs -o size=1m none "$NAMZU_SANDBOX_WORKSPACE" && echo old > "$NAMZU_SANDBOX_WORKSPACE/t.bin" || exit 9;`,
		attr: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		},
	})
	inside := filepath.Join(fmt.Sprintf("/proc/%d/root", d.daemon.command.Process.Pid), d.workspace)
	text := func(n int) string { return strings.Repeat("w", n) }
	part := func(n, offset int) object {
		return object{"path": ".namzu-write-full.part", "content": text(n), "part": object{"offset": offset, "final": false}}
	}
	write := func(body object, want string) {
		t.Helper()
		reply := d.call(wire.OpWriteFile, body)
		if got, _ := reply["error"].(string); got != want {
			t.Errorf("%v, want %q", reply, want)
		}
	}
	left := func() []string {
		found, _ := filepath.Glob(filepath.Join(inside, ".namzu-write-*"))
		return found
	}

	write(object{"path": "t.bin", "content": text(2 << 20)}, "write_short_write: wrote 1044480 of 2097152 bytes, temp file is 1044480 bytes")
	if found := left(); len(found) > 0 {
		t.Errorf("left after a whole write: %q", found)
	}
	write(part(500000, 0), "")
	write(part(500000, 500000), "")
	write(part(500000, 1000000), "write_part_short_write: wrote 44480 of 500000 bytes at offset 1000000, temp file is 1044480 bytes")
	write(object{"path": "small.txt", "content": "x"}, "ENOSPC: no space left on device, write")
	if r := d.shell("echo x > y && echo fits"); r.stdout != "" || r.result["exitCode"] == 0.0 {
		t.Errorf("a program: %+v", r)
	}
	write(object{"path": ".namzu-write-full.part", "content": "", "part": object{"discard": true}}, "")
	if found := left(); len(found) > 0 {
		t.Errorf("left after the parts were discarded: %q", found)
	}
	if got, err := os.ReadFile(filepath.Join(inside, "t.bin")); string(got) != "old\n" {
		t.Errorf("the target: %q, %v", got, err)
	}
	write(object{"path": "t.bin", "content": text(500000)}, "")
	if info, err := os.Stat(filepath.Join(inside, "t.bin")); err != nil || info.Size() != 500000 {
		t.Errorf("once there is room: %v, %v", info, err)
	}
}
