package wire

// An AttachBody is the body of attach-execution.
type AttachBody struct {
	ExecutionID string
	FromOffset  int64
}

// A TerminalBody is the body of terminal. An empty Command is the guest's
// default, a shell. With Persistent the program belongs to the session of that
// id instead of to the connection.
type TerminalBody struct {
	Cols, Rows  int
	Command     string
	Args        []string
	Cwd         string
	Env         map[string]string
	HeartbeatMs int64
	SessionID   string
	Persistent  bool
}

// An AttachSessionBody is the body of attach-session. With Once the guest sends
// what it has kept and ends; nobody is displaced.
type AttachSessionBody struct {
	SessionID   string
	FromOffset  int64
	Once        bool
	Cols, Rows  int // both or neither
	HeartbeatMs int64
}

// A StartBody is the body of start-detached.
type StartBody struct {
	SessionID string
	Command   string
	Args      []string
	Cwd       string
	Env       map[string]string
}

// A KillBody is the body of kill-session.
type KillBody struct {
	SessionID string
	Signal    string
}

// A ConnectBody is the body of tcp-connect. An empty Host is 127.0.0.1.
type ConnectBody struct {
	Host        string
	Port        int
	HeartbeatMs int64
}

// A QuiesceBody is the body of quiesce.
type QuiesceBody struct {
	GraceMs int64
}

// A FlushBody is the body of flush.
type FlushBody struct {
	TimeoutMs int64
}

var (
	_ body = AttachBody{}
	_ body = TerminalBody{}
	_ body = AttachSessionBody{}
	_ body = StartBody{}
	_ body = KillBody{}
	_ body = ConnectBody{}
	_ body = QuiesceBody{}
	_ body = FlushBody{}
)

func (b AttachBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.text("executionId", b.ExecutionID)
	o.number("fromOffset", b.FromOffset)
	return append(o.dst, '}')
}

func (b TerminalBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.number("cols", int64(b.Cols))
	o.number("rows", int64(b.Rows))
	o.textIf("command", b.Command)
	if len(b.Args) > 0 {
		o.texts("args", b.Args)
	}
	o.textIf("cwd", b.Cwd)
	o.environ(b.Env)
	o.numberIf("heartbeatMs", b.HeartbeatMs)
	o.textIf("sessionId", b.SessionID)
	if b.Persistent {
		o.flag("persistent", true)
	}
	return append(o.dst, '}')
}

func (b AttachSessionBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.text("sessionId", b.SessionID)
	o.number("fromOffset", b.FromOffset)
	if b.Once {
		o.flag("follow", false)
	}
	o.numberIf("cols", int64(b.Cols))
	o.numberIf("rows", int64(b.Rows))
	o.numberIf("heartbeatMs", b.HeartbeatMs)
	return append(o.dst, '}')
}

func (b StartBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.text("sessionId", b.SessionID)
	o.text("command", b.Command)
	if len(b.Args) > 0 {
		o.texts("args", b.Args)
	}
	o.textIf("cwd", b.Cwd)
	o.environ(b.Env)
	return append(o.dst, '}')
}

func (b KillBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.text("sessionId", b.SessionID)
	o.textIf("signal", b.Signal)
	return append(o.dst, '}')
}

func (b ConnectBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.textIf("host", b.Host)
	o.number("port", int64(b.Port))
	o.numberIf("heartbeatMs", b.HeartbeatMs)
	return append(o.dst, '}')
}

func (b QuiesceBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.numberIf("graceMs", b.GraceMs)
	return append(o.dst, '}')
}

func (b FlushBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.numberIf("timeoutMs", b.TimeoutMs)
	return append(o.dst, '}')
}
