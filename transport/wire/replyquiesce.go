package wire

// The scopes of a quiesce.
const (
	ScopeNamespace = "pid-namespace"  // every process of the agent's user
	ScopeOwned     = "owned-sessions" // what the agent itself has started
)

// A QuiesceReply is the reply to quiesce: nothing in its scope runs.
type QuiesceReply struct {
	OK      bool      `json:"ok"`
	Scope   string    `json:"scope"`
	GraceMs int64     `json:"graceMs"`
	Rounds  int64     `json:"rounds"`
	Stopped []Stopped `json:"stopped"`
}

// A Stopped is a process that a quiesce has ended. Command is the kernel's
// short name of it, and Signal the name of the last signal it was sent.
type Stopped struct {
	PID     int64  `json:"pid"`
	Command string `json:"command"`
	Signal  string `json:"signal"`
}

// A FlushReply is the reply to flush: what was written is on the disk that
// holds Workspace.
type FlushReply struct {
	OK         bool   `json:"ok"`
	DurationMs int64  `json:"durationMs"`
	Workspace  string `json:"workspace"`
}

// ParseQuiesce reads the reply to quiesce.
func ParseQuiesce(payload []byte) (QuiesceReply, error) {
	m, err := reply("quiesce reply", payload)
	if err != nil {
		return QuiesceReply{}, err
	}
	r := QuiesceReply{OK: true}
	field(m, "scope", true, &r.Scope)
	m.size("graceMs", true, &r.GraceMs)
	m.size("rounds", true, &r.Rounds)
	var list []any
	field(m, "stopped", true, &list)
	r.Stopped = make([]Stopped, len(list))
	for i, e := range list {
		fields, ok := e.(map[string]any)
		if !ok {
			m.fail("stopped is not a list of objects")
			break
		}
		inner := &message{name: "quiesce reply's process", fields: fields}
		inner.integer("pid", true, &r.Stopped[i].PID)
		field(inner, "command", true, &r.Stopped[i].Command)
		field(inner, "signal", true, &r.Stopped[i].Signal)
		if inner.err != nil && m.err == nil {
			m.err = inner.err
		}
	}
	return r, m.err
}

// ParseFlush reads the reply to flush.
func ParseFlush(payload []byte) (FlushReply, error) {
	m, err := reply("flush reply", payload)
	if err != nil {
		return FlushReply{}, err
	}
	r := FlushReply{OK: true}
	m.size("durationMs", true, &r.DurationMs)
	field(m, "workspace", true, &r.Workspace)
	return r, m.err
}
