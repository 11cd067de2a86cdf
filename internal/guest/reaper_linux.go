package guest

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

const (
	prSetChildSubreaper = 36
	pAll                = 0
	wNoWait             = 0x01000000
)

// ReapOrphans makes this process adopt the orphans among its descendants, as
// PID 1 does anyway, and reaps them until ctx is done, so that they do not pile
// up where no other init does. It is for the program whose only child processes
// are those of its Servers. At most one may run.
func ReapOrphans(ctx context.Context) {
	// Without it, where the kernel is too old, only PID 1 adopts orphans.
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
	wake := make(chan os.Signal, 1)
	signal.Notify(wake, syscall.SIGCHLD)
	defer signal.Stop(wake)
	setFreed(func() {
		select {
		case wake <- syscall.SIGCHLD:
		default:
		}
	})
	defer setFreed(nil)
	for {
		for reapOrphan() {
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

func setFreed(f func()) {
	children.mu.Lock()
	defer children.mu.Unlock()
	children.freed = f
}

// reapOrphan reaps one ended process that is not ours. It reports false when
// there is none, or when one that is ours stands before it: then freed is
// called as soon as that one has been waited for.
func reapOrphan() bool {
	children.starting.Lock() // no process is between its start and being known
	defer children.starting.Unlock()
	var info [128]byte // siginfo_t
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pAll, 0, uintptr(unsafe.Pointer(&info)),
		syscall.WEXITED|syscall.WNOHANG|wNoWait, 0, 0)
	if errno != 0 {
		return errno == syscall.EINTR
	}
	// si_pid follows three ints, aligned as the union that it begins.
	offset := (12 + unsafe.Alignof(uintptr(0)) - 1) &^ (unsafe.Alignof(uintptr(0)) - 1)
	pid := int(*(*int32)(unsafe.Pointer(&info[offset])))
	if pid == 0 {
		return false
	}
	children.mu.Lock()
	own := children.own[pid]
	children.mu.Unlock()
	if own {
		return false
	}
	_, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	return err == nil || err == syscall.EINTR
}
