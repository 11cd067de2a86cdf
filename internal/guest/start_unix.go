//go:build unix

package guest

import (
	"os"
	"syscall"
)

// startPlain starts a process with the privileges of this one.
func startPlain(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if attr.Sys == nil {
		attr.Sys = &syscall.SysProcAttr{}
	}
	attr.Sys.Setsid = true
	return os.StartProcess(path, argv, attr)
}

// startBeside starts a process in the session of this one, in a group of its own.
func startBeside(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	attr.Sys = &syscall.SysProcAttr{Setpgid: true}
	return os.StartProcess(path, argv, attr)
}

func executable(path string) bool {
	const xOK = 1
	return syscall.Access(path, xOK) == nil
}

// onTerminal makes the process's stdin the terminal of its session.
func onTerminal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setctty: true, Ctty: 0} }
