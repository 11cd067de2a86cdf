//go:build unix && !linux

package guest

import "syscall"

// signalSession signals the group: what else is in the session nobody tells.
func (g group) signalSession(sig syscall.Signal) int {
	if syscall.Kill(-int(g), sig) != nil {
		return 0
	}
	return 1
}
