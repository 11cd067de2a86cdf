package transport

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/internal/uuid"
)

// GetTree copies the regular files below a directory of the guest, and its
// directories, into a directory of this side, which none of the guest's names
// can lead out of. What is there already stays, unless it is a file or link of
// the same name. Symbolic links and the like, and names that this side cannot
// have, are left out and reported. Of the permissions only that to execute is
// kept.
//
// A failure leaves files that were copied whole, and none that was copied in
// part. It is a *TreeError, a *WalkError or the context's cause.
func (a *Agent) GetTree(ctx context.Context, to *os.Root, dir string, options TreeOptions) (TreeReport, error) {
	t := &treeCopy{options: options.withDefaults()}
	dirs, files, execs, err := a.listTree(ctx, t, dir)
	if err == nil {
		for _, name := range dirs {
			if err = to.MkdirAll(local(name), 0o755); err != nil {
				err = &TreeError{Path: name, Err: err}
				break
			}
		}
	}
	if err == nil {
		err = t.each(ctx, files, func(ctx context.Context, name string) (int64, error) {
			mode := fs.FileMode(0o644)
			if execs[name] {
				mode = 0o755
			}
			return a.getFile(ctx, t, to, path.Join(dir, name), local(name), mode)
		})
	}
	return t.report, callerFirst(ctx, err)
}

// listTree lists what is to be copied.
func (a *Agent) listTree(ctx context.Context, t *treeCopy, dir string) (dirs, files []string, execs map[string]bool, err error) {
	execs = make(map[string]bool)
	var list []Entry
	for e, err := range a.Walk(ctx, dir, WalkOptions{MaxEntries: 2 * t.options.MaxFiles}) {
		if err != nil {
			return nil, nil, nil, err
		}
		list = append(list, e)
	}
	sortEntries(list)
	for _, e := range list {
		switch {
		case !utf8.ValidString(e.Path):
			t.skip(e.Path, "its name is not valid UTF-8 and cannot be asked for")
		case local(e.Path) == "":
			t.skip(e.Path, "this side cannot have the name")
		case e.Mode.IsDir():
			dirs = append(dirs, e.Path)
		case !e.Mode.IsRegular():
			t.skip(e.Path, "it is no regular file: "+e.Mode.Type().String())
		case len(files) == t.options.MaxFiles:
			return nil, nil, nil, tooManyFiles(e.Path, t.options)
		default:
			files = append(files, e.Path)
			execs[e.Path] = e.Mode&0o111 != 0
		}
	}
	return dirs, files, execs, nil
}

// local is the name on this side; empty if there can be none.
func local(name string) string {
	l, err := filepath.Localize(name)
	if err != nil {
		return ""
	}
	return l
}

// getFile copies a file beside its place and puts it there when it is whole.
func (a *Agent) getFile(ctx context.Context, t *treeCopy, to *os.Root, from, name string, mode fs.FileMode) (n int64, err error) {
	temp := filepath.Join(filepath.Dir(name), ".sandlot-"+uuid.New()+".part")
	f, err := to.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	n, err = a.ReadFileTo(ctx, from, t.writer(f))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = to.Rename(temp, name)
	}
	if err != nil {
		if left := to.Remove(temp); left != nil {
			err = errors.Join(err, left)
		}
		return 0, err
	}
	return n, nil
}
