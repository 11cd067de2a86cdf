package wire

// The kinds of a session.
const (
	KindTerminal = "terminal"
	KindDetached = "detached"
)

// A Session is what a guest tells of a session. Times are Unix time in
// milliseconds by the guest's clock, zero where nothing has happened yet.
// ExitCode is nil unless State is StateExited.
type Session struct {
	SessionID    string   `json:"sessionId"`
	Kind         string   `json:"kind"`
	Command      string   `json:"command"`
	Args         []string `json:"args"`
	StartedAt    int64    `json:"startedAt"`
	LastInputAt  int64    `json:"lastInputAt,omitempty"`
	LastOutputAt int64    `json:"lastOutputAt,omitempty"`
	NextOffset   int64    `json:"nextOffset"`
	Dropped      int64    `json:"droppedBytes"`
	State        string   `json:"state"`
	Attached     bool     `json:"attached"`
	ExitCode     *int     `json:"exitCode,omitempty"`
	Signal       int      `json:"signal,omitempty"`
}

// A StartReply is the reply to start-detached.
type StartReply struct {
	OK bool `json:"ok"`
	Session
	PID int64 `json:"pid"`
}

// A ListReply is the reply to list-sessions, in the order of creation.
type ListReply struct {
	OK       bool      `json:"ok"`
	Sessions []Session `json:"sessions"`
}

// A KillReply is the reply to kill-session. Signalled, how many processes were
// reached, is nil when the session had exited before.
type KillReply struct {
	OK bool `json:"ok"`
	Session
	Signalled *int64 `json:"signalled,omitempty"`
}

// ParseStart reads the reply to start-detached.
func ParseStart(payload []byte) (StartReply, error) {
	m, err := reply("start-detached reply", payload)
	if err != nil {
		return StartReply{}, err
	}
	r := StartReply{OK: true}
	m.session(&r.Session)
	m.integer("pid", true, &r.PID)
	return r, m.err
}

// ParseList reads the reply to list-sessions.
func ParseList(payload []byte) (ListReply, error) {
	m, err := reply("list-sessions reply", payload)
	if err != nil {
		return ListReply{}, err
	}
	var list []any
	field(m, "sessions", true, &list)
	r := ListReply{OK: true, Sessions: make([]Session, len(list))}
	for i, e := range list {
		fields, ok := e.(map[string]any)
		if !ok {
			m.fail("sessions is not a list of objects")
			break
		}
		inner := &message{name: "list-sessions reply's session", fields: fields}
		if inner.session(&r.Sessions[i]); inner.err != nil && m.err == nil {
			m.err = inner.err
		}
	}
	return r, m.err
}

// ParseKill reads the reply to kill-session.
func ParseKill(payload []byte) (KillReply, error) {
	m, err := reply("kill-session reply", payload)
	if err != nil {
		return KillReply{}, err
	}
	r := KillReply{OK: true}
	m.session(&r.Session)
	var n int64
	if m.size("signalled", false, &n) {
		r.Signalled = new(n)
	}
	return r, m.err
}

func (m *message) session(s *Session) {
	field(m, "sessionId", true, &s.SessionID)
	field(m, "kind", true, &s.Kind)
	field(m, "command", true, &s.Command)
	m.texts("args", &s.Args)
	m.integer("startedAt", true, &s.StartedAt)
	m.integer("lastInputAt", false, &s.LastInputAt)
	m.integer("lastOutputAt", false, &s.LastOutputAt)
	m.size("nextOffset", true, &s.NextOffset)
	m.size("droppedBytes", true, &s.Dropped)
	field(m, "state", true, &s.State)
	field(m, "attached", true, &s.Attached)
	var code int
	if m.exit(s.State == StateExited, &code, &s.Signal) {
		s.ExitCode = new(code)
	}
	if m.err == nil && !ValidSessionID(s.SessionID) {
		m.fail("sessionId %.80q is no session id", s.SessionID)
	}
	if m.err == nil && s.State != StateRunning && s.State != StateExited {
		m.fail("state %.40q", s.State)
	}
}
