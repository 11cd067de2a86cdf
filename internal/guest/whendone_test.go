//go:build linux

package guest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// TestWhenDone sees that an answer does not end before what its end has called,
// which for a terminal looks through all processes and kills some.
func TestWhenDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		called := 0
		end := guest.WhenDone(ctx, func() { time.Sleep(time.Second); called++ })
		guest.WhenDone(ctx, func() { t.Error("what was taken back is called") })()
		start := time.Now()
		cancel()
		synctest.Wait()
		end()
		if took := time.Since(start); called != 1 || took != time.Second {
			t.Errorf("called %d times, and ended after %v", called, took)
		}
	})
}
