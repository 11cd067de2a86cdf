package acquire

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A pace decides when a claim is looked at. A look that comes too early is a
// request for nothing and slows the bind itself, so the first one waits about
// as long as binds of this cluster take, which the pace learns.
type pace struct {
	mu    sync.Mutex
	first time.Duration // 0: nothing learned yet
}

const (
	firstLook    = 25 * time.Millisecond
	leastLook    = 10 * time.Millisecond
	mostLook     = 250 * time.Millisecond
	nextLook     = 8 * time.Millisecond // the pause after the first look; it grows by half each time
	jitterShare  = 0.1
	earlierShare = 0.95 // how much earlier to look after a first look that came late enough
	laterShare   = 0.3  // how far to move towards a bind that the first look missed
)

// delay is the pause before the n-th look, counted from 1, never longer than
// most but for the first one.
func (p *pace) delay(n int, most time.Duration) time.Duration {
	p.mu.Lock()
	first := p.first
	p.mu.Unlock()
	return schedule(first, n, most, rand.Float64())
}

// schedule is delay without state: random is in [0, 1).
func schedule(first time.Duration, n int, most time.Duration, random float64) time.Duration {
	d := first
	if d == 0 {
		d = firstLook
	}
	if n > 1 {
		d = nextLook
		for range min(n-2, 20) {
			d += d / 2
		}
		d = min(d, most)
	}
	return max(time.Duration(float64(d)*(1-jitterShare+2*jitterShare*random)), time.Millisecond)
}

// learn takes in a bind that was seen at the n-th look: it was not there at
// notYet and was there at ready, both counted from the answer to the POST.
func (p *pace) learn(n int, notYet, ready time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first = learned(p.first, n, notYet, ready)
}

func learned(first time.Duration, n int, notYet, ready time.Duration) time.Duration {
	if first == 0 {
		first = firstLook
	}
	if n <= 1 {
		first = time.Duration(float64(first) * earlierShare)
	} else {
		bound := notYet + (ready-notYet)/2
		first += time.Duration(float64(bound-first) * laterShare)
	}
	return min(max(first, leastLook), mostLook)
}
