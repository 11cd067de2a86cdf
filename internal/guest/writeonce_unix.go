//go:build unix

package guest

import (
	"errors"
	"os"
	"syscall"
)

// writeOnce writes data with a single system call, and reports a short write
// instead of going on: the next call would only find out why, and where a limit
// on the size of files is the reason that costs a SIGXFSZ.
func writeOnce(f *os.File, data []byte, offset int64) (n int, err error) {
	if len(data) == 0 {
		return 0, nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	if cerr := raw.Control(func(fd uintptr) {
		for {
			n, err = syscall.Pwrite(int(fd), data, offset)
			if !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	}); cerr != nil {
		return 0, cerr
	}
	return max(n, 0), err
}
