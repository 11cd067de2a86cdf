package guest

import (
	"encoding/json"
	"math"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	shortestBeat = 100 // milliseconds
	longestBeat  = math.MaxInt32
	// silence is after how many intervals without a byte a peer is taken for
	// dead, and looks is how often that is looked at within one.
	silence     = 3
	looks       = 4
	shortestGap = 10 * time.Millisecond
)

// heartbeat is the interval that the peer asks for, in milliseconds, as far as
// it is granted; 0 if it asks for none.
func (c *call) heartbeat() int64 {
	number, ok := c.body["heartbeatMs"].(json.Number)
	if ms := numberOf(number); ok && ms > 0 && !math.IsInf(ms, 0) {
		return int64(min(max(math.Floor(ms), shortestBeat), longestBeat))
	}
	return 0
}

// beat sends a heartbeat every so many milliseconds and destroys the connection
// when the peer has sent nothing for three times as long, not even a part of a
// frame. A connection that is not read, because what it brings has nowhere to
// go, is not taken for silent. With 0 it does nothing. The returned function
// ends it, and must be called; no heartbeat is sent after it.
func (c *conn) beat(ms int64) (stop func()) {
	if ms == 0 {
		return func() {}
	}
	interval := time.Duration(ms) * time.Millisecond
	frame, _ := frameOf(&wire.Bare{Type: wire.TypeHeartbeat})
	c.hearsNow()
	done := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		every(interval, done, func() { c.writeUnlessBusy(frame) })
	})
	both.Go(func() {
		every(max(shortestGap, interval/looks), done, func() {
			if c.silentFor() >= silence*interval {
				c.destroy()
			}
		})
	})
	return sync.OnceFunc(func() {
		close(done)
		both.Wait()
	})
}

// every calls f again and again until done is closed.
func every(interval time.Duration, done <-chan struct{}, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-done:
			return
		}
	}
}

func (c *conn) hearsNow() { c.heard.Store(int64(time.Since(c.born))) }

// silentFor is for how long nothing came although something could have.
func (c *conn) silentFor() time.Duration {
	if c.deaf.Load() {
		return 0
	}
	return time.Since(c.born) - time.Duration(c.heard.Load())
}
