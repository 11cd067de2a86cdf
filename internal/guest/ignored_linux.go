package guest

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// ignored reports whether this process ignores a signal. Package os/signal knows
// that of few.
func ignored(number syscall.Signal) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(status, []byte("SigIgn:"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	mask, _ := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return mask>>(number-1)&1 == 1
}
