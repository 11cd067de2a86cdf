package guest

import "time"

const (
	firstNap = time.Millisecond
	longNap  = 5 * time.Millisecond
)

// within waits for at most d of real time until done reports true, and reports
// whether it did. It asks often: processes do not say when they are gone.
func within(d time.Duration, done func() bool) bool {
	end := realTime() + d
	for step := firstNap; !done(); step = min(step+firstNap, longNap) {
		left := end - realTime()
		if left <= 0 {
			return false
		}
		nap(min(step, left))
	}
	return true
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
