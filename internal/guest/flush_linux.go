package guest

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

var errFlush = errors.New("guest: there is no syncfs(2) on this platform")

// syncfs are the numbers of syncfs(2), which package syscall does not have.
var syncfs = map[string]uintptr{
	"386": 344, "amd64": 306, "arm": 373, "arm64": 267, "loong64": 267, "ppc64le": 348, "riscv64": 267, "s390x": 338,
}

// syncFileSystem writes the whole file system that holds dir to its disk.
func syncFileSystem(dir string) error {
	number, known := syncfs[runtime.GOARCH]
	if !known {
		return errFlush
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, errno := syscall.Syscall(number, f.Fd(), 0, 0); errno != 0 {
		return &os.PathError{Op: "syncfs", Path: dir, Err: errno}
	}
	return nil
}
