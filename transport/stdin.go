package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/internal/jsontree"
	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	maxWireStdin  = 1 << 20 // of text
	maxWireQuoted = 4 << 20 // of the same text as JSON
	noInput       = 125     // exit status of a shell that cannot read the file
)

// stdin is the input of a program, ready for its start. The reference guest
// dies of a program that does not read all the input that came with its
// request. So input goes with the request only to a guest that promises not to,
// and otherwise into a file.
type stdin struct {
	text    *string  // goes with the request
	staged  string   // path of the file that holds the input
	binding *binding // of the guest that has the file
}

// prepareStdin reads the input of the program.
func (a *Agent) prepareStdin(ctx context.Context, c *Cmd) (stdin, error) {
	if c.Stdin == nil {
		return stdin{}, nil
	}
	var head bytes.Buffer // and not io.ReadAll, which nothing else brings into a host
	if _, err := head.ReadFrom(io.LimitReader(c.Stdin, maxWireStdin+1)); err != nil {
		return stdin{}, &StartError{Name: c.name(), Err: fmt.Errorf("reading its Stdin: %w", err)}
	}
	if head.Len() == 0 {
		return stdin{}, nil // as good as the null device
	}
	var b *binding
	var features Features
	err := a.rebinding(ctx, func(bound *binding) (err error) {
		b = bound
		features, err = a.features(ctx, b)
		return err
	})
	if err != nil {
		return stdin{}, startFailure(c.name(), err)
	}
	if features.Has(wire.FeatureSafeStdin) && fitsWire(head.Bytes()) {
		return stdin{text: new(head.String())}, nil
	}
	return a.stage(ctx, c, io.MultiReader(&head, c.Stdin))
}

func fitsWire(text []byte) bool {
	if len(text) > maxWireStdin || !utf8.Valid(text) {
		return false
	}
	return len(jsontree.AppendString(nil, string(text))) <= maxWireQuoted
}

// stage writes the input into a file of the family of names that the guest lets
// a host discard, at the root of the workspace.
func (a *Agent) stage(ctx context.Context, c *Cmd, r io.Reader) (stdin, error) {
	name := wire.TempPrefix + "stdin-" + uuid.New() + wire.TempSuffix
	u := a.newUpload("the Stdin of "+c.name(), "", name, r)
	u.stays = true
	if _, err := u.run(ctx); err != nil {
		if _, ok := errors.AsType[*TooLargeError](err); ok || SafeToRetry(err) {
			return stdin{}, err
		}
		return stdin{}, &StartError{Name: c.name(), Err: fmt.Errorf("its Stdin could not be put into a file of the guest: %w", err)}
	}
	return stdin{staged: name, binding: u.binding}, nil
}

// through is the request to execute body's program with the staged file as its
// input. The program's directory is the guest's to judge and create, so the
// script starts there and looks for the file in each directory above, as far up
// as the workspace's root can be. It changes no variable: all are the
// program's.
func (s stdin) through(body wire.ExecuteBody) wire.ExecuteBody {
	args := append([]string{"-c", stagedScript(s.staged, depth(body.Cwd)), "sh", body.Command}, body.Args...)
	body.Command, body.Args = "/bin/sh", args
	return body
}

// depth is how many directories dir is at most below the workspace's root.
func depth(dir string) int {
	n := 0
	for _, part := range strings.Split(dir, "/") {
		switch part {
		case "", ".":
		case "..":
			n = max(n-1, 0)
		default:
			n++
		}
	}
	return n
}

func stagedScript(file string, depth int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `f() { [ -e "$1" ] || return 1; exec <"$1" || exit %d; PATH=/bin:/usr/bin:$PATH rm -f "$1"; return 0; }; `, noInput)
	up := "./"
	for range depth + 1 {
		fmt.Fprintf(&b, "f %s%s || ", up, file)
		up += "../"
	}
	fmt.Fprintf(&b, `{ echo 'sh: no input: Dir leads out of the workspace' >&2; exit %d; }; exec "$@"`, noInput)
	return b.String()
}

// tookInput reports whether a program that ended with err has certainly removed
// the file with its input.
func tookInput(err error) bool {
	exit, ok := errors.AsType[*ExitError](err)
	return err == nil || ok && exit.Signal == "" && exit.ExitCode != noInput
}
