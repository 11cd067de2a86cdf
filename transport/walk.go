package transport

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
)

const defaultMaxEntries = 100_000

// WalkOptions limit a Walk. The zero value is no limit but that of the entries.
type WalkOptions struct {
	MaxDepth   int // of entries, those of the directory itself are at 1; zero is any
	MaxEntries int // zero is 100,000; more are an error and never a short list
}

// A WalkError reports that a directory of the guest could not be listed, or not
// all of it.
type WalkError struct {
	Root string
	Text string // what the guest's find said; empty when it is Err that says why
	Err  error
}

func (e *WalkError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("transport: walking %s: %v", e.Root, e.Err)
	}
	return fmt.Sprintf("transport: walking %s: %s", e.Root, e.Text)
}

func (e *WalkError) Unwrap() error { return e.Err }

// Is reports whether target is the fs error of the same meaning.
func (e *WalkError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return strings.Contains(e.Text, "No such file or directory")
	case fs.ErrPermission:
		return strings.Contains(e.Text, "Permission denied")
	}
	return false
}

// List lists a directory of the guest, in no order.
func (a *Agent) List(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	return a.Walk(ctx, dir, WalkOptions{MaxDepth: 1})
}

// Walk lists what is in a directory of the guest and below, in no order and
// without following symbolic links, not even to the directory itself. A relative
// path is relative to the workspace. An error is the last thing that comes, and
// none means that the list is whole: a *WalkError, or one of a Cmd. Stopping
// early ends the walk in the guest.
//
// The guest needs a shell, GNU find and base64, which carries names that are no
// text.
func (a *Agent) Walk(ctx context.Context, root string, options WalkOptions) iter.Seq2[Entry, error] {
	setDefault(&options.MaxEntries, defaultMaxEntries)
	return func(yield func(Entry, error) bool) {
		if root == "" || strings.ContainsRune(root, 0) || options.MaxDepth < 0 || options.MaxEntries < 0 {
			yield(Entry{}, &WalkError{Root: root, Err: errors.New("no such walk")})
			return
		}
		err := a.walk(ctx, root, options, func(e Entry) bool { return yield(e, nil) })
		if err != nil && err != errStopped {
			yield(Entry{}, err)
		}
	}
}

var errStopped = errors.New("the walk was stopped")

// walkScript lists as base64 and says how that ended, since a pipe does not.
const walkScript = `{ find "$@"; printf '` + entriesDone + `\0%d\0' "$?"; } | base64`

func walkArgs(root string, options WalkOptions) []string {
	if !strings.HasPrefix(root, "/") {
		root = "./" + root // find takes others for options
	}
	args := []string{"-c", walkScript, "sh", "-P", root}
	if options.MaxDepth > 0 {
		args = append(args, "-maxdepth", fmt.Sprint(options.MaxDepth))
	}
	return append(args, "-printf", entryFormat)
}

func (a *Agent) walk(ctx context.Context, root string, options WalkOptions, found func(Entry) bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := a.Command(ctx, "/bin/sh", walkArgs(root, options)...)
	out, in := io.Pipe()
	var said excerpt
	c.Stdout, c.Stderr, c.Env = in, &said, []string{"LC_ALL=C"}
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := c.Wait()
		in.Close()
		ended <- err
	}()
	status, err := readEntries(root, bufio.NewReader(base64.NewDecoder(base64.StdEncoding, out)), options, found)
	if err != nil {
		stop(err)
	}
	out.CloseWithError(errStopped)
	waited := <-ended
	switch {
	case err != nil && (waited == nil || errors.Is(waited, err) || errors.Is(waited, errStopped)):
		return err
	case waited != nil:
		if exit, ok := errors.AsType[*ExitError](waited); !ok || len(said.bytes()) == 0 {
			return waited
		} else if exit.Signal != "" || exit.TimedOut {
			return waited
		}
		return &WalkError{Root: root, Text: strings.TrimSpace(string(said.bytes()))}
	case status != 0:
		return &WalkError{Root: root, Text: strings.TrimSpace(string(said.bytes()))}
	}
	return nil
}

// readEntries reads a list, whose first entry is the root itself.
func readEntries(root string, r io.ByteReader, options WalkOptions, found func(Entry) bool) (status int, err error) {
	for n := 0; ; n++ {
		e, status, err := readEntry(r)
		if err == io.EOF {
			return status, nil
		}
		if err != nil {
			return 0, &WalkError{Root: root, Err: err}
		}
		switch {
		case n == 0 && e.Path != ".", n > 0 && e.Path == ".":
			return 0, &WalkError{Root: root, Err: errors.New("the directory itself is not listed once")}
		case n == 0 && !e.Mode.IsDir():
			return 0, &WalkError{Root: root, Err: errNotDirectory}
		case n == 0:
			continue
		case n > options.MaxEntries:
			return 0, &WalkError{Root: root, Err: fmt.Errorf("there are more than %d entries", options.MaxEntries)}
		case options.MaxDepth > 0 && e.depth() > options.MaxDepth:
			return 0, &WalkError{Root: root, Err: errors.New("an entry is deeper than was asked for")}
		}
		if !found(e) {
			return 0, errStopped
		}
	}
}

var errNotDirectory = errors.New("it is no directory, or a link to one")
