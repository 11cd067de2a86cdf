package guest

import (
	"syscall"
	"time"
)

// nap passes real time, also for a goroutine of a testing/synctest bubble: what
// it waits for is done by processes, which know nothing of the bubble's clock.
func nap(d time.Duration) {
	rest := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
	}
}
