package transport

import "time"

const (
	shortestBeat = 100 * time.Millisecond
	missedBeats  = 3 // silence of as many makes a peer a dead one
)

// agreedBeat is the heartbeat that comes of what was asked for and what the
// guest has answered, in milliseconds; zero is none. A guest cannot make it so
// slow that its end would not be noticed, or a flood.
func agreedBeat(asked, echoed int64) time.Duration {
	if asked <= 0 || echoed <= 0 {
		return 0
	}
	shortest := int64(shortestBeat / time.Millisecond)
	return time.Duration(max(shortest, min(echoed, 4*max(asked, shortest)))) * time.Millisecond
}
