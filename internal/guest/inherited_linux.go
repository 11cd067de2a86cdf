package guest

import "syscall"

// keepInherited keeps the files that this process was started with from its
// programs: the kernel passes on all that are not marked, and whoever started it
// may have marked none.
func keepInherited() {
	const closeRange, first, cloexec = 436, 3, 4
	syscall.RawSyscall(closeRange, first, uintptr(1<<31-1), cloexec) // before Linux 5.11 it stays as it is
}
