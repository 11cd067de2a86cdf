package wire

// ProtocolVersion is the only version there is; both sides insist on it.
const ProtocolVersion = 2

// The operations.
const (
	OpHealth         = "healthz"
	OpReserve        = "reserve-execution"
	OpExecute        = "execute"
	OpCancel         = "cancel-execution"
	OpReadFile       = "read-file"
	OpReadFileStream = "read-file-stream"
	OpWriteFile      = "write-file"

	OpAttachExecution = "attach-execution"
	OpTerminal        = "terminal"
	OpAttachSession   = "attach-session"
	OpStartDetached   = "start-detached"
	OpListSessions    = "list-sessions"
	OpKillSession     = "kill-session"
	OpQuiesce         = "quiesce"
	OpFlush           = "flush"
	OpConnect         = "tcp-connect"
)

// The features that a guest can announce in its health reply. A host must not
// send the shape that a feature stands for to a guest that does not list it.
const (
	FeatureWriteParts = "write-file-parts" // Part in a write-file body
	FeatureReadStream = "read-file-stream" // ranges of read-file, and the read-file-stream op
	FeatureBootID     = "guest-boot-id"    // guestBootId in authenticated replies
	FeatureAttach     = "execution-attach" // ids of the caller's choice, RetainOutput, the attach-execution op
	FeatureHeartbeat  = "stream-heartbeat" // for information: a stream's own echo arms its heartbeat
	FeatureSessions   = "sessions"         // persistent terminals and the four ops of sessions
	FeatureQuiesce    = "quiesce"          // the quiesce op
	FeatureFlush      = "flush"            // the flush op

	// FeatureSafeStdin is this project's own: the guest's promise that a program
	// which ends or closes its stdin early does the guest no harm. The reference
	// agent makes none; it dies of the unhandled EPIPE.
	FeatureSafeStdin = "safe-stdin"
)

// Error codes that a peer compares. Where a code is followed by a colon and a
// text, the code is the part before the colon.
const (
	CodeUnauthorized         = "unauthorized"
	CodeRetiring             = "agent_retiring"
	CodeUnknownOp            = "unknown_op"
	CodeFrameTooLarge        = "frame_too_large"
	CodeTooManyConnections   = "too_many_unauthenticated_connections"
	CodePreauthBuffer        = "preauth_buffer_exhausted"
	CodeInvalidExecutionID   = "invalid_execution_id"
	CodeUnknownExecution     = "unknown_execution"
	CodeExecutionNotReserved = "execution_not_reserved"
	CodeExecutionCapacity    = "execution_capacity"
	CodeExecutionCancelled   = "execution_cancelled"
	CodeCancelUnconfirmed    = "cancellation_unconfirmed"
	CodeRetainCapacity       = "retained_output_capacity"
	CodeRetainNeedsID        = "retain_requires_execution_id"
	CodeNotRetained          = "output_not_retained"
	CodeInvalidOffset        = "invalid_offset"
	CodeMissingCommand       = "missing_command"
	CodeInvalidSessionID     = "invalid_session_id"
	CodeUnknownSession       = "unknown_session"
	CodeSessionExists        = "session_exists"
	CodeSessionCapacity      = "session_capacity"
	CodeSpawnFailed          = "spawn_failed"
	CodeNoTerminalOptions    = "missing_terminal_options"
	CodeQuiescing            = "quiesce_in_progress"
	CodeQuiesceGrace         = "quiesce_invalid_grace"
	CodeQuiesceUnconfirmed   = "quiesce_unconfirmed"
	CodeQuiesceUnsupported   = "quiesce_unsupported_platform"
	CodeFlushTimeout         = "flush_invalid_timeout"
	CodeFlushUnconfirmed     = "flush_unconfirmed"
	CodeFlushUnsupported     = "flush_unsupported"
	CodeInvalidTarget        = "invalid_loopback_target"
)

// Limits of the protocol's reference guest, in bytes.
const (
	MaxFrame       = 256 << 20 // any frame, once a connection is authenticated
	MaxFirstFrame  = 8 << 20   // the first frame of a connection, which is every request
	MaxReadRange   = 1 << 20   // one ranged read-file
	ReadChunk      = 256 << 10 // raw bytes in one data frame of read-file-stream
	MaxSafeInteger = 1<<53 - 1 // the largest number that both sides can hold exactly

	MaxTunnelData    = 8 << 20 // decoded bytes of one data frame of tcp-connect; larger ones are dropped
	MaxTerminalCells = 1000    // columns, and rows
)

// TempPrefix and TempSuffix enclose the names of files that a write leaves
// behind when it is broken off; only files of such names can be discarded.
const (
	TempPrefix = ".namzu-write-"
	TempSuffix = ".part"
)

// ValidExecutionID reports whether id is "exec_" and a UUID of version 1 to 5,
// in either case.
func ValidExecutionID(id string) bool {
	const pattern = "exec_xxxxxxxx-xxxx-Vxxx-Nxxx-xxxxxxxxxxxx"
	if len(id) != len(pattern) {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		hex := '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
		ok := c == pattern[i]
		switch pattern[i] {
		case 'x':
			ok = i >= len("exec_") && hex || c == 'x' && i < len("exec_")
		case 'V':
			ok = '1' <= c && c <= '5'
		case 'N':
			ok = c == '8' || c == '9' || c == 'a' || c == 'b'
		}
		if !ok {
			return false
		}
	}
	return true
}

// ValidSessionID reports whether id is 1 to 64 letters, digits, dots,
// underscores and hyphens, the first of them a letter or digit.
func ValidSessionID(id string) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !plain && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// Code is the part of an error text that a peer compares: all up to the first
// colon.
func Code(text string) string {
	for i := range len(text) {
		if text[i] == ':' {
			return text[:i]
		}
	}
	return text
}
