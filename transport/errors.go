package transport

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// ErrClosed is the cause of calls that Close ended and the error of those that
// came after it.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "transport: the agent is closed" }
func (closedError) Unwrap() error { return net.ErrClosed }

// An abortError is the cause of calls that Abort ended.
type abortError struct{ cause error }

func (e *abortError) Error() string   { return e.cause.Error() }
func (e *abortError) Unwrap() []error { return []error{e.cause, ErrClosed} }

// A DialError reports that no connection was made. Nothing was sent.
type DialError struct {
	Op       string
	Addr     string // "tcp:host:port"
	Attempts int
	Elapsed  time.Duration
	Err      error // of the last attempt
}

func (e *DialError) Error() string {
	s := fmt.Sprintf("transport: %s: no connection to %s within %v (%d attempts): %v", e.Op, e.Addr, e.Elapsed.Round(time.Millisecond), e.Attempts, e.Err)
	if timedOut(e.Err) {
		s += "; a pod that is gone looks like this, and so does a NetworkPolicy that does not let this host in"
	}
	return s
}

func (e *DialError) Unwrap() error { return e.Err }

func timedOut(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// An UnresolvableError reports that the guest's name does not resolve where
// this host runs. Nothing was sent.
type UnresolvableError struct {
	Op   string
	Host string
	Err  error
}

func (e *UnresolvableError) Error() string {
	return fmt.Sprintf("transport: %s: the name %s does not resolve here: %v; a host outside the cluster's DNS has to use the pod's IP as the address (address mode pod-ip)", e.Op, e.Host, e.Err)
}

func (e *UnresolvableError) Unwrap() error { return e.Err }

// An UnauthorizedError reports that the guest refused the token. The operation
// had no effect.
type UnauthorizedError struct {
	Op   string
	Addr string
}

func (e *UnauthorizedError) Error() string {
	return fmt.Sprintf("transport: %s: the guest at %s refused the token; it is another pod than the one the token is from", e.Op, e.Addr)
}

// A RetiringError reports that the guest takes no more work because it could
// not prove that a program had ended. The operation had no effect. Only a new
// pod helps.
type RetiringError struct {
	Op   string
	Addr string
}

func (e *RetiringError) Error() string {
	return fmt.Sprintf("transport: %s: the guest at %s has fenced itself after a program whose end it could not prove; replace the sandbox", e.Op, e.Addr)
}

// A ProtocolError reports a peer that did not keep to the protocol. What the
// operation did is not known.
type ProtocolError struct {
	Op  string
	Err error
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("transport: %s: the peer broke the protocol: %v", e.Op, e.Err)
}

func (e *ProtocolError) Unwrap() error { return e.Err }

// A TooLargeError reports something that exceeds a limit of this side. Nothing
// was sent, or what was sent has been discarded again.
type TooLargeError struct {
	What  string
	Size  int64 // bytes; zero when only known to be more than Limit
	Limit int64 // bytes
}

func (e *TooLargeError) Error() string {
	if e.Size == 0 {
		return fmt.Sprintf("transport: %s is larger than the limit of %d bytes", e.What, e.Limit)
	}
	return fmt.Sprintf("transport: %s has %d bytes, the limit is %d", e.What, e.Size, e.Limit)
}

// An UnsupportedError reports that the guest does not announce a feature that
// the operation needs. Nothing was sent.
type UnsupportedError struct {
	Op      string
	Feature string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("transport: %s: the guest does not announce the feature %s; use a newer guest image", e.Op, e.Feature)
}

// A FileError is the guest's answer to a file operation that failed. It matches
// fs.ErrNotExist, fs.ErrExist and fs.ErrPermission by its Code.
type FileError struct {
	Op   string
	Path string
	Code string // of Text, up to the first colon
	Text string // the guest's words
}

func newFileError(op, path, text string) *FileError {
	return &FileError{Op: op, Path: path, Code: wire.Code(text), Text: text}
}

func (e *FileError) Error() string {
	return fmt.Sprintf("transport: %s %s: %s", e.Op, e.Path, e.Text)
}

// Is reports whether target is the fs error of the same meaning.
func (e *FileError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Code == "ENOENT"
	case fs.ErrExist:
		return e.Code == "EEXIST"
	case fs.ErrPermission:
		return e.Code == "EACCES" || e.Code == "EPERM"
	}
	return false
}

// A LostError reports that the answer to an operation never came. Nothing is
// known of its effect, except: when Sent is false the request did not get out
// whole and had none; when Confirmed is true it was a program, and that has
// ended. Output that was delivered is not all of it.
type LostError struct {
	Op        string
	Sent      bool
	Confirmed bool
	Result    *Result // what the guest said of the program's end, when asked
	Cause     error   // why the program was ended from here; nil when it was not
	Err       error   // what became of the answer
}

func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "transport: %s: the answer was lost: %v", e.Op, e.Err)
	if e.Cause != nil {
		fmt.Fprintf(&b, " (after %v)", e.Cause)
	}
	switch {
	case e.Confirmed:
		b.WriteString("; the program has ended, its output is not complete")
	case !e.Sent:
		b.WriteString("; the request did not get out whole and had no effect")
	}
	return b.String()
}

func (e *LostError) Unwrap() []error { return causes(e.Cause, e.Err) }

// about adds to a failure that names no more than its operation what that was
// about, once.
func about(object string, err error) error {
	switch e := err.(type) {
	case *LostError:
		e.Op += " " + object
	case *ProtocolError:
		e.Op += " " + object
	}
	return err
}

func causes(errs ...error) []error {
	var out []error
	for _, err := range errs {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// SafeToRetry reports whether what failed with err certainly had no effect, so
// that doing it again cannot do it twice. What an error of this package wraps
// does not count: the outermost knows best.
func SafeToRetry(err error) bool {
	switch e := err.(type) {
	case *DialError, *UnresolvableError, *UnauthorizedError, *RetiringError, *UnsupportedError, *RefusedError, *TooLargeError, *StartError:
		return true
	case *LostError:
		return !e.Sent
	case *StoppedError:
		return e.Result == nil
	case *refreshError:
		return SafeToRetry(e.first)
	case *CancelError, *ProtocolError, *ExitError, *FileError:
		return false
	case interface{ hadNoEffect() bool }:
		return e.hadNoEffect()
	case interface{ Unwrap() error }:
		return SafeToRetry(e.Unwrap())
	case interface{ Unwrap() []error }:
		errs := e.Unwrap()
		return len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool { return !SafeToRetry(err) })
	}
	return false
}
