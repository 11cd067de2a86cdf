package guest

import (
	"context"
	"math"
)

// A reader follows a ring: what it had kept, and then what comes. It holds no
// more than the ring keeps, and once that again for what it is just handing out.
type reader struct {
	ring    *ring
	changed chan struct{} // holds a token when there may be something new
	taken   chan struct{} // holds a token when something was taken
	onLoss  func()        // called when it is dropped, which it may not see: it may be held up by its peer

	// Guarded by ring.mu:
	queue []piece
	cost  int  // of the queue, in bytes of frames
	lost  bool // it was too late to get everything
}

// read begins to read at an offset, or at the oldest byte that is still kept.
// What is kept is the reader's first batch: nothing is missing between it and
// what comes, and nothing is there twice. It returns nil for an offset that has
// not come yet. end is where the output ends at this moment.
func (r *ring) read(from int64, onLoss func()) (reading *reader, start, end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from > r.end {
		return nil, 0, r.end
	}
	reading = &reader{ring: r, changed: make(chan struct{}, 1), taken: make(chan struct{}, 1), onLoss: onLoss}
	start = max(from, r.start)
	for _, p := range r.pieces {
		if p.end() <= start {
			continue
		}
		if skip := start - p.offset; skip > 0 {
			p.data, p.offset = p.data[skip:], start
		}
		reading.queue = append(reading.queue, p)
	}
	reading.cost = math.MinInt // what is kept is no delay of the reader
	r.readers[reading] = true
	return reading, start, r.end
}

// stop ends reading.
func (r *reader) stop() {
	r.ring.mu.Lock()
	defer r.ring.mu.Unlock()
	delete(r.ring.readers, r)
	poke(r.taken)
}

func (r *reader) lateLocked() bool { return r.cost > r.ring.limit }

// putLocked hands a piece to the reader, or drops it if it is late and reports
// false.
func (r *reader) putLocked(p piece) bool {
	if r.lateLocked() {
		r.queue, r.lost = nil, true
		delete(r.ring.readers, r)
	} else {
		r.queue = append(r.queue, p)
		r.cost = max(r.cost, 0) + len(p.data) + frameOverhead
	}
	poke(r.changed)
	return !r.lost
}

// A readState is what next has come to.
type readState int

const (
	readMore   readState = iota // there are pieces
	readEnd                     // nothing more comes
	readLost                    // the reader was too slow
	readBroken                  // the output has no proper end
	readGone                    // the context is done
)

// next waits for pieces.
func (r *reader) next(ctx context.Context) ([]piece, readState) {
	for {
		pieces, state, wait := r.take()
		if !wait {
			return pieces, state
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return nil, readGone
		}
	}
}

func (r *reader) take() (pieces []piece, state readState, wait bool) {
	r.ring.mu.Lock()
	defer r.ring.mu.Unlock()
	switch {
	case r.lost:
		return nil, readLost, false
	case len(r.queue) > 0:
		pieces, r.queue, r.cost = r.queue, nil, 0
		poke(r.taken)
		return pieces, readMore, false
	case r.ring.broken:
		return nil, readBroken, false
	case r.ring.closed:
		return nil, readEnd, false
	}
	return nil, 0, true
}
