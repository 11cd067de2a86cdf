//go:build unix && !linux

package guest

import (
	"os/signal"
	"syscall"
)

// ignored reports whether this process ignores a signal.
func ignored(number syscall.Signal) bool { return signal.Ignored(number) }
