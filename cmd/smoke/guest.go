package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

const guestUsage = `smoke guest -addr HOST:PORT [-token T | -token-file FILE] COMMAND: talk to one guest agent

  health                      whether it is well and what it can do
  exec [flags] -- CMD ARGS    run a program; its output and exit code are passed on
      -i                      pass on standard input, which must come to its end before the program starts
      -dir DIR                working directory, inside the workspace
      -timeout DURATION       default 5m
  put LOCAL|- REMOTE          write a file of the guest
  get REMOTE LOCAL|-          read one; LOCAL appears whole or not at all

The token is the uid of the guest's pod. It may also be given in the environment as SMOKE_GUEST_TOKEN.
Exit codes: 0 ok, 1 failed, 2 wrong flags. An exec exits as its program did, with 128+n if signal n ended it, 124 if it
ran out of time, and 125 if it did not run or its end was never heard of.
`

const tokenVariable = "SMOKE_GUEST_TOKEN"

// Exit codes of an exec that are not the program's, as of timeout(1).
const (
	exitTimedOut = 124
	exitNoResult = 125
	exitSignal   = 128 // plus the signal's number
)

// guestDialBudget is short: whoever calls by hand knows the guest to be up.
const guestDialBudget = 5 * time.Second

// guestOptions is what the flags of smoke guest ask for.
type guestOptions struct {
	host    string
	port    int
	token   transport.Secret
	command string
	args    []string

	stdin   bool
	dir     string
	timeout time.Duration
}

func guestCommand(ctx context.Context, s streams, args []string) (int, error) {
	o, err := parseGuest(args, s.environ)
	if err != nil {
		return exitFailed, err
	}
	agent, err := transport.New(transport.Config{Host: o.host, Port: o.port, Token: o.token, DialBudget: guestDialBudget})
	if err != nil {
		return exitFailed, usagef("%v", err)
	}
	defer agent.Close()
	switch o.command {
	case "health":
		return guestHealth(ctx, agent, s)
	case "exec":
		return guestExec(ctx, agent, o, s)
	case "put":
		return guestPut(ctx, agent, o, s)
	}
	return guestGet(ctx, agent, o, s)
}

// parseGuest reads the flags before and after the command's name.
func parseGuest(args, environ []string) (guestOptions, error) {
	var o guestOptions
	var address, token, tokenFile string
	fs := flag.NewFlagSet("smoke guest", flag.ContinueOnError)
	fs.StringVar(&address, "addr", "", "")
	fs.StringVar(&token, "token", "", "")
	fs.StringVar(&tokenFile, "token-file", "", "")
	fs.BoolVar(&o.stdin, "i", false, "")
	fs.StringVar(&o.dir, "dir", "", "")
	fs.DurationVar(&o.timeout, "timeout", 0, "")
	if err := parse(fs, args); err != nil {
		return o, err
	}
	if fs.NArg() == 0 {
		return o, usagef("no command: give health, exec, put or get")
	}
	o.command = fs.Arg(0)
	operands, known := map[string][2]int{"health": {0, 0}, "exec": {1, -1}, "put": {2, 2}, "get": {2, 2}}[o.command]
	if !known {
		return o, usagef("there is no command %q: give health, exec, put or get", o.command)
	}
	if err := parse(fs, fs.Args()[1:]); err != nil {
		return o, err
	}
	o.args = fs.Args()
	if n := len(o.args); n < operands[0] || operands[1] >= 0 && n > operands[1] {
		return o, usagef("%s takes %s, not %d arguments", o.command, map[string]string{
			"health": "none", "exec": "a program and its arguments", "put": "LOCAL and REMOTE", "get": "REMOTE and LOCAL",
		}[o.command], n)
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, name := range []string{"i", "dir", "timeout"} {
		if given[name] && o.command != "exec" {
			return o, usagef("-%s goes with exec; leave it out", name)
		}
	}
	if o.timeout < 0 {
		return o, usagef("-timeout is %v, want a positive duration", o.timeout)
	}
	var err error
	if o.host, o.port, err = splitAddress(address); err != nil {
		return o, err
	}
	o.token, err = guestToken(given, token, tokenFile, environ)
	return o, err
}

func splitAddress(address string) (string, int, error) {
	if address == "" {
		return "", 0, usagef("-addr HOST:PORT is missing; a guest listens at port 1024 of its pod")
	}
	host, port, err := net.SplitHostPort(address)
	n, numErr := strconv.Atoi(port)
	if err != nil || numErr != nil || host == "" || n < 1 || n > 65535 {
		return "", 0, usagef("-addr %q is not HOST:PORT", address)
	}
	return host, n, nil
}

// guestToken takes the token from one of its three sources. None is fine for a
// guest that asks for none; it refuses by itself.
func guestToken(given map[string]bool, token, file string, environ []string) (transport.Secret, error) {
	switch {
	case given["token"] && given["token-file"]:
		return "", usagef("-token and -token-file are two sources of one token: leave one out")
	case given["token"]:
		return transport.Secret(token), nil
	case given["token-file"]:
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("-token-file: %w", err)
		}
		defer f.Close()
		data, err := readBounded(f, maxTokenBytes)
		if err != nil {
			return "", fmt.Errorf("-token-file %s: %w", file, err)
		}
		return transport.Secret(strings.TrimSpace(string(data))), nil
	}
	for _, kv := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(kv, tokenVariable+"="); ok {
			return transport.Secret(value), nil
		}
	}
	return "", nil
}

func guestHealth(ctx context.Context, agent *transport.Agent, s streams) (int, error) {
	h, err := agent.Health(ctx)
	if err != nil {
		return exitFailed, err
	}
	fmt.Fprintf(s.stdout, "ok: %t\nretiring: %t\nfeatures: %s\n", h.OK, h.Retiring, printable(strings.Join(h.Features, " ")))
	if !h.OK || h.Retiring {
		return exitFailed, nil
	}
	return exitOK, nil
}

// guestExec returns when the program has ended. Our own standard input is left
// alone unless it is asked for: one that never ends would hold the program up.
func guestExec(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	cmd := agent.Command(ctx, o.args[0], o.args[1:]...)
	cmd.Stdout, cmd.Stderr = s.stdout, s.stderr
	cmd.Dir, cmd.Timeout = o.dir, o.timeout
	if o.stdin {
		cmd.Stdin = heed(ctx, s.stdin)
	}
	err := cmd.Run()
	exit, ran := errors.AsType[*transport.ExitError](err)
	if !ran {
		if err != nil {
			return exitNoResult, err
		}
		return exitOK, nil
	}
	code := exitCode(exit.Result)
	if exit.TimedOut || exit.Signal != "" {
		fmt.Fprintf(s.stderr, "smoke: %v\n", err)
	}
	return code, nil
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

func guestPut(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	local, remote := o.args[0], o.args[1]
	r := heed(ctx, s.stdin)
	if local != "-" {
		f, err := os.Open(local)
		if err != nil {
			return exitFailed, err
		}
		defer f.Close()
		r = f
	}
	n, err := agent.WriteFile(ctx, remote, r)
	if err != nil {
		return exitFailed, err
	}
	fmt.Fprintf(s.stderr, "smoke: wrote %d bytes to %s\n", n, printable(remote))
	return exitOK, nil
}

func guestGet(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	remote, local := o.args[0], o.args[1]
	if local != "-" {
		if err := checkDestination(local); err != nil {
			return exitFailed, err
		}
	}
	data, err := agent.ReadFile(ctx, remote)
	if err != nil {
		return exitFailed, err
	}
	if local == "-" {
		_, err = s.stdout.Write(data)
	} else {
		err = replaceFile(local, data)
	}
	if err != nil {
		return exitFailed, err
	}
	return exitOK, nil
}
