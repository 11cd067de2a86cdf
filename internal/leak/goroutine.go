// Package leak finds what tests leave behind: goroutines, processes and open
// files. A TestMain ends with
//
//	os.Exit(leak.Check(m.Run()))
package leak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// patience is how long goroutines that were told to end have for it.
const patience = 2 * time.Second

// Check returns the exit code of the tests. Tests that passed fail with code 1
// if goroutines outlive them by two seconds; standard error then has the stacks.
func Check(code int) int {
	if code != 0 {
		return code
	}
	if left := goroutines(patience); left != "" {
		fmt.Fprintf(os.Stderr, "goroutines outlived the tests:\n\n%s\n", left)
		return 1
	}
	return 0
}

// goroutines returns the stacks of all goroutines but the caller's and those
// of the test runner and of os/signal, as soon as there are none or when the
// time is up.
func goroutines(patience time.Duration) string {
	return strings.Join(left(patience, func() (found []string) {
		for i, stack := range strings.Split(stacks(), "\n\n") {
			if i > 0 && !strings.Contains(stack, "os/signal.") && !strings.Contains(stack, "\ntesting.(*") {
				found = append(found, stack)
			}
		}
		return found
	}), "\n\n")
}

// stacks returns every goroutine's stack, the caller's first.
func stacks() string {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return string(buf[:n])
		}
	}
}
