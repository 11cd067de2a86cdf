package guest

import "time"

const (
	firstNap = time.Millisecond
	longNap  = 5 * time.Millisecond
)

// within waits for at most d of real time until done reports true, and reports
// whether it did. It asks often: processes do not say when they are gone.
func within(d time.Duration, done func() bool) bool {
	for step := firstNap; ; step = min(step+firstNap, longNap) {
		if done() {
			return true
		}
		if d <= 0 {
			return false
		}
		step = min(step, d)
		nap(step)
		d -= step
	}
}

// closed reports whether c is.
func closed(c <-chan struct{}) func() bool {
	return func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
}
