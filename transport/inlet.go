package transport

import (
	"os"
	"sync"
)

// An inlet is where what a goroutine reads off a connection is handed to who
// wants it, piece by piece and not before it is wanted.
type inlet struct {
	pieces  chan []byte   // closed when no more come
	reading chan struct{} // holds an element while a read is under way
	rest    []byte        // of the last piece; belongs to the read under way

	spill     chan struct{} // closed when what comes is to be thrown away
	spillOnce sync.Once
}

func newInlet(early []byte) *inlet {
	return &inlet{pieces: make(chan []byte), reading: make(chan struct{}, 1), rest: early, spill: make(chan struct{})}
}

// give waits until the piece is wanted, and reports false when gone was closed
// before.
func (in *inlet) give(piece []byte, gone <-chan struct{}) bool {
	if len(piece) == 0 {
		return true
	}
	select {
	case in.pieces <- piece:
	case <-in.spill:
	case <-gone:
		return false
	}
	return true
}

// discard throws away what comes from now on.
func (in *inlet) discard() { in.spillOnce.Do(func() { close(in.spill) }) }

// read reads what there is. It reports false at the end of it.
func (in *inlet) read(p []byte, expired <-chan struct{}) (n int, more bool, err error) {
	select {
	case <-expired:
		return 0, true, os.ErrDeadlineExceeded
	default:
	}
	select {
	case in.reading <- struct{}{}:
	case <-expired:
		return 0, true, os.ErrDeadlineExceeded
	}
	defer func() { <-in.reading }()
	if len(in.rest) == 0 && len(p) > 0 {
		select {
		case piece, ok := <-in.pieces:
			if !ok {
				return 0, false, nil
			}
			in.rest = piece
		case <-expired:
			return 0, true, os.ErrDeadlineExceeded
		}
	}
	n = copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, true, nil
}
