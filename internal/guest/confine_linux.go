package guest

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	prCapBSetRead      = 23
	prCapBSetDrop      = 24
	prSetNoNewPrivs    = 38
	prCapAmbient       = 47
	prCapAmbientClear  = 4
	capabilityVersion3 = 0x20080522
	capabilities       = 64 // more than there are
)

func prctl(option int, args ...uintptr) (uintptr, error) {
	var a [4]uintptr
	copy(a[:], args)
	r, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, uintptr(option), a[0], a[1], a[2], a[3], 0)
	if errno != 0 {
		return 0, errno
	}
	return r, nil
}

// dropPrivileges empties every capability set of the calling thread and keeps
// what it starts from gaining any (capabilities(7), no_new_privs in prctl(2)).
// The thread must not run anything else afterwards.
func dropPrivileges() error {
	for number := range uintptr(capabilities) {
		held, err := prctl(prCapBSetRead, number)
		if errors.Is(err, syscall.EINVAL) {
			break // there are no more
		}
		if err != nil {
			return err
		}
		if held == 0 {
			continue
		}
		if _, err := prctl(prCapBSetDrop, number); err != nil {
			return err
		}
	}
	if _, err := prctl(prSetNoNewPrivs, 1); err != nil {
		return err
	}
	if _, err := prctl(prCapAmbient, prCapAmbientClear); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err // EINVAL: a kernel without ambient capabilities
	}
	header := struct {
		version uint32
		pid     int32 // 0: the calling thread
	}{version: capabilityVersion3}
	var none [2]struct{ effective, permitted, inheritable uint32 }
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// onLostThread runs f on a thread that is not used for anything else afterwards.
// It is not the main thread: that never ends, and what it has is what the whole
// process seems to have.
func onLostThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			onLostThread(f) // which cannot get this thread, as long as it is locked
			runtime.UnlockOSThread()
			return
		}
		f() // and not unlocked: the thread ends with the goroutine
	}()
	<-done
}

// startConfined starts a process from a thread without privileges, which the
// process inherits.
func startConfined(path string, argv []string, attr *os.ProcAttr) (p *os.Process, err error) {
	onLostThread(func() {
		if err = dropPrivileges(); err == nil {
			p, err = startPlain(path, argv, attr)
		}
	})
	return p, err
}

// newStarter returns how programs are started, having tried it out.
func newStarter(confine bool) (starter, error) {
	if !confine {
		return startPlain, nil
	}
	if os.Args[0] == launcherName {
		return nil, errors.New("guest: this process was started to confine a program: its main function must call guest.RunLauncher first")
	}
	var err error
	onLostThread(func() { err = dropPrivileges() })
	if err == nil {
		return startConfined, nil
	}
	if launch := tryLauncher(); launch != nil {
		return nil, &ConfigError{"Confine", "is set, but this process may not empty its capability bounding set (" + err.Error() +
			") nor do it in a user namespace (" + launch.Error() + "): run it as root, or with CAP_SETPCAP, or allow user namespaces, or unset Confine"}
	}
	return startLaunched, nil
}
