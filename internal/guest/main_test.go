//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// testRoot holds the workspaces of all guests of the tests, so that what
// their programs leave behind can be recognised.
var testRoot string

func TestMain(m *testing.M) {
	guest.RunLauncher()
	os.Exit(testMain(m))
}

func testMain(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "guest-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	testRoot = dir
	if clock, err = bootGuest(guest.Config{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	if err := clock.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code != 0 {
		return code
	}
	if left := goroutinesLeft(); left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left after the tests:\n%s\n", left)
		code = 1
	}
	if left := processesIn(testRoot); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes left after the tests: %v\n", left)
		code = 1
	}
	return code
}

// goroutinesLeft returns the stacks of goroutines of this module's packages that
// are still there after a while.
func goroutinesLeft() string {
	deadline := time.Now().Add(2 * time.Second)
	for {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var left []string
		for i, stack := range strings.Split(string(buf), "\n\n") {
			if i > 0 && strings.Contains(stack, "sandlot") { // 0 is this one
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		<-time.After(10 * time.Millisecond)
	}
}
