package acquire

import (
	"context"
	"net"

	"github.com/sandlot-go/sandlot/transport"
)

// OpenTerminal starts a program on a terminal of its own, which ends with its
// connection. An empty Dir is that of Options. ctx bounds the start only.
func (s *Sandbox) OpenTerminal(ctx context.Context, config transport.TerminalConfig) (*transport.Terminal, error) {
	return during(s, "open a terminal", func() (*transport.Terminal, error) {
		return s.agent.OpenTerminal(ctx, s.placed(config))
	})
}

// StartSession starts a program on a terminal that outlives its connection, and
// attaches to it; see transport.Agent.StartSession. An empty Dir is that of
// Options.
func (s *Sandbox) StartSession(ctx context.Context, id string, config transport.TerminalConfig) (*transport.Terminal, error) {
	return during(s, "start a session", func() (*transport.Terminal, error) {
		return s.agent.StartSession(ctx, id, s.placed(config))
	})
}

func (s *Sandbox) placed(config transport.TerminalConfig) transport.TerminalConfig {
	if config.Dir == "" {
		config.Dir = s.dir
	}
	return config
}

// AttachSession attaches to a session, displaces whoever is attached, and reads
// its output from the offset on. A size of 0 by 0 leaves that of the terminal.
func (s *Sandbox) AttachSession(ctx context.Context, id string, from int64, cols, rows int) (*transport.Terminal, error) {
	return during(s, "attach to a session", func() (*transport.Terminal, error) {
		return s.agent.AttachSession(ctx, id, from, cols, rows)
	})
}

// StartDetached starts a program as a session without a terminal and without
// input, and returns what it is and its process id in the guest. An empty Dir is
// that of Options.
func (s *Sandbox) StartDetached(ctx context.Context, id string, program transport.Detached) (transport.Session, int64, error) {
	if program.Dir == "" {
		program.Dir = s.dir
	}
	var pid int64
	session, err := during(s, "start a session", func() (session transport.Session, err error) {
		session, pid, err = s.agent.StartDetached(ctx, id, program)
		return session, err
	})
	return session, pid, err
}

// Sessions are the sessions that the guest knows, those that ended of late too.
func (s *Sandbox) Sessions(ctx context.Context) ([]transport.Session, error) {
	return during(s, "list sessions", func() ([]transport.Session, error) { return s.agent.Sessions(ctx) })
}

// ReadSession returns what the guest keeps of a session's output from the offset
// on, and displaces nobody.
func (s *Sandbox) ReadSession(ctx context.Context, id string, from int64) (transport.SessionOutput, error) {
	return during(s, "read a session", func() (transport.SessionOutput, error) { return s.agent.ReadSession(ctx, id, from) })
}

// KillSession sends a signal to all processes of a session and waits up to 5
// seconds for its end; empty is SIGKILL.
func (s *Sandbox) KillSession(ctx context.Context, id, signal string) (transport.Session, error) {
	return during(s, "kill a session", func() (transport.Session, error) { return s.agent.KillSession(ctx, id, signal) })
}

// Attach follows a program whose output the guest keeps, see
// transport.Cmd.Retain, from an offset of its output on.
func (s *Sandbox) Attach(ctx context.Context, id string, from int64) *transport.Attachment {
	return s.agent.Attach(ctx, id, from)
}

// CancelExecution ends a program whose output the guest keeps, whoever started
// it, and returns how it ended.
func (s *Sandbox) CancelExecution(ctx context.Context, id string) (transport.Outcome, error) {
	return during(s, "cancel a program", func() (transport.Outcome, error) { return s.agent.CancelExecution(ctx, id) })
}

// DialGuest connects to a port that something in the sandbox listens on at
// 127.0.0.1; see transport.GuestConn. ctx bounds that and not the connection.
func (s *Sandbox) DialGuest(ctx context.Context, port int) (net.Conn, error) {
	return during(s, "connect to a port", func() (net.Conn, error) { return s.agent.DialGuest(ctx, port) })
}
