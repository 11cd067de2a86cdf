package guest

import (
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	// mergeFrom is how many pieces a ring holds as they came. From then on small
	// ones of the same output are put together, so that a program that writes
	// byte by byte does not cost many times its output.
	mergeFrom = 1024
	mergeSize = 4 << 10

	// readerPatience is how long an output waits for a reader that is about to be
	// dropped. It keeps readers that do read from being dropped by a program
	// that is faster than a connection, and costs a program no more than that for
	// each reader that does not.
	readerPatience = 250 * time.Millisecond

	// frameOverhead is about what a frame is longer than the output in it.
	frameOverhead = 64
)

// The outputs of a program.
const (
	stdout = iota
	stderr
)

// A piece is what one read of an output brought, or the end of that.
type piece struct {
	output int
	offset int64
	data   []byte // never changed
}

func (p piece) end() int64 { return p.offset + int64(len(p.data)) }

// delta is the piece as a frame of an execution whose output is kept.
func (p piece) delta() *wire.RetainedDelta {
	kind := wire.TypeStdout
	if p.output == stderr {
		kind = wire.TypeStderr
	}
	return &wire.RetainedDelta{Type: kind, Data: decodeText(p.data), Offset: p.offset, NextOffset: p.end()}
}

// A ring keeps the end of a program's output: both outputs in the order in which
// they came, in one space of offsets that only grows. It hands on what comes to
// its readers, none of which can hold up the program for long.
type ring struct {
	limit int           // bytes
	turn  chan struct{} // holds a token while a piece is being added

	mu      sync.Mutex // guards the fields below and those of the readers
	pieces  []piece
	start   int64 // offset of the oldest byte that is kept
	end     int64 // offset after the newest
	readers map[*reader]bool
	rush    bool // readers are not waited for any more
	emptied bool // by empty
	closed  bool // nothing more comes
	broken  bool // and what is missing will never come
}

func newRing(limit int) *ring {
	return &ring{limit: limit, turn: make(chan struct{}, 1), readers: map[*reader]bool{}}
}

// add appends output and hands it to the readers, and then to then while still
// nothing else is added.
func (r *ring) add(output int, data []byte, then func(piece)) {
	if len(data) == 0 {
		return
	}
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	r.awaitReaders()
	p := piece{output: output, data: append([]byte(nil), data...)}
	r.mu.Lock()
	p.offset = r.end
	r.end = p.end()
	var lost []*reader
	for reader := range r.readers {
		if !reader.putLocked(p) {
			lost = append(lost, reader)
		}
	}
	r.keepLocked(p)
	r.mu.Unlock()
	for _, reader := range lost {
		reader.onLoss()
	}
	if then != nil {
		then(p)
	}
}

// keepLocked keeps a piece, and lets go of what is too much then.
func (r *ring) keepLocked(p piece) {
	if n := len(r.pieces); n >= mergeFrom {
		if last := &r.pieces[n-1]; last.output == p.output && len(last.data)+len(p.data) <= mergeSize {
			// What somebody else has of last.data stays as it is.
			last.data = append(last.data[:len(last.data):cap(last.data)], p.data...)
			p.data = nil
		}
	}
	if p.data != nil {
		r.pieces = append(r.pieces, p)
	}
	drop := 0
	for excess := r.end - int64(r.limit) - r.start; excess > 0; excess = r.end - int64(r.limit) - r.start {
		oldest := &r.pieces[drop]
		if n := int64(len(oldest.data)); n <= excess {
			r.start += n
			drop++
			continue
		}
		oldest.data = oldest.data[excess:]
		oldest.offset += excess
		r.start += excess
	}
	// Outputs that alternate byte by byte cannot be put together.
	for len(r.pieces)-drop > mergeFrom+r.limit/frameOverhead {
		r.start = r.pieces[drop].end()
		drop++
	}
	if drop > 0 {
		clear(r.pieces[:drop])
		r.pieces = r.pieces[drop:]
	}
}

// awaitReaders waits a moment for readers that have not yet taken what the ring
// can keep. Those that still have not then are dropped by the piece that comes.
func (r *ring) awaitReaders() {
	var patience <-chan time.Time
	for {
		r.mu.Lock()
		var late *reader
		for reader := range r.readers {
			if reader.lateLocked() {
				late = reader
			}
		}
		rush := r.rush
		r.mu.Unlock()
		if late == nil || rush {
			return
		}
		if patience == nil {
			timer := time.NewTimer(readerPatience)
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case <-late.taken:
		case <-patience:
			return
		}
	}
}

// hurry keeps add from waiting from now on.
func (r *ring) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rush = true
	for reader := range r.readers {
		poke(reader.taken)
	}
}

// close says that nothing more comes. Broken: although it should.
func (r *ring) close(broken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.broken = true, r.broken || broken
	for reader := range r.readers {
		poke(reader.changed)
	}
}

// empty lets go of all output for good. The offsets stay.
func (r *ring) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pieces, r.start, r.emptied = nil, r.end, true
}

func (r *ring) isEmptied() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.emptied
}

// span returns the offsets of the oldest byte that is kept and after the newest.
func (r *ring) span() (start, end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.start, r.end
}

// poke puts a token into a channel that has room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
