//go:build unix

package guest

import (
	"errors"
	"os"
	"syscall"
)

// A group is the process group of a program, whose number is the pid of the
// program that was started first, its leader.
type group int

// signal sends sig to all members. That there are none any more is no error:
// what counts is what gone says afterwards.
func (g group) signal(sig syscall.Signal) { syscall.Kill(-int(g), sig) }

// watch returns a function that reports whether no member is alive. A group that
// cannot be looked at counts as alive. Its number cannot belong to another group
// while a member is there, and numbers are handed out in turn, so it is not
// handed out again between a look and the signal that follows it.
func (g group) watch() func() bool {
	onlyZombies := g.onlyZombies()
	return func() bool {
		return errors.Is(syscall.Kill(-int(g), 0), syscall.ESRCH) || onlyZombies()
	}
}

func (g group) terminate() { g.signal(syscall.SIGTERM) }
func (g group) kill()      { g.signal(syscall.SIGKILL) }

// An exit is how a program ended.
type exit struct {
	code   int    // -1 when a signal ended it
	signal string // its name
	number int    // and number
}

func exitOf(state *os.ProcessState) exit {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return exit{code: state.ExitCode()}
	}
	return exit{code: -1, signal: signalName(status.Signal()), number: int(status.Signal())}
}
