package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	statusCommand  = "cat /proc/self/status"
	versionCommand = "cat /proc/version"
)

// An Exec runs one program in the sandbox and returns what it printed. It
// returns an error if the program did not run or did not come to an end, and no
// error for an exit code other than zero. It ends soon after ctx does.
type Exec func(ctx context.Context, name string, args ...string) (Output, error)

// Output is what a program left behind.
type Output struct {
	Stdout, Stderr []byte
	ExitCode       int
}

// Run asks the named sandbox, and returns what it said together with an
// [*Error] unless the sandbox is deprivileged. The deadline of ctx is the
// probe's budget: when it passes, the probe has failed. When ctx is cancelled,
// Run returns [context.Cause] of it, even if the probe had just succeeded.
func Run(ctx context.Context, sandbox string, exec Exec) (Status, error) {
	r := runner{sandbox: sandbox, exec: exec, started: time.Now()}
	text, err := r.run(ctx, statusCommand)
	if err != nil {
		return Status{}, err
	}
	s, err := Parse(text)
	if err != nil {
		return Status{}, r.name(err)
	}
	if held := s.heldCapabilities(); !s.HasNoNewPrivs && len(held) == 0 {
		// Whether the line is missing because the kernel never prints it is
		// the kernel's to say. Linux has printed it since 4.10.
		text, err := r.run(ctx, versionCommand)
		if err != nil {
			return s, err
		}
		release, ok := parseRelease(text)
		if !ok || !isGVisor(release) {
			return s, r.name(unreadable("it carries no NoNewPrivs line, which only gVisor may leave out, and %q printed %s, which names no gVisor",
				versionCommand, quote(text)))
		}
		s.Release = release
	}
	if offenders := s.Privileged(); len(offenders) > 0 {
		return s, &Error{Sandbox: sandbox, Reason: ReasonPrivileged, Command: statusCommand, Offenders: offenders}
	}
	return s, nil
}

type runner struct {
	sandbox string
	exec    Exec
	started time.Time
}

// run returns the standard output of a command that exited 0. Whether ctx ended
// is asked before anything else: an answer that came too late is no answer.
func (r *runner) run(ctx context.Context, command string) (string, error) {
	if ctx.Err() != nil {
		return "", r.ended(ctx, command)
	}
	words := strings.Fields(command)
	out, err := r.exec(ctx, words[0], words[1:]...)
	switch {
	case ctx.Err() != nil:
		return "", r.ended(ctx, command)
	case err != nil:
		return "", r.failed(command, err.Error(), err)
	case out.ExitCode != 0:
		detail := fmt.Sprintf("it exited %d", out.ExitCode)
		if len(out.Stderr) > 0 {
			detail += " and said " + quote(string(out.Stderr))
		}
		return "", r.failed(command, detail, nil)
	}
	return string(out.Stdout), nil
}

// ended tells the probe's own clock from a caller who no longer wants it.
func (r *runner) ended(ctx context.Context, command string) error {
	cause := context.Cause(ctx)
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return cause
	}
	deadline, _ := ctx.Deadline()
	budget := max(0, deadline.Sub(r.started)).Round(time.Millisecond)
	return r.failed(command, fmt.Sprintf("the guest did not answer within %v", budget), cause)
}

func (r *runner) failed(command, detail string, err error) error {
	return &Error{Sandbox: r.sandbox, Reason: ReasonFailed, Command: command, Detail: detail, Err: err}
}

func (r *runner) name(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Sandbox = r.sandbox
	}
	return err
}
