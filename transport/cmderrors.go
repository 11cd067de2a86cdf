package transport

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A Result is the end of a program as the guest reports it.
type Result struct {
	ExitCode        int    // -1 when a signal ended the program
	Signal          string // such as "SIGKILL"; empty when no signal ended it
	TimedOut        bool   // Timeout had passed
	Duration        time.Duration
	StdoutTruncated bool // output beyond MaxOutput was dropped by the guest
	StderrTruncated bool
}

func newResult(r *wire.Result) *Result {
	if r == nil {
		return nil
	}
	return &Result{
		ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, Duration: time.Duration(r.DurationMs) * time.Millisecond,
		StdoutTruncated: r.StdoutTruncated, StderrTruncated: r.StderrTruncated,
	}
}

func (r *Result) success() bool { return r.ExitCode == 0 && r.Signal == "" && !r.TimedOut }

// String is such as "exit status 3" or "killed by SIGTERM".
func (r *Result) String() string {
	if r.Signal != "" {
		return "killed by " + r.Signal
	}
	return fmt.Sprintf("exit status %d", r.ExitCode)
}

// An ExitError reports a program that ran to its end, or to its Timeout, and
// did not succeed. All of its output was delivered.
type ExitError struct {
	Result
	// Stderr is the beginning and the end of standard error, when Output ran
	// the program and nothing else collected it.
	Stderr []byte

	name    string
	timeout time.Duration
}

func (e *ExitError) Error() string {
	if e.TimedOut {
		after := ""
		if e.timeout > 0 {
			after = " after " + e.timeout.String()
		}
		return "transport: " + e.name + ": timed out" + after + " (" + e.Result.String() + ")"
	}
	return fmt.Sprintf("transport: %s: %s", e.name, e.Result.String())
}

// A StartError reports a program that did not start: the guest refused it or
// could not start it, or what precedes the start failed. Nothing of it ran. It
// matches fs.ErrNotExist and fs.ErrPermission when the guest said so.
type StartError struct {
	Name string
	Code string // of Text, up to the first colon
	Text string // the guest's words; empty when it is Err that says why
	Err  error
}

func newStartError(name, text string) *StartError {
	return &StartError{Name: name, Code: wire.Code(text), Text: text}
}

func (e *StartError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("transport: %s was not started: %s", e.Name, e.Text)
	}
	return fmt.Sprintf("transport: %s was not started: %v", e.Name, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// Is reports whether target is the fs error of the same meaning.
func (e *StartError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return strings.HasSuffix(e.Text, " ENOENT")
	case fs.ErrPermission:
		return strings.HasSuffix(e.Text, " EACCES")
	}
	return false
}

// A StoppedError reports a program that was ended from here, because its
// context ended or its output could not be written, and whose end is confirmed.
// All output that it made before was delivered or could not be written.
type StoppedError struct {
	Name   string
	Cause  error   // the context's cause, or the writer's error
	Result *Result // nil when it had not started
}

func (e *StoppedError) Error() string {
	if e.Result == nil {
		return fmt.Sprintf("transport: %s was not started: %v", e.Name, e.Cause)
	}
	return fmt.Sprintf("transport: %s was ended: %v (%s)", e.Name, e.Cause, e.Result)
}

func (e *StoppedError) Unwrap() error { return e.Cause }

// A CancelError reports a program that had to be ended from here and of which
// neither a result nor the confirmed end came in time. It may still run.
type CancelError struct {
	Name  string
	Cause error // why it had to be ended
	Err   error // of the last attempt

	// Retiring is set when the guest said that it has fenced itself, which it
	// does when it cannot prove a program's end. Only a new pod helps.
	Retiring bool
	// Restarted is set when the guest is another process than the one that took
	// the program, and does not know it. A guest whose container was restarted
	// has taken its programs with it.
	Restarted bool
}

func (e *CancelError) Error() string {
	s := fmt.Sprintf("transport: %s may still run: it had to be ended (%v), which could not be confirmed: %v", e.Name, e.Cause, e.Err)
	switch {
	case e.Retiring:
		s += "; the guest has fenced itself, replace the sandbox"
	case e.Restarted:
		s += "; the guest was restarted in between"
	}
	return s
}

func (e *CancelError) Unwrap() []error { return causes(e.Cause, e.Err) }
