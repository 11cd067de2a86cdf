package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// A process that may not empty its capability bounding set may do so in a user
// namespace of its own. The set is that of a thread, and a new user namespace
// is for single-threaded processes, so a launcher does it: this same executable,
// started in the namespace, which drops everything and becomes the program.

const (
	launcherName = "sandlot-guest-launcher"  // argument 0 of the launcher
	launchFlag   = "-sandlot-guest-launch"   // argument 1: arguments 2 and up are a path and its arguments
	trialFlag    = "-sandlot-guest-launcher" // argument 1: nothing is launched
	capSetPCap   = 8
	statusFD     = 3 // where it says why it failed, as an error number
	trialOK      = "ok"
	trialTime    = 10 * time.Second
	failedLaunch = 127
)

// RunLauncher must be the first thing that main, or TestMain, calls in a program
// that uses Config.Confine. It does nothing, unless the process was started by
// this package to confine a program: then it does not return.
func RunLauncher() {
	if os.Args[0] != launcherName || len(os.Args) < 2 {
		return
	}
	runtime.LockOSThread()
	syscall.CloseOnExec(statusFD)
	status := os.NewFile(statusFD, "status")
	err := dropPrivileges()
	switch {
	case err != nil:
	case os.Args[1] == trialFlag:
		status.WriteString(trialOK)
		os.Exit(0)
	case len(os.Args) < 4:
		err = syscall.EINVAL
	default:
		err = syscall.Exec(os.Args[2], os.Args[3:], os.Environ())
	}
	errno, _ := errors.AsType[syscall.Errno](err)
	status.WriteString(strconv.Itoa(int(errno)))
	os.Exit(failedLaunch)
}

// launch starts the launcher. What it has to say can be read: nothing, when it
// has become the program.
func launch(args []string, attr *os.ProcAttr) (p *os.Process, word *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	uid, gid := os.Getuid(), os.Getgid()
	inside := *attr
	inside.Files = append(inside.Files[:len(attr.Files):len(attr.Files)], w)
	inside.Sys = &syscall.SysProcAttr{
		Setsid:      true,
		Setctty:     attr.Sys != nil && attr.Sys.Setctty,
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		// Of all that it has in the new namespace, this survives becoming the
		// launcher: what it takes to empty the bounding set.
		AmbientCaps: []uintptr{capSetPCap},
	}
	p, err = os.StartProcess("/proc/self/exe", append([]string{launcherName}, args...), &inside)
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return p, r, nil
}

// hear reads the launcher's word.
func hear(word *os.File) (string, error) {
	defer word.Close()
	said, err := io.ReadAll(io.LimitReader(word, 16))
	return string(said), err
}

// startLaunched starts a program through the launcher.
func startLaunched(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	p, word, err := launch(append([]string{launchFlag, path}, argv...), attr)
	if err != nil {
		return nil, err
	}
	said, err := hear(word)
	if err == nil && said == "" {
		return p, nil
	}
	group(p.Pid).kill()
	p.Wait()
	if err != nil {
		return nil, err
	}
	return nil, &os.PathError{Op: "exec", Path: path, Err: meant(said)}
}

// meant is what the launcher means by the word that it says when it fails.
func meant(said string) error {
	errno, err := strconv.Atoi(said)
	if err != nil {
		return fmt.Errorf("the launcher said %q", said)
	}
	return syscall.Errno(errno)
}

// tryLauncher finds out whether the launcher works here. A main function that
// does not call RunLauncher is not waited for for long.
func tryLauncher() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	p, word, err := launch([]string{trialFlag}, &os.ProcAttr{Files: []*os.File{null, null, null}, Env: []string{}})
	if err != nil {
		return err
	}
	heard := make(chan struct{})
	var said string
	go func() {
		defer close(heard)
		said, err = hear(word)
	}()
	within(trialTime, closed(heard))
	group(p.Pid).kill()
	<-heard
	p.Wait()
	switch {
	case err != nil:
		return err
	case said == "":
		return errors.New("this program is no launcher: its main function must call guest.RunLauncher first")
	case said != trialOK:
		return meant(said)
	}
	return nil
}
