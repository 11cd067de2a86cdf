package guest

import (
	"syscall"
	"time"
	"unsafe"
)

// Process groups end in real time, also for a goroutine of a testing/synctest
// bubble, whose clock stands still or leaps meanwhile. So real time is what
// waiting for them goes by.

// nap passes real time.
func nap(d time.Duration) {
	rest := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
	}
}

// realTime is a point in real time, measured from an arbitrary one.
func realTime() time.Duration {
	const monotonic = 1
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano())
}
