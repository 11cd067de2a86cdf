package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sandlot-go/sandlot/transport"
)

// Exit codes of an exec that are not the program's, as of timeout(1).
const (
	exitTimedOut = 124
	exitNoResult = 125
	exitSignal   = 128 // plus the signal's number
)

// guestExec returns when the program has ended. Our own standard input is left
// alone unless it is asked for: one that never ends would hold the program up.
func guestExec(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	if o.retain {
		s.stderr = &sharedWriter{w: s.stderr}
	}
	cmd := agent.Command(ctx, o.args[0], o.args[1:]...)
	cmd.Stdout, cmd.Stderr = s.stdout, s.stderr
	cmd.Dir, cmd.Timeout = o.dir, o.timeout
	if o.stdin {
		cmd.Stdin = heed(ctx, s.stdin)
	}
	if !o.retain {
		return ended(cmd.Run(), s)
	}
	cmd.Retain()
	cmd.OnGap = reportGap(s)
	if err := cmd.Start(); err != nil {
		return exitNoResult, err
	}
	fmt.Fprintf(s.stderr, "smoke: execution %s\n", cmd.ID)
	return ended(cmd.Wait(), s)
}

// guestAttach follows a program and leaves it alone, however that ends.
func guestAttach(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	a := agent.Attach(ctx, o.args[0], o.from)
	a.Stdout, a.Stderr, a.OnGap = s.stdout, s.stderr, reportGap(s)
	return ended(a.Run(), s)
}

// reportGap tells of output that the guest no longer has.
func reportGap(s streams) func(transport.Gap) {
	return func(g transport.Gap) {
		fmt.Fprintf(s.stderr, "smoke: %d bytes of output from offset %d on are kept no longer\n", g.Dropped, g.From)
	}
}

// ended is the exit code for the end of a program of which err is known.
func ended(err error, s streams) (int, error) {
	exit, ran := errors.AsType[*transport.ExitError](err)
	if !ran {
		if err != nil {
			return exitNoResult, err
		}
		return exitOK, nil
	}
	if exit.TimedOut || exit.Signal != "" {
		fmt.Fprintf(s.stderr, "smoke: %v\n", err)
	}
	return exitCode(exit.Result), nil
}

// exitCode is what a shell would show for the end of a program.
func exitCode(r transport.Result) int {
	switch {
	case r.TimedOut:
		return exitTimedOut
	case r.Signal != "":
		if n := slices.Index(linuxSignals, strings.TrimPrefix(r.Signal, "SIG")); n >= 0 {
			return exitSignal + n + 1
		}
		return exitNoResult
	case r.ExitCode < 0 || r.ExitCode > 255:
		return exitNoResult
	}
	return r.ExitCode
}

// linuxSignals are the names of the guest's signals from number 1 on. This
// program may run on another system.
var linuxSignals = []string{
	"HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "STKFLT",
	"CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
}
