package transport

import (
	"errors"
	"fmt"
	"io"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// read is the life of the stream.
func (t *Terminal) read() error {
	defer func() {
		close(t.in.pieces)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.timer != nil {
			t.timer.Stop()
		}
	}()
	for {
		event, err := t.stream.event(wire.ParseTerminalEvent)
		if err != nil {
			return t.stream.interrupted(err)
		}
		if over, err := t.take(event); over || err != nil {
			return err
		}
	}
}

// take takes an event and reports whether that was the last. It leaves at once
// when another attachment has taken over, because a guest may not have stopped
// listening to this one.
func (t *Terminal) take(event any) (over bool, err error) {
	switch event := event.(type) {
	case *wire.Data:
		if t.session != "" {
			return false, t.stream.broken("output of a session came without its place")
		}
		if !t.in.give([]byte(event.Data), t.stream.gone) {
			return true, t.stream.reason()
		}
	case *wire.SessionData:
		if t.session == "" {
			return false, t.stream.broken("output of a session came")
		}
		if err := t.cursor.move(event.Offset, event.NextOffset, event.Data); err != nil {
			return false, &ProtocolError{Op: t.stream.op, Err: err}
		}
		if !t.in.give([]byte(event.Data), t.stream.gone) {
			return true, t.stream.reason()
		}
		t.offset.Store(t.cursor.at)
	case *wire.Exit:
		if event.NextOffset != nil {
			if err := t.cursor.end(*event.NextOffset); err != nil {
				return false, &ProtocolError{Op: t.stream.op, Err: err}
			}
		}
		t.mu.Lock()
		t.exit = event
		t.mu.Unlock()
		return true, io.EOF
	case *wire.Detached:
		if t.session == "" {
			return false, t.stream.broken("a terminal was detached that is no session")
		}
		return true, &supersededError{event.Reason}
	case *wire.StreamError:
		return true, t.stream.interrupted(&wire.Refusal{Code: event.Text})
	case *wire.Bare:
	default:
		return false, t.stream.broken("it was ready twice")
	}
	return false, nil
}

type supersededError struct{ reason string }

func (e *supersededError) Error() string {
	switch e.reason {
	case wire.DetachedSuperseded:
		return "another attachment took the session over"
	case wire.DetachedSlowReader:
		return "its output was not read fast enough"
	}
	return fmt.Sprintf("the guest detached it: %.80q", e.reason)
}

// Is reports whether target is the sentinel of the same meaning.
func (e *supersededError) Is(target error) bool {
	return target == ErrSuperseded && e.reason == wire.DetachedSuperseded
}

// ErrSuperseded is why a session is detached when another attachment took it
// over.
var ErrSuperseded = errors.New("transport: another attachment took the session over")

// begin reads events until the terminal is ready, or has shown that it was.
// Output shows that the program runs.
func (t *Terminal) begin() (early []byte, echoedMs int64, err error) {
	for {
		event, err := t.stream.event(wire.ParseTerminalEvent)
		if failed, ok := event.(*wire.StreamError); ok {
			err = t.stream.binding.refused(t.stream.op, &wire.Refusal{Code: failed.Text})
		}
		if err != nil && len(early) > 0 {
			err = t.stream.interrupted(err)
		}
		if err != nil {
			return nil, 0, err
		}
		switch event := event.(type) {
		case *wire.Ready:
			if t.session != "" {
				return nil, 0, t.stream.broken("a session was asked for and is not what came")
			}
			t.stream.binding.booted(event.BootID)
			return early, event.HeartbeatMs, nil
		case *wire.SessionReady:
			return early, event.HeartbeatMs, t.beginSession(event)
		case *wire.Data:
			if early = append(early, event.Data...); len(early) > maxEarly {
				return nil, 0, t.stream.broken("more than %d bytes came before the terminal was ready", maxEarly)
			}
		case *wire.Exit:
			t.exit = event
			return early, 0, nil
		default:
			return nil, 0, t.stream.broken("the terminal was not ready")
		}
	}
}

const maxEarly = 1 << 20

func (t *Terminal) beginSession(r *wire.SessionReady) error {
	if r.SessionID != t.session {
		return t.stream.broken("another session is ready")
	}
	gap, err := t.cursor.begin(r.FromOffset, r.Dropped)
	if err != nil {
		return &ProtocolError{Op: t.stream.op, Err: err}
	}
	if gap != nil {
		t.gap = *gap
	}
	t.stream.binding.booted(r.BootID)
	t.offset.Store(t.cursor.at)
	return nil
}
