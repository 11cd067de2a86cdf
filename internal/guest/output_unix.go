//go:build unix

package guest

import (
	"os"
	"syscall"
)

// readReady reads what can be read without waiting; 0 is nothing.
func readReady(f *os.File, buf []byte) (n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Read(func(fd uintptr) bool {
		for {
			var err error
			if n, err = syscall.Read(int(fd), buf); err != syscall.EINTR {
				return true
			}
		}
	})
	return n
}
