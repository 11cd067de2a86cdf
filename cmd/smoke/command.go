package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// The exit codes. An exec passes on its program's code instead; see guest.go.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// streams is what a process is given from outside, beside its arguments.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
}

// A command is what the first argument names. A usage error that it returns
// becomes exit code 2; with any other one the code is that of the failure.
type command struct {
	name    string
	summary string
	usage   string
	run     func(ctx context.Context, s streams, args []string) (code int, err error)
}

func commands() []command {
	return []command{
		{"run", "get a sandbox, use it, give it back; the default", runUsage, runCommand},
		{"sim", "serve a simulated cluster to other programs", simUsage, simCommand},
		{"guest", "talk to one guest agent", guestUsage(""), guestCommand},
		{"explain", "say whether a pod is closed, and which policy, rule and peer opens it", explainUsage, explainCommand},
	}
}

// A usageError is an invocation that cannot be meant. Its text names the flag
// and what to do.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// run is the program. Usage goes to standard output when it was asked for; a
// usage error is one line on standard error.
func run(ctx context.Context, s streams, args []string) int {
	c, args, err := pick(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(s.stdout, usage(c))
		return exitOK
	case err != nil:
		return refuse(s.stderr, "smoke", err)
	}
	code, err := c.run(ctx, s, args)
	if part, ok := errors.AsType[*helpError](err); ok {
		fmt.Fprint(s.stdout, part.text)
		return exitOK
	}
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(s.stdout, c.usage)
		return exitOK
	}
	if _, misused := errors.AsType[*usageError](err); misused {
		return refuse(s.stderr, c.title(), err)
	}
	if err != nil {
		fmt.Fprintf(s.stderr, "smoke: %v\n", err)
		return max(code, exitFailed)
	}
	return code
}

func refuse(w io.Writer, title string, err error) int {
	fmt.Fprintf(w, "smoke: %s (%s -h lists what there is)\n", oneLine(err.Error()), title)
	return exitUsage
}

// pick finds the command that args name; flags alone mean the first one. With
// flag.ErrHelp the command is that to be explained, nil for all.
func pick(args []string) (*command, []string, error) {
	table := commands()
	find := func(name string) *command {
		for i := range table {
			if table[i].name == name {
				return &table[i]
			}
		}
		return nil
	}
	var first string
	if len(args) > 0 {
		first = args[0]
	}
	switch {
	case first == "-h" || first == "-help" || first == "--help":
		return nil, nil, flag.ErrHelp
	case first == "help":
		if len(args) > 1 {
			if c := find(args[1]); c != nil {
				return c, nil, flag.ErrHelp
			}
			return nil, nil, usagef("there is no command %q", args[1])
		}
		return nil, nil, flag.ErrHelp
	case len(args) == 0 || strings.HasPrefix(first, "-"):
		return &table[0], args, nil
	}
	if c := find(first); c != nil {
		return c, args[1:], nil
	}
	var names []string
	for _, c := range table {
		names = append(names, c.name)
	}
	return nil, nil, usagef("there is no command %q; the commands are %s", first, strings.Join(names, ", "))
}

func (c *command) title() string {
	if c.name == commands()[0].name {
		return "smoke"
	}
	return "smoke " + c.name
}

// usage explains one command, or for nil what there is.
func usage(c *command) string {
	if c != nil {
		return c.usage
	}
	var b strings.Builder
	b.WriteString("smoke checks from end to end that sandboxes can be had, used and given back.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  smoke %-8s %s\n", c.name, c.summary)
	}
	b.WriteString("  smoke help CMD explains one of them\n\n")
	return b.String() + runUsage
}

// parse reads flags. Its errors are usage errors or flag.ErrHelp.
func parse(fs *flag.FlagSet, args []string) error {
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	err := fs.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	if name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: "); unknown {
		return usagef("there is no flag %s", name)
	}
	if before, bad := strings.CutSuffix(err.Error(), ": parse error"); bad {
		return usagef("%s: want a number, or a duration such as 30s or 5m", before)
	}
	return usagef("%v", err)
}

// oneLine makes text fit for one line of a terminal: whatever moves the cursor
// becomes a space.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r == '\n' || r == '\r' || r == '\t' || r == '\x1b'
	}), " ")
}
