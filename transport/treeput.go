package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"unicode/utf8"
)

// PutTree copies the regular files of a file system into a directory of the
// guest, and its directories. What is there already stays, unless it is a file
// of the same name. Files that somebody may execute become so in the guest, for
// all. Symbolic links and the like are left out and reported.
//
// A failure leaves files that were copied whole, and none that was copied in
// part; see WriteFile. It is a *TreeError, or the context's cause.
func (a *Agent) PutTree(ctx context.Context, dir string, from fs.FS, options TreeOptions) (TreeReport, error) {
	t := &treeCopy{options: options.withDefaults()}
	var files, execs, dirs []string
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		switch {
		case err != nil:
			return &TreeError{Path: name, Err: err}
		case !utf8.ValidString(name):
			t.skip(name, "its name is not valid UTF-8 and cannot be sent")
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			dirs = append(dirs, name)
		case !d.Type().IsRegular():
			t.skip(name, "it is no regular file: "+d.Type().String())
		case len(files) == t.options.MaxFiles:
			return tooManyFiles(name, t.options)
		default:
			files = append(files, name)
			if info, err := d.Info(); err != nil {
				return &TreeError{Path: name, Err: err}
			} else if info.Mode()&0o111 != 0 {
				execs = append(execs, name)
			}
		}
		return nil
	})
	if err == nil {
		err = a.batches(ctx, dir, dirs, "mkdir", "-p", "--")
	}
	if err == nil {
		err = t.each(ctx, files, func(ctx context.Context, name string) (int64, error) {
			f, err := from.Open(name)
			if err != nil {
				return 0, err
			}
			defer f.Close()
			return a.WriteFile(ctx, path.Join(dir, name), t.reader(f))
		})
	}
	if err == nil {
		err = a.batches(ctx, dir, execs, "chmod", "+x", "--")
	}
	return t.report, callerFirst(ctx, err)
}

// batches runs a program on names below a directory of the guest, as many at a
// time as fit. It says nothing when it succeeds.
func (a *Agent) batches(ctx context.Context, dir string, names []string, program string, args ...string) error {
	const most, room = 500, 64 << 10
	for len(names) > 0 {
		batch := slices.Clone(args)
		for size := 0; len(names) > 0 && len(batch) < most && size < room; names = names[1:] {
			batch = append(batch, path.Join(dir, names[0]))
			size += len(batch[len(batch)-1])
		}
		c := a.Command(ctx, program, batch...)
		c.MaxOutput = mostSaid
		_, err := c.Output()
		if exit, ok := errors.AsType[*ExitError](err); ok && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %q", err, exit.Stderr)
		}
		if err != nil {
			return &TreeError{Path: ".", Err: err}
		}
	}
	return nil
}

const mostSaid = 4 << 10 // bytes of what a program of ours has to say
