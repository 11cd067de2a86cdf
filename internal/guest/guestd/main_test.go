package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/leak"
)

// runVariable makes this test binary the command itself.
const runVariable = "TEST_RUN_GUESTD"

func TestMain(m *testing.M) {
	if os.Getenv(runVariable) != "" {
		main()
	}
	os.Exit(leak.Check(m.Run()))
}

// TestExitCode has a command that is told nothing: what it does otherwise is
// tested where it does it, in package guest.
func TestExitCode(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), runVariable+"=1", "NAMZU_AGENT_TCP_PORT=")
	out, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(out), "guestd: not started: ") {
		t.Errorf("%v: %q, want exit 1 and why", err, out)
	}
}
