//go:build linux

package guest_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// daemonVariable makes this test binary a guest.
const daemonVariable = "TEST_RUN_GUEST"

// A daemonProcess is a guest that is a process of its own.
type daemonProcess struct {
	spec    daemonSpec
	command *exec.Cmd
	serving chan string   // its addresses, one for each time that it begins to listen
	logged  chan struct{} // closed when it says nothing any more
	log     strings.Builder
}

// A daemonSpec says how a guest is started.
type daemonSpec struct {
	workspace string // "": a new one
	prepare   string // what a shell does first, whose process the guest then is
	attr      *syscall.SysProcAttr
	environ   []string // beyond what every guest has
}

// bootDaemon starts a guest that has a process to itself.
func bootDaemon(spec daemonSpec) (*testGuest, error) {
	if spec.workspace == "" {
		var err error
		if spec.workspace, err = newFolder(); err != nil {
			return nil, err
		}
	}
	// Any user can open a descriptor, and not every path.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	defer self.Close()
	c := exec.Command("/bin/sh", "-c", spec.prepare+` exec "$0"`, "/proc/self/fd/3")
	c.ExtraFiles = []*os.File{self}
	c.Env = append([]string{
		daemonVariable + "=1", "PATH=/usr/bin:/bin", "NAMZU_SANDBOX_WORKSPACE=" + spec.workspace,
		"NAMZU_AGENT_ADDR=127.0.0.1", "NAMZU_AGENT_TCP_PORT=0", "NAMZU_AGENT_BIND_TOKEN=" + testToken,
	}, spec.environ...)
	c.SysProcAttr = spec.attr
	c.Dir = spec.workspace
	stderr, err := c.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	d := &daemonProcess{spec: spec, command: c, serving: make(chan string, 8), logged: make(chan struct{})}
	go func() {
		defer close(d.logged)
		defer close(d.serving)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			d.log.WriteString(lines.Text() + "\n")
			if found := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(lines.Text()); found != nil {
				d.serving <- found[1]
			}
		}
	}()
	g := &testGuest{workspace: spec.workspace, daemon: d}
	if err := g.awaitServing(); err != nil {
		d.kill()
		return nil, err
	}
	return g, nil
}

// awaitServing waits until the daemon begins to listen.
func (g *testGuest) awaitServing() error {
	select {
	case address, ok := <-g.daemon.serving:
		if !ok {
			return errors.New("the guest has ended: " + g.daemon.log.String())
		}
		var err error
		g.address, err = net.ResolveTCPAddr("tcp", address)
		return err
	case <-time.After(patience):
		return errors.New("the guest does not listen")
	}
}

// notAllowed is how programs word it.
var notAllowed = regexp.MustCompile("(?i)permission denied|not permitted|must be superuser")

// newDaemon starts a guest in a process of its own, and kills it with the test.
func newDaemon(t *testing.T, spec daemonSpec) *testGuest {
	t.Helper()
	g, err := bootDaemon(spec)
	if err != nil {
		if spec.attr != nil && (errors.Is(err, syscall.EPERM) || notAllowed.MatchString(err.Error())) {
			t.Skip("not allowed here: ", err)
		}
		t.Fatal(err)
	}
	g.t = t
	t.Cleanup(func() {
		g.daemon.kill()
		killDaemons(g.workspace) // in a pod they would be gone
		if t.Failed() {
			t.Logf("the guest said:\n%s", &g.daemon.log)
		}
	})
	return g
}

func (d *daemonProcess) kill() {
	d.command.Process.Kill()
	<-d.logged
	d.command.Wait()
}

func (d *daemonProcess) signal(sig syscall.Signal) { d.command.Process.Signal(sig) }

// end waits for the end and returns the exit code, which is -1 if it does not
// come.
func (d *daemonProcess) end() int {
	select {
	case <-d.logged:
	case <-time.After(replayWait):
		return -1
	}
	d.command.Wait()
	return d.command.ProcessState.ExitCode()
}

// namespaced has a guest in a PID namespace of its own, and in others.
func namespaced(others uintptr) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | others}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// errors that a guest has logged, without its own name.
func (d *daemonProcess) complaints() []string {
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(d.log.String()), "\n"), func(line string) bool {
		return line == "" || strings.Contains(line, "level=INFO")
	})
}
