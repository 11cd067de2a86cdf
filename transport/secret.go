package transport

import (
	"fmt"
	"io"
)

// A Secret is a token. It prints as a redaction with every verb, in every
// logger and as JSON; string(s) is the only way to the text.
type Secret string

const redacted = "[redacted]"

func (s Secret) mask() string {
	if s == "" {
		return ""
	}
	return redacted
}

// String is the redaction, which is empty for an empty Secret.
func (s Secret) String() string { return s.mask() }

// GoString is the redaction.
func (s Secret) GoString() string { return fmt.Sprintf("transport.Secret(%q)", s.mask()) }

// MarshalText is the redaction, in JSON and in the handlers of log/slog, which
// is not imported for it: hosts count bytes.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.mask()), nil }

// Format is the redaction for the verbs that would not ask String, such as %d.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		io.WriteString(f, s.GoString())
		return
	}
	io.WriteString(f, s.mask())
}

// An Endpoint is where a guest listens and the token that it knows. Address and
// token belong together: they change together when a pod is replaced.
type Endpoint struct {
	Host  string
	Port  int
	Token Secret
}
