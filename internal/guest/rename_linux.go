package guest

import (
	"os"
	"syscall"
)

// rename moves the file at one place to another, also between two open
// directories. It says the kernel's own about a directory that is in the way.
func rename(from, to *place) error {
	a, err := from.dir.Open(".")
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := to.dir.Open(".")
	if err != nil {
		return err
	}
	defer b.Close()
	if err := syscall.Renameat(int(a.Fd()), from.base, int(b.Fd()), to.base); err != nil {
		return &os.LinkError{Op: "renameat", Old: from.path, New: to.path, Err: err}
	}
	return nil
}
