package guest

import (
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A session is a program that belongs to no connection. Its output goes into a
// ring, whether anybody is attached or not.
type session struct {
	id       string
	kind     string
	command  string
	args     []string
	started  time.Time
	launched chan struct{} // closed when the program runs or could not be started
	settled  chan struct{} // closed when the session has exited
	log      *ring

	*job  // valid when launched; nil if it could not be started
	input *input

	// Guarded by sessions.mu:
	lastInput  time.Time
	lastOutput time.Time
	exited     bool
	expires    time.Time // when it has exited
	attached   *attachment
	number     int // in the order of creation
}

// run starts the goroutines of a session whose program was just started.
func (t *sessions) run(s *session, j *job) {
	s.job = j
	programs := &t.server.programs
	take := func(output int) func([]byte) {
		return func(data []byte) {
			t.mu.Lock()
			s.lastOutput = time.Now()
			t.mu.Unlock()
			s.log.add(output, data, nil)
		}
	}
	var pumps sync.WaitGroup
	if s.kind == wire.KindTerminal {
		s.input = newInput(j.terminal)
		programs.Go(s.input.run)
		pumps.Go(func() { j.readTerminal(take(stdout)) })
	} else {
		pumps.Go(func() { readPipe(j.stdout, take(stdout)) })
		pumps.Go(func() { readPipe(j.stderr, take(stderr)) })
		programs.Go(func() { pumps.Wait(); close(j.pumped) })
	}
	programs.Go(func() {
		<-j.reaped
		if s.kind == wire.KindDetached {
			j.hangUpIfHeld()
		}
		pumps.Wait()
		if s.kind == wire.KindTerminal {
			s.input.end()
			j.terminal.Close()
		} else {
			j.hangUp()
		}
		t.settle(s)
	})
	close(s.launched)
}

// settle remembers that a session has exited.
func (t *sessions) settle(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.exited, s.expires = true, time.Now().Add(t.server.config.SessionTTL)
	s.log.close(false)
	close(s.settled)
}

// summaryLocked is what is told of a session.
func (s *session) summaryLocked() wire.Session {
	start, end := s.log.span()
	w := wire.Session{
		SessionID: s.id, Kind: s.kind, Command: s.command, Args: s.args, StartedAt: s.started.UnixMilli(),
		NextOffset: end, Dropped: start, State: wire.StateRunning, Attached: s.attached != nil,
	}
	if !s.lastInput.IsZero() {
		w.LastInputAt = s.lastInput.UnixMilli()
	}
	if !s.lastOutput.IsZero() {
		w.LastOutputAt = s.lastOutput.UnixMilli()
	}
	if s.exited {
		w.State, w.ExitCode, w.Signal = wire.StateExited, new(s.exit.code), s.exit.number
	}
	return w
}
