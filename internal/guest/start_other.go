//go:build !unix

package guest

import (
	"os"
	"syscall"
)

// startPlain starts nothing: there are no process groups here.
func startPlain(string, []string, *os.ProcAttr) (*os.Process, error) { return nil, errUnsupported }

func startBeside(string, []string, *os.ProcAttr) (*os.Process, error) { return nil, errUnsupported }

func executable(string) bool { return false }

func onTerminal() *syscall.SysProcAttr { return nil }
