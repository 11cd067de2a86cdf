package guest

import "sync"

// outboxRoom is how many bytes of frames wait for a slow peer before the
// program has to wait as well.
const outboxRoom = 1 << 20

// An outbox holds the frames of an execution on their way from the program to
// the connection, so that neither has to be there for the other: a program goes
// on without its connection, and can be ended although its peer takes nothing.
type outbox struct {
	mu      sync.Mutex
	changed sync.Cond
	frames  [][]byte
	bytes   int
	rush    bool // the program is being ended: its last output does not wait
	over    bool // no frame is put any more
	broken  bool // frames are missing: what there is must not be called complete
}

func newOutbox() *outbox {
	b := &outbox{}
	b.changed.L = &b.mu
	return b
}

// put adds a frame, and waits while there is no room.
func (b *outbox) put(frame []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes >= outboxRoom && !b.rush && !b.over {
		b.changed.Wait()
	}
	if b.over {
		return
	}
	if b.bytes >= 2*outboxRoom {
		b.breakLocked()
		return
	}
	b.frames = append(b.frames, frame)
	b.bytes += len(frame)
	b.changed.Broadcast()
}

// finish adds the last frame.
func (b *outbox) finish(frame []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.frames = append(b.frames, frame)
		b.over = true
		b.changed.Broadcast()
	}
}

// hurry keeps put from waiting: frames that find no room are lost from now on.
func (b *outbox) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rush = true
	b.changed.Broadcast()
}

// destroy drops what there is and all that comes, and makes the answer end
// without a result.
func (b *outbox) destroy() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.breakLocked()
	}
}

func (b *outbox) breakLocked() {
	b.over, b.broken = true, true
	b.frames, b.bytes = nil, 0
	b.changed.Broadcast()
}

// next waits for a frame. There are no more when ok is false.
func (b *outbox) next() (frame []byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.frames) == 0 && !b.over {
		b.changed.Wait()
	}
	if len(b.frames) == 0 {
		return nil, false
	}
	frame = b.frames[0]
	b.frames[0] = nil
	b.frames = b.frames[1:]
	b.bytes -= len(frame)
	b.changed.Broadcast()
	return frame, true
}

// complete reports whether every frame was handed out.
func (b *outbox) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over && !b.broken
}
