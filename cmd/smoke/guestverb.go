package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/sandlot-go/sandlot/transport"
)

// A guestVerb is a command of smoke guest.
type guestVerb struct {
	name        string
	usage       string // its lines of it
	operands    string // in words
	least, most int    // of them; most of -1 is any number
	flags       []string
	run         func(context.Context, *transport.Agent, guestOptions, streams) (int, error)
}

func guestVerbs() []guestVerb {
	return []guestVerb{
		{"health", `
  health                      whether it is well and what it can do
`, "no arguments", 0, 0, nil, guestHealth},
		{"exec", `
  exec [flags] -- CMD ARGS    run a program; its output and exit code are passed on
      -i                      pass on standard input, which must come to its end before the program starts
      -dir DIR                working directory, inside the workspace
      -timeout DURATION       default 5m
      -retain                 have the guest keep the last of the output; the id for attach goes to standard error
`, "a program and its arguments", 1, -1, []string{"i", "dir", "timeout", "retain"}, guestExec},
		{"attach", `
  attach [-from OFFSET] ID    follow such a program, from an offset of its output on; interrupting it does not end it
`, "an ID", 1, 1, []string{"from"}, guestAttach},
		{"put", `
  put LOCAL|- REMOTE          write a file of the guest
`, "LOCAL and REMOTE", 2, 2, nil, guestPut},
		{"get", `
  get REMOTE LOCAL|-          read one; LOCAL appears whole or not at all
`, "REMOTE and LOCAL", 2, 2, nil, guestGet},
		{"ls", `
  ls [-r] [DIR]               list a directory, the workspace by default; with -r all below it, too
`, "at most one directory", 0, 1, []string{"r"}, guestList},
		{"tree", `
  tree put LOCAL REMOTE       copy a directory's files and directories into one of the guest
  tree get REMOTE LOCAL       copy them from the guest; what is no regular file is left out and named
                              either way what is there already stays, except files of the same names
`, "put LOCAL REMOTE or get REMOTE LOCAL", 3, 3, nil, guestTree},
		{"shell", `
  shell [flags] [-- CMD ARGS] a terminal, raw if standard input is one; the guest's shell by default
      -session ID             as a session: it is started if it is not there, attached to if it is, and outlives this program
      -dir DIR                working directory of what is started
                              at a terminal ~ and . at the beginning of a line leave it, which a session survives; ~~ is ~
`, "a program and its arguments", 0, -1, []string{"session", "dir"}, guestShell},
		{"sessions", `
  sessions [read|kill ID]     list the guest's sessions, print what is kept of one's output, or kill one
`, "nothing, read ID or kill ID", 0, 2, nil, guestSessions},
		{"forward", `
  forward [ADDRESS:]LOCAL:PORT
                              pass on connections to LOCAL, default address 127.0.0.1, to PORT in the guest, until interrupted
`, "[ADDRESS:]LOCAL:PORT", 1, 1, nil, guestForward},
	}
}

const (
	guestTitle  = "smoke guest -addr HOST:PORT [-token T | -token-file FILE] "
	guestFooter = `
Paths of the guest are relative to its workspace, or absolute inside it.
The token is the uid of the guest's pod. It may also be given in the environment as SMOKE_GUEST_TOKEN.
Exit codes: 0 ok, 1 failed, 2 wrong flags. exec, attach and shell exit as the program did, with 128+n if signal n ended it,
124 if it ran out of time, and 125 if it did not run or its end was never heard of.
`
)

// guestUsage explains all verbs, or one.
func guestUsage(only string) string {
	var b strings.Builder
	title := "COMMAND"
	if only != "" {
		title = only
	}
	fmt.Fprintf(&b, "%s%s: talk to one guest agent\n\n", guestTitle, title)
	for _, v := range guestVerbs() {
		if only == "" || v.name == only {
			b.WriteString(strings.TrimPrefix(v.usage, "\n"))
		}
	}
	return b.String() + guestFooter
}

// A helpError is a question for what a part of a command does.
type helpError struct{ text string }

func (e *helpError) Error() string { return flag.ErrHelp.Error() }

func (e *helpError) Is(target error) bool { return target == flag.ErrHelp }
