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
)

// The features that a guest can announce in its health reply. A host must not
// send the shape that a feature stands for to a guest that does not list it.
const (
	FeatureWriteParts = "write-file-parts" // Part in a write-file body
	FeatureReadStream = "read-file-stream" // ranges of read-file, and the read-file-stream op
	FeatureBootID     = "guest-boot-id"    // guestBootId in authenticated replies

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
	CodeInvalidExecutionID   = "invalid_execution_id"
	CodeUnknownExecution     = "unknown_execution"
	CodeExecutionNotReserved = "execution_not_reserved"
	CodeExecutionCapacity    = "execution_capacity"
	CodeExecutionCancelled   = "execution_cancelled"
	CodeCancelUnconfirmed    = "cancellation_unconfirmed"
)

// Limits of the protocol's reference guest, in bytes.
const (
	MaxFrame       = 256 << 20 // any frame, once a connection is authenticated
	MaxFirstFrame  = 8 << 20   // the first frame of a connection, which is every request
	MaxReadRange   = 1 << 20   // one ranged read-file
	ReadChunk      = 256 << 10 // raw bytes in one data frame of read-file-stream
	MaxSafeInteger = 1<<53 - 1 // the largest number that both sides can hold exactly
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
