package guest

import (
	"context"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// An attachment is the connection that a session is attached to, of which there
// is one at most.
type attachment struct {
	supersede context.CancelFunc // called when another takes its place
}

// attach makes a the session's attachment in the place of the previous one.
func (t *sessions) attach(s *session, a *attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.attached != nil {
		s.attached.supersede()
	}
	s.attached = a
}

func (t *sessions) detach(s *session, a *attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.attached == a {
		s.attached = nil
	}
}

// hear follows a frame of the session's attachment. One that has been superseded
// has no say any more.
func (t *sessions) hear(s *session, a *attachment, payload []byte) {
	if s.kind != wire.KindTerminal {
		if frame, ok := wire.ParseHostFrame(payload); !ok || frame.Type != wire.TypeKill {
			return // it has no stdin, and no size
		}
	}
	t.mu.Lock()
	current := s.attached == a
	if current && isInput(payload) {
		s.lastInput = time.Now()
	}
	t.mu.Unlock()
	if current {
		s.job.hear(payload, s.input)
	}
}

func isInput(payload []byte) bool {
	frame, ok := wire.ParseHostFrame(payload)
	return ok && frame.Type == wire.TypeInput
}

// openSession answers terminal with persistent true.
func (s *Server) openSession(c *call, o *terminalOrder) {
	opened := &session{kind: wire.KindTerminal, command: o.spec.command, args: o.spec.args}
	var err error
	if opened.id, err = c.sessionID(); err == nil {
		err = s.sessions.enter(opened)
	}
	if err != nil {
		c.fail(err)
		return
	}
	j, err := s.open(o)
	if err != nil {
		s.sessions.leave(opened)
		c.fail(err)
		return
	}
	s.sessions.run(opened, j)
	c.bare = false
	s.show(c, opened, 0, true)
}

// attachSession answers attach-session.
func (s *Server) attachSession(c *call) {
	id, err := c.sessionID()
	if err != nil {
		c.fail(err)
		return
	}
	shown := s.sessions.find(id)
	if shown == nil {
		c.fail(refusal(wire.CodeUnknownSession))
		return
	}
	from := c.number("fromOffset", 0)
	_, end := shown.log.span()
	if !safeInteger(from) || int64(from) > end {
		c.fail(&wire.StreamError{Type: wire.TypeError, Text: wire.CodeInvalidOffset, NextOffset: &end})
		return
	}
	s.show(c, shown, int64(from), c.body["follow"] != false)
}

// show sends what a session has kept and, to follow it, what comes, and follows
// what the peer sends, until the session exits or another takes its place.
func (s *Server) show(c *call, shown *session, from int64, follow bool) {
	t := &s.sessions
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	// A peer that is to go is told so after what is under way, for which it has
	// as long as it takes.
	late := time.AfterFunc(linger, c.conn.destroy)
	late.Stop()
	defer late.Stop()
	hurry := func() { late.Reset(linger) }
	defer whenDone(ctx, hurry)()
	reading, start, end := shown.log.read(from, hurry)
	defer reading.stop()
	summary := t.summary(shown)
	beat := c.heartbeat()
	c.send(&wire.SessionReady{
		Type: wire.TypeReady, BootID: s.bootID, SessionID: shown.id, Kind: shown.kind, State: summary.State,
		ExitCode: summary.ExitCode, Signal: summary.Signal, FromOffset: start, Dropped: start - from,
		NextOffset: end, HeartbeatMs: beat,
	})
	if !follow {
		pieces, _, _ := reading.take()
		c.sendPieces(pieces, end)
		c.terminate()
		return
	}
	stop := func() {}
	if summary.State == wire.StateRunning {
		a := &attachment{supersede: cancel}
		t.attach(shown, a)
		defer t.detach(shown, a)
		stop = c.conn.beat(beat)
		defer stop()
		c.resize(shown)
		c.listen(func(payload []byte) { t.hear(shown, a, payload) })
	}
	for {
		pieces, progress := reading.next(ctx)
		if progress == readMore {
			c.sendPieces(pieces, wire.MaxSafeInteger)
			continue
		}
		stop()
		switch {
		case progress == readEnd:
			summary := t.summary(shown)
			c.send(&wire.Exit{Type: wire.TypeExit, ExitCode: *summary.ExitCode, Signal: summary.Signal, NextOffset: &summary.NextOffset})
			c.terminate()
		case progress == readLost:
			c.send(&wire.Detached{Type: wire.TypeDetached, Reason: wire.DetachedSlowReader})
			c.terminate()
		case c.ctx.Err() == nil:
			c.send(&wire.Detached{Type: wire.TypeDetached, Reason: wire.DetachedSuperseded})
			c.terminate()
		}
		return
	}
}

// resize gives a session's terminal the size that the request has, if it has.
func (c *call) resize(shown *session) {
	cols, err := c.size("cols")
	if err != nil || shown.kind != wire.KindTerminal {
		return
	}
	if rows, err := c.size("rows"); err == nil {
		setSize(shown.terminal, cols, rows)
	}
}

// sendPieces sends output of a session up to an offset.
func (c *call) sendPieces(pieces []piece, end int64) {
	for _, p := range pieces {
		if p.offset >= end {
			return
		}
		stream := wire.StreamStdout
		if p.output == stderr {
			stream = wire.StreamStderr
		}
		if c.send(&wire.SessionData{
			Type: wire.TypeData, Stream: stream, Data: decodeText(p.data), Offset: p.offset, NextOffset: p.end(),
		}) != nil {
			c.conn.destroy()
			return
		}
	}
}
