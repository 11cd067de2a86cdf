package leak

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Check(m.Run())) }

func TestGoroutines(t *testing.T) {
	begun, stop, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		outliving(begun, stop)
	}()
	<-begun
	// A millisecond is less than the runner needs to end, and the one that is
	// looked for does not end at all.
	if left := goroutines(time.Millisecond); !strings.Contains(left, "leak.outliving") {
		t.Errorf("a goroutine that goes on is not seen:\n%s", left)
	}
	close(stop)
	<-done
}

func outliving(begun chan<- struct{}, stop <-chan struct{}) {
	close(begun)
	<-stop
}

func TestCheckKeepsFailures(t *testing.T) {
	if code := Check(3); code != 3 {
		t.Errorf("exit code %d of failed tests became %d", 3, code)
	}
}
