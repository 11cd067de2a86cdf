package sim_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
)

func TestMain(m *testing.M) {
	guest.RunLauncher()
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked is the stacks of goroutines that run this module's code two seconds
// after the tests, or "".
func leaked() string {
	var left []string
	for end := time.Now().Add(2 * time.Second); ; runtime.Gosched() {
		left = left[:0]
		buf := make([]byte, 1<<20)
		stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
		for _, stack := range stacks[1:] { // the first is this goroutine
			if strings.Contains(stack, "sandlot") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return strings.Join(left, "\n\n")
		}
	}
}
