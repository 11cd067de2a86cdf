package probe

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Reason says in which of three ways a probe refused.
type Reason string

const (
	// ReasonFailed: the probe's program did not run or did not end well.
	// Nothing is known about privileges.
	ReasonFailed Reason = "probe-failed"
	// ReasonUnreadable: it ran, and what it printed is not what a kernel
	// prints. Nothing is known about privileges.
	ReasonUnreadable Reason = "unreadable-output"
	// ReasonPrivileged: the guest holds privileges, or can gain them.
	ReasonPrivileged Reason = "privileged"
)

// An Error is a probe's refusal.
type Error struct {
	Sandbox   string   // "" when the text did not come from a sandbox
	Reason    Reason   //
	Command   string   // what the guest was asked to run, as a person types it
	Detail    string   // what was wrong with it; the guest's own words are quoted and clipped
	Offenders []string // ReasonPrivileged: each as Name=value
	Err       error    // what the exec function reported, or the cause of the deadline
}

func (e *Error) Error() string {
	at := ""
	if e.Sandbox != "" {
		at = fmt.Sprintf(" in sandbox %s", e.Sandbox)
	}
	switch e.Reason {
	case ReasonPrivileged:
		who := "the guest"
		if e.Sandbox != "" {
			who = "sandbox " + e.Sandbox
		}
		return fmt.Sprintf("probe: %s is PRIVILEGED: %s; drop ALL capabilities and forbid privilege escalation in the template's securityContext",
			who, strings.Join(e.Offenders, ", "))
	case ReasonUnreadable:
		return fmt.Sprintf("probe: the output of %q%s is unreadable: %s; nothing is known about privileges",
			e.Command, at, e.Detail)
	}
	text := fmt.Sprintf("probe: could not run %q%s: %s", e.Command, at, e.Detail)
	return text + "; this is a diagnostic failure, not a privilege failure"
}

func (e *Error) Unwrap() error { return e.Err }

// maxQuote bounds what a message repeats of the guest's own words.
const maxQuote = 40

// quote makes text of the guest safe for a log line: clipped, then escaped.
func quote(text string) string {
	text = strings.TrimSpace(text)
	if utf8.RuneCountInString(text) <= maxQuote {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q…", string([]rune(text[:min(len(text), maxQuote*utf8.UTFMax)])[:maxQuote]))
}

func unreadable(format string, args ...any) *Error {
	return &Error{Reason: ReasonUnreadable, Command: statusCommand, Detail: fmt.Sprintf(format, args...)}
}
