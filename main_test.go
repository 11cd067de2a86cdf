package sandlot_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain fails when a test of the root leaves a goroutine of ours behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "goroutines left behind after the tests:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of the goroutines that run or were started by code
// of the module, once they have had two seconds to end.
func leaked() []byte {
	for deadline := time.Now().Add(2 * time.Second); ; <-time.After(10 * time.Millisecond) {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left [][]byte
		for i, stack := range bytes.Split(stacks, []byte("\n\n")) {
			// The first is this goroutine's own.
			if i > 0 && bytes.Contains(stack, []byte(module)) {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return bytes.Join(left, []byte("\n\n"))
		}
	}
}
