//go:build unix

package guest

import "syscall"

// killSignals are the signals that a peer can have sent to a program.
var killSignals = map[string]syscall.Signal{
	"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP,
}

// killSession signals the whole session, by the name of a signal or else by
// another name, and returns how many processes it has reached.
func (g group) killSession(name, otherwise string) int {
	sig, ok := killSignals[name]
	if !ok {
		sig = killSignals[otherwise]
	}
	return g.signalSession(sig)
}
