//go:build unix

package guest

import (
	"os"
	"os/signal"
	"syscall"
)

const terminationSignal = syscall.SIGTERM

func notifyReseed(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// takeSignals takes signals that programs would else ignore like this process, as
// that is inherited and a handler is not: those that it was started to ignore, as
// nohup(1) has it with SIGHUP, and SIGXFSZ, which a write beyond a limit on the
// size of files raises: the write fails as well, and that is enough.
func takeSignals() {
	nobody := make(chan os.Signal, 1)
	signal.Notify(nobody, syscall.SIGXFSZ)
	for number := syscall.Signal(1); number < 65; number++ {
		if ignored(number) {
			signal.Notify(nobody, number)
		}
	}
}
