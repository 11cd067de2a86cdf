package transport

import (
	"context"
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
			return err
		case !utf8.ValidString(name):
			t.skip(name, "its name is not valid UTF-8 and cannot be sent")
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			dirs = append(dirs, path.Join(dir, name))
		case !d.Type().IsRegular():
			t.skip(name, "it is no regular file: "+d.Type().String())
		case len(files) == t.options.MaxFiles:
			return fmt.Errorf("transport: copying a tree: there are more than %d files", t.options.MaxFiles)
		default:
			files = append(files, name)
			if info, err := d.Info(); err != nil {
				return err
			} else if info.Mode()&0o111 != 0 {
				execs = append(execs, path.Join(dir, name))
			}
		}
		return nil
	})
	if err == nil {
		err = a.batches(ctx, dirs, "mkdir", "-p", "--")
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
		err = a.batches(ctx, execs, "chmod", "+x", "--")
	}
	return t.report, callerFirst(ctx, err)
}

// batches runs a program on names, as many at a time as fit.
func (a *Agent) batches(ctx context.Context, names []string, program string, args ...string) error {
	const most, room = 500, 64 << 10
	for len(names) > 0 {
		n, size := 0, 0
		for n < len(names) && n < most && size < room {
			size += len(names[n])
			n++
		}
		c := a.Command(ctx, program, slices.Concat(args, names[:n])...)
		if out, err := c.Output(); err != nil {
			return fmt.Errorf("%w: %s%s", err, out, excerptOf(err))
		}
		names = names[n:]
	}
	return nil
}
