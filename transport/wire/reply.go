package wire

import "math"

// A Refusal is a reply with ok false: the guest's own words.
type Refusal struct {
	OK      bool   `json:"ok"`
	BootID  string `json:"guestBootId,omitempty"`
	Code    string `json:"error"`
	Message string `json:"message,omitempty"`
}

func (e *Refusal) Error() string {
	if e.Message != "" {
		return "guest refused: " + e.Code + ": " + e.Message
	}
	return "guest refused: " + e.Code
}

// A Health is the reply to healthz. Retiring is true when the guest has fenced
// itself for good because it could not prove that a program has ended.
type Health struct {
	OK              bool     `json:"ok"`
	ProtocolVersion int      `json:"protocolVersion"`
	Features        []string `json:"features"`
	Retiring        bool     `json:"retiring,omitempty"`
}

// A Reservation is the reply to reserve-execution. LeaseExpiresAt is Unix time
// in milliseconds, by the guest's clock. State is empty unless the request
// named the id. OutputOffset is where the output ends that the guest has kept
// of an execution, and nil unless it keeps any.
type Reservation struct {
	OK              bool   `json:"ok"`
	BootID          string `json:"guestBootId,omitempty"`
	ProtocolVersion int    `json:"protocolVersion"`
	ExecutionID     string `json:"executionId"`
	LeaseExpiresAt  int64  `json:"leaseExpiresAt"`
	State           string `json:"state,omitempty"`
	RetainedOutput  bool   `json:"retainedOutput,omitempty"`
	OutputOffset    *int64 `json:"outputOffset,omitempty"`
}

// The outcomes of an execution, and the states of a reservation.
const (
	StateReserved  = "reserved"
	StateStarting  = "starting"
	StateRunning   = "running"
	StateExited    = "exited"
	StateTerminal  = "terminal"
	StateCancelled = "cancelled"
	StateCompleted = "completed"
	StateFailed    = "failed"
)

// A Result is the end of a program. ExitCode is -1 when a signal ended it.
type Result struct {
	Type            string `json:"type,omitempty"`
	ExitCode        int    `json:"exitCode"`
	TimedOut        bool   `json:"timedOut"`
	DurationMs      int64  `json:"durationMs"`
	Signal          string `json:"signal,omitempty"`
	StdoutTruncated bool   `json:"stdoutTruncated"`
	StderrTruncated bool   `json:"stderrTruncated"`
}

// A Cancellation is the reply to cancel-execution: the execution has ended and
// its process group is gone.
type Cancellation struct {
	OK      bool    `json:"ok"`
	BootID  string  `json:"guestBootId,omitempty"`
	State   string  `json:"state"` // StateCancelled, StateCompleted or StateFailed
	Started bool    `json:"started"`
	Result  *Result `json:"result,omitempty"`
	Error   string  `json:"error,omitempty"` // text of a failed start
}

// A ReadReply is the reply to read-file. Offset and BytesRead are there for
// ranges only; SizeBytes is always that of the whole file.
type ReadReply struct {
	OK        bool   `json:"ok"`
	BootID    string `json:"guestBootId,omitempty"`
	Content   string `json:"content"`
	SizeBytes int64  `json:"sizeBytes"`
	Encoding  string `json:"encoding"`
	Offset    *int64 `json:"offset,omitempty"`
	BytesRead *int64 `json:"bytesRead,omitempty"`
}

// A WriteReply is the reply to write-file. SizeBytes, there for parts only, is
// the size of the temporary file after the part.
type WriteReply struct {
	OK           bool   `json:"ok"`
	BootID       string `json:"guestBootId,omitempty"`
	BytesWritten int64  `json:"bytesWritten"`
	SizeBytes    *int64 `json:"sizeBytes,omitempty"`
}

// A DiscardReply is the reply to a write-file part that discards.
type DiscardReply struct {
	OK        bool `json:"ok"`
	Discarded bool `json:"discarded"`
}

// reply parses a control reply and turns ok:false into a *Refusal.
func reply(name string, payload []byte) (*message, error) {
	m := parse(name, payload)
	var ok bool
	field(m, "ok", true, &ok)
	if m.err != nil {
		return m, m.err
	}
	if !ok {
		r := &Refusal{}
		field(m, "error", true, &r.Code)
		field(m, "message", false, &r.Message)
		field(m, "guestBootId", false, &r.BootID)
		if m.err != nil {
			return m, m.err
		}
		return m, r
	}
	return m, nil
}

// ParseHealth reads the reply to healthz. A guest that has fenced itself
// answers ok false with Retiring true, which is no error here.
func ParseHealth(payload []byte) (Health, error) {
	h := Health{}
	m := parse("healthz reply", payload)
	field(m, "ok", true, &h.OK)
	field(m, "retiring", false, &h.Retiring)
	if m.err == nil && !h.OK && !h.Retiring {
		_, err := reply("healthz reply", payload)
		return Health{}, err
	}
	var version int64
	m.integer("protocolVersion", true, &version)
	m.texts("features", &h.Features)
	h.ProtocolVersion = int(version)
	if m.err == nil && version != ProtocolVersion {
		m.fail("protocol version %d, want %d", version, ProtocolVersion)
	}
	return h, m.err
}

// ParseReservation reads the reply to reserve-execution.
func ParseReservation(payload []byte) (Reservation, error) {
	m, err := reply("reserve-execution reply", payload)
	if err != nil {
		return Reservation{}, err
	}
	r := Reservation{OK: true}
	var version int64
	m.integer("protocolVersion", true, &version)
	m.integer("leaseExpiresAt", true, &r.LeaseExpiresAt)
	field(m, "executionId", true, &r.ExecutionID)
	field(m, "guestBootId", false, &r.BootID)
	field(m, "state", false, &r.State)
	field(m, "retainedOutput", false, &r.RetainedOutput)
	var offset int64
	if m.size("outputOffset", false, &offset) {
		r.OutputOffset = new(offset)
	}
	r.ProtocolVersion = int(version)
	if m.err == nil && version != ProtocolVersion {
		m.fail("protocol version %d, want %d", version, ProtocolVersion)
	}
	if m.err == nil && !ValidExecutionID(r.ExecutionID) {
		m.fail("executionId %.80q is no execution id", r.ExecutionID)
	}
	return r, m.err
}

func (m *message) result(r *Result) {
	var code int64
	m.integer("exitCode", true, &code)
	m.integer("durationMs", true, &r.DurationMs)
	field(m, "timedOut", true, &r.TimedOut)
	field(m, "signal", false, &r.Signal)
	field(m, "stdoutTruncated", false, &r.StdoutTruncated)
	field(m, "stderrTruncated", false, &r.StderrTruncated)
	if code < math.MinInt32 || code > math.MaxInt32 {
		m.fail("exitCode %d is out of range", code)
	}
	r.ExitCode = int(code)
}

// ParseCancellation reads the reply to cancel-execution.
func ParseCancellation(payload []byte) (Cancellation, error) {
	m, err := reply("cancel-execution reply", payload)
	if err != nil {
		return Cancellation{}, err
	}
	c := Cancellation{OK: true}
	field(m, "state", true, &c.State)
	field(m, "started", true, &c.Started)
	field(m, "error", false, &c.Error)
	field(m, "guestBootId", false, &c.BootID)
	c.Result = m.nestedResult()
	switch c.State {
	case StateCancelled, StateCompleted, StateFailed:
	default:
		m.fail("state %.40q", c.State)
	}
	return c, m.err
}

// ParseRead reads the reply to read-file.
func ParseRead(payload []byte) (ReadReply, error) {
	m, err := reply("read-file reply", payload)
	if err != nil {
		return ReadReply{}, err
	}
	r := ReadReply{OK: true}
	field(m, "content", true, &r.Content)
	m.size("sizeBytes", true, &r.SizeBytes)
	field(m, "encoding", false, &r.Encoding)
	field(m, "guestBootId", false, &r.BootID)
	var n int64
	if m.size("offset", false, &n) {
		r.Offset = new(n)
	}
	if m.size("bytesRead", false, &n) {
		r.BytesRead = new(n)
	}
	return r, m.err
}

// ParseDiscard reads the reply to a write-file part that discards.
func ParseDiscard(payload []byte) (DiscardReply, error) {
	m, err := reply("write-file reply", payload)
	if err != nil {
		return DiscardReply{}, err
	}
	d := DiscardReply{OK: true}
	field(m, "discarded", true, &d.Discarded)
	return d, m.err
}

// ParseWrite reads the reply to write-file.
func ParseWrite(payload []byte) (WriteReply, error) {
	m, err := reply("write-file reply", payload)
	if err != nil {
		return WriteReply{}, err
	}
	w := WriteReply{OK: true}
	m.size("bytesWritten", true, &w.BytesWritten)
	field(m, "guestBootId", false, &w.BootID)
	var n int64
	if m.size("sizeBytes", false, &n) {
		w.SizeBytes = new(n)
	}
	return w, m.err
}
