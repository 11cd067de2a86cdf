package k8s

import (
	"sync"
	"time"
)

// maxClockSample is the longest exchange that says anything about the server's
// clock: of a slower one it is not known when within it the server looked.
const maxClockSample = 2 * time.Second

// A clock learns from Date headers how far the server's clock is ahead of ours.
//
// A Date names a whole second and was taken somewhere between the request and
// its answer, so one exchange bounds the offset from both sides. Exchanges that
// agree narrow the bounds; one that contradicts them, because a clock was set or
// has drifted, replaces them.
type clock struct {
	mu       sync.Mutex // guards what follows
	low, top time.Duration
	known    bool
}

// observe takes the date of an answer to what was sent and received at these
// times of our clock.
func (c *clock) observe(sent, received, date time.Time) {
	if received.Sub(sent) > maxClockSample || received.Before(sent) {
		return
	}
	low := date.Sub(received)
	top := date.Add(time.Second).Sub(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && low < c.top && c.low < top {
		low, top = max(low, c.low), min(top, c.top)
	}
	c.low, c.top, c.known = low, top, true
}

// offset returns the server's time minus ours. It is zero as long as the
// clocks may agree.
func (c *clock) offset() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || c.low <= 0 && c.top >= 0 {
		return 0, c.known
	}
	return c.low + (c.top-c.low)/2, true
}
