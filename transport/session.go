package transport

import (
	"context"
	"errors"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A Session is what a guest tells of a session: a program that outlives its
// connection, whose last output the guest keeps, 1 MiB by default. Times are by
// the guest's clock, and zero where nothing has happened yet.
type Session struct {
	ID         string
	Terminal   bool // it runs on a terminal
	Path       string
	Args       []string
	Started    time.Time
	LastInput  time.Time
	LastOutput time.Time
	NextOffset int64 // where the output ends
	Dropped    int64 // bytes of output that are kept no longer
	Running    bool
	Attached   bool // somebody is attached
	ExitCode   int  // of one that does not run; -1 when Signal ended it
	Signal     int  // number
}

func newSession(s *wire.Session) Session {
	t := Session{
		ID: s.SessionID, Terminal: s.Kind == wire.KindTerminal, Path: s.Command, Args: s.Args,
		Started: millis(s.StartedAt), LastInput: millis(s.LastInputAt), LastOutput: millis(s.LastOutputAt),
		NextOffset: s.NextOffset, Dropped: s.Dropped, Running: s.State == wire.StateRunning, Attached: s.Attached, Signal: s.Signal,
	}
	if s.ExitCode != nil {
		t.ExitCode = *s.ExitCode
	}
	return t
}

func millis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// StartSession starts a program on a terminal that outlives its connection, and
// attaches to it. The id, 1 to 64 letters, digits, dots, underscores and hyphens,
// must not be that of a session that the guest knows, running or not. Closing
// the Terminal detaches; KillSession ends the session.
func (a *Agent) StartSession(ctx context.Context, id string, config TerminalConfig) (*Terminal, error) {
	if err := checkSession(wire.OpTerminal, id); err != nil {
		return nil, err
	}
	body, err := config.body(a.config.Heartbeat)
	if err != nil {
		return nil, err
	}
	body.SessionID, body.Persistent = id, true
	var t *Terminal
	err = a.openLive(ctx, func(dial, life context.Context, end func(), b *binding) error {
		err := a.require(dial, b, wire.OpTerminal, wire.FeatureSessions)
		if err == nil {
			t, err = a.openTerminal(dial, life, end, b, wire.OpTerminal, body, id, 0)
		}
		if err == errOverAtOnce {
			t, err = a.openTerminal(dial, life, end, b, wire.OpAttachSession, wire.AttachSessionBody{SessionID: id}, id, 0)
		}
		return err
	})
	if err != nil {
		return nil, sessionFailure(wire.OpTerminal, id, err)
	}
	return t, nil
}

// AttachSession attaches to a session and displaces whoever is attached. What is
// kept of its output is read from the offset on, see Terminal.Gap, and then what
// comes. A size of 0 by 0 leaves that of the terminal alone.
func (a *Agent) AttachSession(ctx context.Context, id string, from int64, cols, rows int) (*Terminal, error) {
	if err := checkSession(wire.OpAttachSession, id); err != nil {
		return nil, err
	}
	if err := checkFrom(wire.OpAttachSession, id, from); err != nil {
		return nil, err
	}
	if cols != 0 || rows != 0 {
		if err := checkSize(cols, rows); err != nil {
			return nil, err
		}
	}
	body := wire.AttachSessionBody{SessionID: id, FromOffset: from, Cols: cols, Rows: rows, HeartbeatMs: roundMs(a.config.Heartbeat)}
	var t *Terminal
	err := a.openLive(ctx, func(dial, life context.Context, end func(), b *binding) error {
		err := a.require(dial, b, wire.OpAttachSession, wire.FeatureSessions)
		if err == nil {
			t, err = a.openTerminal(dial, life, end, b, wire.OpAttachSession, body, id, from)
		}
		return err
	})
	if err != nil {
		return nil, sessionFailure(wire.OpAttachSession, id, err)
	}
	return t, nil
}

// A Detached is a program that runs as a session without a terminal.
type Detached struct {
	Path string
	Args []string // without the name
	Dir  string   // as in Cmd
	Env  []string // as in Cmd
}

// StartDetached starts a program as a session without a terminal and without
// input, and returns what it is and its process id in the guest.
func (a *Agent) StartDetached(ctx context.Context, id string, program Detached) (Session, int64, error) {
	if err := checkSession(wire.OpStartDetached, id); err != nil {
		return Session{}, 0, err
	}
	if program.Path == "" {
		return Session{}, 0, &SessionError{Op: wire.OpStartDetached, ID: id, Reason: wire.CodeMissingCommand, Text: "no program is named"}
	}
	env, err := programText(program.Path, program.Args, program.Dir, program.Env)
	if err != nil {
		return Session{}, 0, err
	}
	body := wire.StartBody{SessionID: id, Command: program.Path, Args: program.Args, Cwd: program.Dir, Env: env}
	r, err := sessionCall(ctx, a, wire.OpStartDetached, id, body, wire.ParseStart)
	return newSession(&r.Session), r.PID, err
}

// Sessions are the sessions that the guest knows, in the order in which they
// were started. It remembers those that have ended for 10 minutes by default.
func (a *Agent) Sessions(ctx context.Context) ([]Session, error) {
	r, err := sessionCall(ctx, a, wire.OpListSessions, "", nil, wire.ParseList)
	if err != nil {
		return nil, err
	}
	list := make([]Session, len(r.Sessions))
	for i := range list {
		list[i] = newSession(&r.Sessions[i])
	}
	return list, nil
}

// KillSession sends a signal to all processes of a session, SIGTERM, SIGKILL,
// SIGINT or SIGHUP, and waits up to 5 seconds for its end; empty is SIGKILL. A
// session that is Running afterwards has not obeyed, or has left a process
// behind that holds its output.
func (a *Agent) KillSession(ctx context.Context, id, signal string) (Session, error) {
	if err := checkSession(wire.OpKillSession, id); err != nil {
		return Session{}, err
	}
	switch signal {
	case "", "SIGTERM", "SIGKILL", "SIGINT", "SIGHUP":
	default:
		return Session{}, &SessionError{Op: wire.OpKillSession, ID: id, Reason: "invalid_signal", Text: "there are the signals SIGTERM, SIGKILL, SIGINT and SIGHUP"}
	}
	r, err := sessionCall(ctx, a, wire.OpKillSession, id, wire.KillBody{SessionID: id, Signal: signal}, wire.ParseKill)
	return newSession(&r.Session), err
}

// sessionCall carries out a control operation on sessions.
func sessionCall[T any](ctx context.Context, a *Agent, op, id string, body any, parse func([]byte) (T, error)) (reply T, err error) {
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return reply, err
	}
	defer end()
	err = a.rebinding(ctx, func(b *binding) (err error) {
		if err := a.require(ctx, b, op, wire.FeatureSessions); err != nil {
			return err
		}
		reply, err = call(ctx, a, b, op, body, sessionReply, parse)
		return sessionFailure(op, id, err)
	})
	return reply, callerFirst(ctx, err)
}

const sessionReply = 16 << 20 // of 16 sessions, by default, with their arguments

func checkSession(op, id string) error {
	if wire.ValidSessionID(id) {
		return nil
	}
	return &SessionError{Op: op, ID: id, Reason: wire.CodeInvalidSessionID, Text: "a session's id is 1 to 64 letters, digits, dots, underscores and hyphens, the first a letter or digit"}
}

func checkFrom(op, id string, from int64) error {
	if from >= 0 && from <= wire.MaxSafeInteger {
		return nil
	}
	return &SessionError{Op: op, ID: id, Reason: wire.CodeInvalidOffset, Text: "an offset is a number of bytes"}
}

// sessionFailure makes the guest's refusal a *SessionError.
func sessionFailure(op, id string, err error) error {
	if r, ok := errors.AsType[*wire.Refusal](err); ok {
		return &SessionError{Op: op, ID: id, Reason: wire.Code(r.Code), Text: words(r)}
	}
	if id == "" { // all of them
		return err
	}
	return about(id, err)
}
