//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/leak"
)

// testRoot holds the workspaces of all guests of the tests, so that what
// their programs leave behind can be recognised.
var testRoot string

func TestMain(m *testing.M) {
	guest.RunLauncher()
	if os.Getenv(daemonVariable) != "" {
		os.Exit(guest.Main(os.Environ(), os.Stderr))
	}
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
	if ports, err = openPorts(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	ports.close()
	if err := clock.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code != 0 {
		return code
	}
	code = leak.Check(code)
	if left := processesIn(testRoot); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes left after the tests: %v\n", left)
		code = 1
	}
	return code
}
