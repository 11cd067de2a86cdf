package guest

import "os"

// machineNamespace is the PID namespace of the machine: PROC_PID_INIT_INO in the
// kernel's include/uapi/linux/nsfs.h.
const machineNamespace = "pid:[4026531836]"

// inCharge reports whether all that runs in this PID namespace is the guest's.
func inCharge() bool {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && inChargeOf(namespace, os.Getpid(), os.Getppid())
}

// inChargeOf reports whether that process is the first of its PID namespace, or
// the child of an init that does nothing else. On the machine itself that would
// be a child of its init, which has others.
func inChargeOf(namespace string, pid, parent int) bool {
	return namespace != machineNamespace && (pid == 1 || parent == 1)
}
