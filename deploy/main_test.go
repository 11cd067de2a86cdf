package deploy_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// TestMain fails when goroutines of this module outlive the tests.
func TestMain(m *testing.M) {
	guest.RunLauncher()
	code := m.Run()
	if left := leftGoroutines(); left != "" && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines outlived the tests:\n\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

func leftGoroutines() string {
	var left []string
	for range 100 {
		left = nil
		buf := make([]byte, 1<<20)
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")[1:] {
			if strings.Contains(g, "sandlot-go/sandlot/") {
				left = append(left, g)
			}
		}
		if left == nil {
			return ""
		}
		<-time.After(20 * time.Millisecond)
	}
	return strings.Join(left, "\n\n")
}
