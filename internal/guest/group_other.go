//go:build !unix

package guest

import "os"

// A group stands for a process group where there are none, and so no programs
// either.
type group int

func (g group) watch() func() bool { return func() bool { return true } }
func (g group) terminate()         {}
func (g group) kill()              {}

// An exit is how a program ended.
type exit struct {
	code   int
	signal string
}

func exitOf(state *os.ProcessState) exit { return exit{code: state.ExitCode()} }
