package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	maxLingering   = 64        // refused connections that are being waited for
	maxParsing     = 2         // large requests that are being decoded at once
	largeRequest   = 256 << 10 // what counts as one
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second

	// shutdownDrain is how long Shutdown waits for answers under way once no
	// program is left.
	shutdownDrain = time.Second

	// closeWait bounds what Close waits for a program that does not even die of
	// SIGKILL.
	closeWait = 10 * time.Second
)

// A Server is one guest: one boot id, one table of executions, one token.
type Server struct {
	config  Config
	bootID  string
	gate    *gate
	preauth *preauth
	jail    *jail
	environ []string // of programs, scrubbed
	start   starter

	retiring  atomic.Bool // fenced, for good
	quiescing atomic.Bool // shutting down, for good
	pausing   atomic.Bool // a quiesce is under way

	lingering chan struct{}
	parsing   chan struct{}
	flushing  chan struct{} // holds an element while the file system is synced

	executions executions
	jobs       jobs
	sessions   sessions
	parts      inFlight

	mu        sync.Mutex // guards the fields below
	stopped   bool       // no more connections
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	answers   map[chan struct{}]bool // of requests being answered; closed when one is

	life     context.Context // done when it is closed
	die      context.CancelFunc
	done     chan struct{}  // closed when stopped
	close    sync.Once      // guards closeErr
	closeErr error          // of Close
	busy     sync.WaitGroup // connections and accept loops
	programs sync.WaitGroup // what belongs to programs
}

// New makes a guest. It opens the workspace, and with Confine it tries out
// whether programs can be confined; nothing is listened on yet.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	start, err := newStarter(config.Confine)
	if err != nil {
		return nil, err
	}
	jail, err := newJail(config.Workspace, config.ReadRoots, config.WriteRoots)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config:    config,
		bootID:    uuid.New(),
		gate:      newGate(config.Token),
		preauth:   &preauth{maxConns: config.MaxPreauth, maxBytes: config.MaxPreauthBytes},
		jail:      jail,
		environ:   scrub(config.Environ),
		start:     start,
		lingering: make(chan struct{}, maxLingering),
		parsing:   make(chan struct{}, maxParsing),
		flushing:  make(chan struct{}, 1),
		listeners: map[net.Listener]bool{},
		conns:     map[*conn]bool{},
		answers:   map[chan struct{}]bool{},
		done:      make(chan struct{}),
	}
	s.life, s.die = context.WithCancel(context.Background())
	s.config.Token = "" // not needed any more
	if s.config.FlushCommand == "" {
		s.config.Environ = nil
	}
	s.executions.init(s)
	s.jobs.server, s.jobs.running = s, map[*job]bool{}
	s.sessions.server, s.sessions.records = s, map[string]*session{}
	return s, nil
}

// Serve answers on l until Shutdown or Close and returns nil then, at once if
// that was before. It closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = true
	s.busy.Add(1)
	s.mu.Unlock()
	defer s.busy.Done()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	pause := acceptPause
	for {
		raw, err := l.Accept()
		switch {
		case err == nil:
			pause = acceptPause
			s.admit(raw)
		case s.isStopped():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("guest: listener closed by another: %w", err)
		default: // such as too many open files: it passes
			s.config.Log.Warn("guest: accept failed", "error", err, "retry", pause)
			select {
			case <-time.After(pause):
			case <-s.done:
			}
			pause = min(2*pause, maxAcceptPause)
		}
	}
}

// admit starts serving a connection.
func (s *Server) admit(raw net.Conn) {
	c := newConn(s, raw)
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		raw.Close()
		return
	}
	s.conns[c] = true
	s.busy.Add(1)
	s.mu.Unlock()
	s.preauth.enter(c)
	go func() {
		defer s.busy.Done()
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// parse decodes a request. A decoded request can be many times as large as its
// bytes, and its sender has not authenticated yet: few large ones at a time.
func (s *Server) parse(payload []byte) (wire.Envelope, error) {
	if len(payload) >= largeRequest {
		s.parsing <- struct{}{}
		defer func() { <-s.parsing }()
		return parseLarge(payload)
	}
	return wire.ParseEnvelope(payload)
}

// retire fences the guest.
func (s *Server) retire(reason string) {
	if !s.retiring.Swap(true) {
		s.config.Log.Error("guest: termination could not be confirmed; nothing is started any more", "reason", reason)
	}
}

// health answers healthz.
func (s *Server) health(c *call) {
	fenced := s.retiring.Load()
	c.reply(&wire.Health{OK: !fenced, ProtocolVersion: wire.ProtocolVersion, Features: features, Retiring: fenced})
}

// stop closes the listeners, for good.
func (s *Server) stop() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.done)
	}
	listeners := slices.Collect(maps.Keys(s.listeners))
	s.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
}

// Shutdown is the orderly end: no connection is accepted any more, requests
// that would begin something are refused, all programs are ended as by a quiesce
// (SIGTERM, Config.QuiesceGrace, SIGKILL) and their results delivered, the
// workspace's file system is written to its disk, and then everything is closed.
// It returns when that is done, when ctx is done or when Config.ShutdownDeadline
// has passed, and has done what Close does in any case. The error says what could
// not be ended.
func (s *Server) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.ShutdownDeadline)
	defer cancel()
	s.quiescing.Store(true)
	s.stop()
	err := s.endPrograms(ctx)
	s.drain(ctx)
	err = errors.Join(err, s.lastFlush(ctx))
	return errors.Join(err, s.Close())
}

// endPrograms ends all programs, in the time that ctx has without what a flush
// may need then.
func (s *Server) endPrograms(ctx context.Context) error {
	end, _ := ctx.Deadline()
	left := time.Until(end)
	q := quiescence{server: s, ctx: ctx, grace: s.config.QuiesceGrace, limit: left - min(s.config.FlushTimeout, left/3)}
	switch err := q.run(); err {
	case nil:
		return s.executions.quiesce(ctx) // whose output is still held by others
	case errProcesses:
		return errors.Join(s.executions.quiesce(ctx), s.jobs.quiesce(ctx))
	default:
		return err
	}
}

// lastFlush is that of a shutdown, in the time that is left.
func (s *Server) lastFlush(ctx context.Context) error {
	end, _ := ctx.Deadline()
	err := s.syncWorkspace(max(0, min(s.config.FlushTimeout, time.Until(end))))
	if err == errFlush {
		return nil
	}
	return err
}

// begin counts a request as being answered, unless its answer is as open as its
// peer likes; end takes back what begin returned.
func (s *Server) begin(open bool) chan struct{} {
	done := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if !open {
		s.answers[done] = true
	}
	return done
}

func (s *Server) end(done chan struct{}) {
	s.mu.Lock()
	delete(s.answers, done)
	s.mu.Unlock()
	close(done)
}

// drain waits for the answers under way.
func (s *Server) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownDrain)
	defer cancel()
	s.mu.Lock()
	answers := slices.Collect(maps.Keys(s.answers))
	s.mu.Unlock()
	for _, done := range answers {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// Close ends everything at once: programs are killed, connections closed, and
// all goroutines of the server have ended when it returns. The error names what
// did not even die of SIGKILL within 10 s; its goroutines are still there then.
// Closing again returns the same.
func (s *Server) Close() error {
	s.close.Do(func() {
		s.quiescing.Store(true)
		s.stop()
		s.die()
		s.closeErr = errors.Join(s.executions.kill(), s.jobs.kill())
		s.mu.Lock()
		conns := slices.Collect(maps.Keys(s.conns))
		s.mu.Unlock()
		for _, c := range conns {
			c.destroy()
		}
		if s.closeErr == nil {
			s.busy.Wait()
			s.programs.Wait()
			select { // a disk that does not answer is not waited for
			case s.flushing <- struct{}{}:
			case <-time.After(closeWait):
			}
			s.jail.close()
		}
	})
	return s.closeErr
}
