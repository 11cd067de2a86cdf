package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

const tokenVariable = "SMOKE_GUEST_TOKEN"

// guestDialBudget is short: whoever calls by hand knows the guest to be up.
const guestDialBudget = 5 * time.Second

// heartbeat is how soon a guest that is gone is noticed by what waits for one
// that says nothing: after three times as long.
const heartbeat = 5 * time.Second

// guestOptions is what the flags of smoke guest ask for.
type guestOptions struct {
	host    string
	port    int
	token   transport.Secret
	command *guestVerb
	args    []string

	stdin   bool
	retain  bool
	dir     string
	timeout time.Duration
	from    int64
	session string
	deep    bool
}

func guestCommand(ctx context.Context, s streams, args []string) (int, error) {
	o, err := parseGuest(args, s.environ)
	if err != nil {
		return exitFailed, err
	}
	agent, err := transport.New(transport.Config{Host: o.host, Port: o.port, Token: o.token, DialBudget: guestDialBudget, Heartbeat: heartbeat})
	if err != nil {
		return exitFailed, usagef("%v", err)
	}
	defer agent.Close()
	stdout := &pipeWatch{w: s.stdout}
	s.stdout = stdout
	code, err := o.command.run(ctx, agent, o, s)
	if stdout.broken.Load() {
		return exitSignal + sigpipe, nil // nobody is interested any more, such as in the rest of a list that goes to head
	}
	if _, misused := errors.AsType[*usageError](err); err != nil && !misused {
		err = advised(err)
	}
	return code, err
}

// sigpipe is what ends a program that writes to a pipe which nobody reads, by
// its number. Here it is an error of the writer, so that there is time to end
// what runs in the guest.
const sigpipe = 13

// A pipeWatch knows of a pipe that nobody reads any more.
type pipeWatch struct {
	w      io.Writer
	broken atomic.Bool
}

func (p *pipeWatch) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.broken.Store(true)
	}
	return n, err
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
	fs.BoolVar(&o.retain, "retain", false, "")
	fs.StringVar(&o.dir, "dir", "", "")
	fs.DurationVar(&o.timeout, "timeout", 0, "")
	fs.Int64Var(&o.from, "from", 0, "")
	fs.StringVar(&o.session, "session", "", "")
	fs.BoolVar(&o.deep, "r", false, "")
	if err := parse(fs, args); err != nil {
		return o, err
	}
	verbs := guestVerbs()
	var names []string
	for i := range verbs {
		names = append(names, verbs[i].name)
		if verbs[i].name == fs.Arg(0) {
			o.command = &verbs[i]
		}
	}
	switch {
	case fs.Arg(0) == "help":
		return o, &helpError{guestUsage(fs.Arg(1))}
	case fs.NArg() == 0:
		return o, usagef("no command: give one of %s", strings.Join(names, ", "))
	case o.command == nil:
		return o, usagef("there is no command %q: give one of %s", fs.Arg(0), strings.Join(names, ", "))
	}
	if err := parse(fs, fs.Args()[1:]); errors.Is(err, flag.ErrHelp) {
		return o, &helpError{guestUsage(o.command.name)}
	} else if err != nil {
		return o, err
	}
	o.args = fs.Args()
	if n := len(o.args); n < o.command.least || o.command.most >= 0 && n > o.command.most {
		return o, usagef("%s takes %s; it was given %d", o.command.name, o.command.operands, n)
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains([]string{"addr", "token", "token-file"}, name) && !slices.Contains(o.command.flags, name) {
			return o, usagef("-%s does not go with %s; leave it out", name, o.command.name)
		}
	}
	switch {
	case o.timeout < 0:
		return o, usagef("-timeout is %v, want a positive duration", o.timeout)
	case o.from < 0:
		return o, usagef("-from is %d, want an offset from 0 on", o.from)
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

func guestHealth(ctx context.Context, agent *transport.Agent, _ guestOptions, s streams) (int, error) {
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
