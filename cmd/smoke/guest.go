package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
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
      -retain                 have the guest keep the last of the output; the id for attach goes to standard error
  attach [-from OFFSET] ID    follow such a program, from an offset of its output on; interrupting it does not end it
  put LOCAL|- REMOTE          write a file of the guest
  get REMOTE LOCAL|-          read one; LOCAL appears whole or not at all
  ls [-r] [DIR]               list a directory, the workspace by default; with -r all below it, too
  tree put LOCAL REMOTE       copy a directory's files and directories into one of the guest
  tree get REMOTE LOCAL       copy them from the guest; what is no regular file is left out and named
  shell [flags] [-- CMD ARGS] a terminal, raw if standard input is one; the guest's shell by default
      -session ID             as a session: it is started if it is not there, attached to if it is, and outlives this program
      -dir DIR                working directory of what is started
  sessions [read|kill ID]     list the guest's sessions, print what is kept of one's output, or kill one
  forward [ADDRESS:]LOCAL:PORT
                              pass on connections to LOCAL, default address 127.0.0.1, to PORT in the guest, until interrupted

The token is the uid of the guest's pod. It may also be given in the environment as SMOKE_GUEST_TOKEN.
Exit codes: 0 ok, 1 failed, 2 wrong flags. exec, attach and shell exit as the program did, with 128+n if signal n ended it,
124 if it ran out of time, and 125 if it did not run or its end was never heard of.
`

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

// A guestVerb is a command of smoke guest.
type guestVerb struct {
	name        string
	operands    string // in words
	least, most int    // of them; most of -1 is any number
	flags       []string
	run         func(context.Context, *transport.Agent, guestOptions, streams) (int, error)
}

func guestVerbs() []guestVerb {
	return []guestVerb{
		{"health", "no arguments", 0, 0, nil, guestHealth},
		{"exec", "a program and its arguments", 1, -1, []string{"i", "dir", "timeout", "retain"}, guestExec},
		{"attach", "an ID", 1, 1, []string{"from"}, guestAttach},
		{"put", "LOCAL and REMOTE", 2, 2, nil, guestPut},
		{"get", "REMOTE and LOCAL", 2, 2, nil, guestGet},
		{"ls", "at most one directory", 0, 1, []string{"r"}, guestList},
		{"tree", "put LOCAL REMOTE or get REMOTE LOCAL", 3, 3, nil, guestTree},
		{"shell", "a program and its arguments", 0, -1, []string{"session", "dir"}, guestShell},
		{"sessions", "nothing, read ID or kill ID", 0, 2, nil, guestSessions},
		{"forward", "[ADDRESS:]LOCAL:PORT", 1, 1, nil, guestForward},
	}
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
	return o.command.run(ctx, agent, o, s)
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
	case fs.NArg() == 0:
		return o, usagef("no command: give one of %s", strings.Join(names, ", "))
	case o.command == nil:
		return o, usagef("there is no command %q: give one of %s", fs.Arg(0), strings.Join(names, ", "))
	}
	if err := parse(fs, fs.Args()[1:]); err != nil {
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
