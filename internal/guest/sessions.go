package guest

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A sessions is the registry of sessions.
type sessions struct {
	server *Server

	mu      sync.Mutex // guards the fields below and those of each session
	records map[string]*session
	created int
}

// enter makes a place for a session, whose program is then to be started.
func (t *sessions) enter(s *session) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pruneLocked()
	if t.records[s.id] != nil {
		return refusal(wire.CodeSessionExists)
	}
	if s.command == "" {
		return codeMissingCommand
	}
	limit := t.server.config.MaxSessions
	exited := t.listLocked(func(s *session) bool { return s.exited })
	slices.SortStableFunc(exited, func(a, b *session) int { return a.expires.Compare(b.expires) })
	for len(t.records) >= limit && len(exited) > 0 {
		delete(t.records, exited[0].id)
		exited = exited[1:]
	}
	if len(t.records) >= limit {
		return refusal(wire.CodeSessionCapacity)
	}
	t.created++
	s.number, s.started = t.created, time.Now()
	s.launched, s.settled = make(chan struct{}), make(chan struct{})
	s.log = newRing(t.server.config.SessionBytes)
	t.records[s.id] = s
	return nil
}

// leave gives up the place of a session whose program could not be started.
func (t *sessions) leave(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.records, s.id)
	close(s.launched)
}

func (t *sessions) pruneLocked() {
	now := time.Now()
	maps.DeleteFunc(t.records, func(_ string, s *session) bool { return s.exited && !now.Before(s.expires) })
}

// listLocked lists sessions in the order of their creation.
func (t *sessions) listLocked(which func(*session) bool) []*session {
	var all []*session
	for _, s := range t.records {
		if which(s) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.number, b.number) })
	return all
}

// find returns the session of that id. It waits for one that is being started
// and returns nil if that fails.
func (t *sessions) find(id string) *session {
	t.mu.Lock()
	t.pruneLocked()
	s := t.records[id]
	t.mu.Unlock()
	if s == nil {
		return nil
	}
	if <-s.launched; s.job == nil {
		return nil
	}
	return s
}

// settled reports whether no session runs.
func (t *sessions) settled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.listLocked(func(s *session) bool { return closed(s.launched)() && !s.exited })) == 0
}

// addGroups adds the process groups of all sessions, of which some may have
// exited and left others in their session.
func (t *sessions) addGroups(groups map[int]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.records {
		if closed(s.launched)() && s.job != nil {
			groups[int(s.group)] = true
		}
	}
}

func (t *sessions) summary(s *session) wire.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.summaryLocked()
}

// sessionID is the field that names a session.
func (c *call) sessionID() (string, error) {
	id, _ := c.body["sessionId"].(string)
	if !wire.ValidSessionID(id) {
		return "", refusal(wire.CodeInvalidSessionID)
	}
	return id, nil
}

// startDetached answers start-detached.
func (s *Server) startDetached(c *call) {
	started := &session{kind: wire.KindDetached, args: texts(c.body["args"])}
	var err error
	if started.id, err = c.sessionID(); err != nil {
		c.fail(err)
		return
	}
	started.command, _ = c.body["command"].(string)
	if err := s.sessions.enter(started); err != nil {
		c.fail(err)
		return
	}
	dir, err := s.jail.workdir(c.body["cwd"])
	if err == nil {
		err = s.jail.makeWorkdir(dir)
	}
	if err != nil {
		s.sessions.leave(started)
		c.fail(err)
		return
	}
	j, err := s.jobs.start(spec{
		command: started.command, args: started.args, dir: s.jail.workspace.reach(dir),
		env: overlay(s.environ, environment(c.body["env"])),
	}, nil, nil)
	if err != nil {
		s.sessions.leave(started)
		if err == error(codeQuiescing) {
			c.fail(err)
			return
		}
		c.reply(&wire.Refusal{Code: wire.CodeSpawnFailed, Message: err.Error()})
		return
	}
	summary := s.sessions.summary(started) // as it was before anything came
	s.sessions.run(started, j)
	c.reply(&wire.StartReply{OK: true, Session: summary, PID: int64(j.group)})
}

// listSessions answers list-sessions.
func (s *Server) listSessions(c *call) {
	t := &s.sessions
	reply := &wire.ListReply{OK: true, Sessions: []wire.Session{}}
	t.mu.Lock()
	t.pruneLocked()
	for _, s := range t.listLocked(func(s *session) bool { return closed(s.launched)() }) {
		reply.Sessions = append(reply.Sessions, s.summaryLocked())
	}
	t.mu.Unlock()
	c.reply(reply)
}

// killSession answers kill-session.
func (s *Server) killSession(c *call) {
	id, err := c.sessionID()
	if err != nil {
		c.fail(err)
		return
	}
	killed := s.sessions.find(id)
	if killed == nil {
		c.fail(refusal(wire.CodeUnknownSession))
		return
	}
	reply := &wire.KillReply{OK: true}
	if !closed(killed.settled)() {
		signal, _ := c.body["signal"].(string)
		n := 0
		if !closed(killed.reaped)() {
			n = killed.group.killSession(signal, "SIGKILL")
		}
		reply.Signalled = new(int64(n))
		within(s.config.SessionKillTimeout, closed(killed.settled))
	}
	reply.Session = s.sessions.summary(killed)
	c.reply(reply)
}
