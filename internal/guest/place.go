package guest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// A place is where a file is or will be: an open directory, and a name in it.
// Nothing that happens to the path afterwards leads elsewhere.
type place struct {
	dir  *os.Root
	base string
	path string // for error texts, and to tell places apart
}

func (p *place) close() { p.dir.Close() }

// place finds the place that a path to be written names, and makes the
// directories that lead there.
func (j *jail) place(path string) (*place, error) {
	path, r, err := j.lexical(path, j.write)
	if err != nil {
		return nil, err
	}
	if path == r.path {
		return nil, osError(syscall.EISDIR, "open", path)
	}
	if err := r.makeDirs(filepath.Dir(path)); err != nil {
		return nil, err
	}
	at, err := r.resolve(path)
	if err != nil {
		return nil, err
	}
	return r.enter(at)
}

// enter opens the directory of a spot.
func (r *root) enter(at spot) (*place, error) {
	if at.rel == "." {
		return nil, osError(syscall.EISDIR, "open", at.real)
	}
	folder, err := r.open()
	if err != nil {
		return nil, osError(err, "open", r.path)
	}
	dir, err := folder.OpenRoot(filepath.Dir(at.rel))
	if err != nil {
		return nil, openError(err, filepath.Dir(at.real))
	}
	return &place{dir: dir, base: filepath.Base(at.rel), path: at.real}, nil
}

// makeDirs makes a directory that lexical has found inside r, with its parents,
// and nothing outside even if symbolic links lead there. The new directories
// are on the device when it returns.
func (r *root) makeDirs(path string) error {
	home, err := r.realpath(r.path)
	if err != nil {
		return osError(err, "mkdir", path)
	}
	prefix, missing := path, []string(nil)
	real, err := r.realpath(prefix)
	for ; errors.Is(err, fs.ErrNotExist) && prefix != r.path; real, err = r.realpath(prefix) {
		missing = append(missing, filepath.Base(prefix))
		prefix = filepath.Dir(prefix)
	}
	if err != nil {
		return osError(err, "mkdir", path)
	}
	if !inside(home, real) {
		return errSymlink
	}
	if len(missing) == 0 {
		if info, err := os.Stat(r.reach(real)); err != nil || !info.IsDir() {
			return osError(syscall.EEXIST, "mkdir", path)
		}
		return nil
	}
	folder, err := r.open()
	if err != nil {
		return osError(err, "open", r.path)
	}
	at, err := filepath.Rel(home, real)
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(missing) {
		parent := at
		at = filepath.Join(at, name)
		switch err := folder.Mkdir(at, 0o777); {
		case errors.Is(err, fs.ErrExist): // by another request
		case err != nil:
			return mkdirError(err, filepath.Join(home, at))
		default:
			if err := syncDir(folder, parent); err != nil {
				return err
			}
		}
	}
	return nil
}

func mkdirError(err error, path string) error {
	if _, ok := errors.AsType[syscall.Errno](err); !ok {
		return errSymlink
	}
	return osError(err, "mkdir", path)
}

// syncDir brings the entries of a directory to the device.
func syncDir(folder *os.Root, name string) error {
	dir, err := folder.Open(name)
	if err != nil {
		return osError(err, "open")
	}
	defer dir.Close()
	return osError(dir.Sync(), "fsync")
}

// workdir checks the working directory of a program. It must be named inside
// the workspace; where its symbolic links lead is the program's own affair,
// which can change its directory anyway.
func (j *jail) workdir(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return j.workspace.path, nil
	case string:
		path, _, err := j.lexical(v, []*root{j.workspace})
		return path, err
	}
	return "", wrongType("paths[1]", v)
}

// makeWorkdir makes a working directory unless it is there.
func (j *jail) makeWorkdir(path string) error {
	if info, err := os.Stat(j.workspace.reach(path)); err == nil && info.IsDir() {
		return nil
	}
	return j.workspace.makeDirs(path)
}
