package guest

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// openPTY opens a pseudoterminal of that size: the side that this process keeps
// and the side that a program gets.
func openPTY(cols, rows int) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var locked, number int32
	if err = ioctl(master, syscall.TIOCSPTLCK, unsafe.Pointer(&locked)); err == nil {
		err = ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&number))
	}
	if err == nil {
		err = setSize(master, cols, rows)
	}
	if err == nil {
		path := "/dev/pts/" + strconv.Itoa(int(number))
		// Not by os.OpenFile: what it opens is set to not block, and a program
		// would find it so.
		var fd int
		fd, err = syscall.Open(path, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
		if err == nil {
			return master, os.NewFile(uintptr(fd), path), nil
		}
	}
	master.Close()
	return nil, nil, err
}

// setSize tells a terminal its size, and the programs on it that it has changed.
func setSize(master *os.File, cols, rows int) error {
	size := struct{ rows, cols, x, y uint16 }{rows: uint16(rows), cols: uint16(cols)}
	return ioctl(master, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

func ioctl(f *os.File, request uintptr, argument unsafe.Pointer) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
	}); err != nil {
		return err
	}
	if errno != 0 {
		return errno
	}
	return nil
}
