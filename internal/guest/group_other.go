//go:build !unix

package guest

import "os"

// A group stands for a process group where there are none, and so no programs
// either.
type group int

func (g group) watch() func() bool { return func() bool { return true } }
func (g group) terminate()         {}
func (g group) kill()              {}

func (g group) killSession(name, otherwise string) int { return 0 }

// An exit is how a program ended.
type exit struct {
	code   int
	signal string
	number int
}

func exitOf(state *os.ProcessState) exit { return exit{code: state.ExitCode()} }
