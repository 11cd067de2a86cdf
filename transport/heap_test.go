//go:build linux

package transport_test

import (
	"io"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// TestGuestFilesNeedLittleMemory moves 24 MiB and looks, each few of them, at
// what is in memory that is no garbage: of the host and of the guest, which are
// the same process here.
func TestGuestFilesNeedLittleMemory(t *testing.T) {
	const size, step, limit = 24 << 20, 3 << 20, 8 << 20
	g := newRealGuest(t, guest.Config{})
	before, most := liveHeap(), uint64(0)
	moved := 0
	look := func(n int) {
		if moved/step != (moved+n)/step {
			most = max(most, liveHeap())
		}
		moved += n
	}
	source := io.LimitReader(reader(func(b []byte) (int, error) { look(len(b)); return len(b), nil }), size)
	if n, err := g.WriteFile(limited(t), "f", source); n != size || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	if most > before+limit {
		t.Errorf("writing holds %d bytes in memory, want at most %d", most-before, limit)
	}
	most = 0
	target := writer(func(b []byte) (int, error) { look(len(b)); return len(b), nil })
	if n, err := g.ReadFileTo(limited(t), "f", target); n != size || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	if most > before+limit {
		t.Errorf("reading holds %d bytes in memory, want at most %d", most-before, limit)
	}
	if moved != 2*size {
		t.Errorf("%d bytes were moved, want %d", moved, 2*size)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	return heapSize()
}

func heapSize() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// peakHeap is what f lets the heap of this process grow to, in MiB, with garbage
// that is not collected yet. It looks every few milliseconds.
func peakHeap(f func()) float64 {
	most := liveHeap()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				most = max(most, heapSize())
			case <-stop:
				return
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return float64(most) / (1 << 20)
}
