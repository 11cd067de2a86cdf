package policy_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails when a goroutine of the package outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if stacks := leaked(); code == 0 && stacks != "" {
		fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", stacks)
		code = 1
	}
	os.Exit(code)
}

func leaked() string {
	var left []string
	for deadline := time.Now().Add(2 * time.Second); ; {
		buf := make([]byte, 1<<20)
		left = nil
		for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "sandlot/policy.") || strings.Contains(stack, "sandlot/k8s.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		runtime.Gosched()
	}
}
