//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

const terminationSignal = syscall.SIGTERM

// catchSignals takes SIGXFSZ, which a write beyond a limit on the size of files
// raises: the write fails as well, and that is enough. It is caught and not
// ignored, because programs would inherit that.
func catchSignals() { signal.Notify(make(chan os.Signal, 1), syscall.SIGXFSZ) }
