package guest

import "os"

// machineNamespace is the PID namespace of the machine: PROC_PID_INIT_INO in the
// kernel's include/uapi/linux/nsfs.h.
const machineNamespace = "pid:[4026531836]"

// inCharge reports whether all that runs in this PID namespace is the guest's:
// it is its first process, or the only child of an init that does nothing else.
// On the machine itself that would be a child of its init, which is not alone.
func inCharge() bool {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && namespace != machineNamespace && (os.Getpid() == 1 || os.Getppid() == 1)
}
