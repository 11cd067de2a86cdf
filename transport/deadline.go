package transport

import (
	"sync"
	"time"
)

// A deadline is a time that can be moved, and a channel that is closed once it
// has passed. Its zero value is none.
type deadline struct {
	mu    sync.Mutex // guards what follows
	timer *time.Timer
	over  chan struct{} // closed once the time has passed; nil until it is asked for
}

// passed is closed once the time has passed. Moving it makes another channel,
// unless the one there is still open.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.overLocked()
}

func (d *deadline) overLocked() chan struct{} {
	if d.over == nil {
		d.over = make(chan struct{})
	}
	return d.over
}

// set moves the time; the zero time is none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.overLocked() // the timer is closing it
	}
	d.timer = nil
	over := d.overLocked()
	closed := false
	select {
	case <-over:
		closed = true
	default:
	}
	if t.IsZero() {
		if closed {
			d.over = nil
		}
		return
	}
	if wait := time.Until(t); wait > 0 {
		if closed {
			d.over = make(chan struct{})
			over = d.over
		}
		d.timer = time.AfterFunc(wait, func() { close(over) })
	} else if !closed {
		close(over)
	}
}
