package guest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// A jail keeps the paths of a peer below folders that it may reach. A path is
// resolved in two steps. The first decides, by names and by following symbolic
// links as they are at the moment, where the path leads and what the peer is
// told if that is outside. The second does the work through an [os.Root], with
// the path that the first has found, which has no symbolic links left: if a
// program has put one in its way meanwhile, it still cannot lead outside.
type jail struct {
	workspace   *root
	read, write []*root
}

// A root is a folder with all that is below.
type root struct {
	path string // absolute and clean

	// here is set when the folder is this process's working directory and
	// cannot be reached by its path: a node may hand a container a folder below
	// others that are closed to its user.
	here bool

	mu     sync.Mutex // guards folder
	folder *os.Root   // opened when it is first needed
}

func newJail(workspace string, read, write []string) (*jail, error) {
	w := &root{path: filepath.Clean(workspace)}
	if _, err := os.Stat(w.path); errors.Is(err, fs.ErrPermission) {
		wd, err := syscall.Getwd() // not os.Getwd, which goes by the path as well
		w.here = err == nil && wd == w.path
	}
	if _, err := w.open(); err != nil {
		return nil, &ConfigError{"Workspace", "cannot be opened: " + err.Error()}
	}
	j := &jail{workspace: w, read: []*root{w}, write: []*root{w}}
	for _, path := range read {
		j.read = append(j.read, &root{path: filepath.Clean(path)})
	}
	for _, path := range write {
		j.write = append(j.write, &root{path: filepath.Clean(path)})
	}
	return j, nil
}

func (j *jail) close() {
	for _, r := range slices.Concat(j.read, j.write) {
		r.mu.Lock()
		if r.folder != nil {
			r.folder.Close()
		}
		r.mu.Unlock()
	}
}

func (r *root) open() (*os.Root, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.folder == nil {
		folder, err := os.OpenRoot(r.reach(r.path))
		if err != nil {
			return nil, err
		}
		r.folder = folder
	}
	return r.folder, nil
}

// inside reports whether path, absolute and clean, is dir or below it.
func inside(dir, path string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == filepath.Separator || strings.HasSuffix(dir, string(filepath.Separator)))
}

// lexical makes path absolute and clean and finds the root that it lies in. A
// relative path lies in the workspace.
func (j *jail) lexical(path string, roots []*root) (string, *root, error) {
	if !filepath.IsAbs(path) {
		path, roots = filepath.Join(j.workspace.path, path), roots[:1]
	}
	path = filepath.Clean(path)
	for _, r := range roots {
		if inside(r.path, path) {
			if strings.ContainsRune(path, 0) {
				return "", nil, nullByte("argument", "path", "string, Uint8Array, or URL", path)
			}
			return path, r, nil
		}
	}
	return "", nil, errEscapes
}

// reach is the path by which this process reaches one at or below the root.
func (r *root) reach(path string) string {
	if !r.here || !inside(r.path, path) {
		return path
	}
	rel, err := filepath.Rel(r.path, path)
	if err != nil {
		return path
	}
	return rel
}

// realpath resolves all symbolic links of a path at or below the root.
func (r *root) realpath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(r.reach(path))
	if err == nil {
		if !filepath.IsAbs(real) {
			real = filepath.Join(r.path, real)
		}
		return real, nil
	}
	if _, ok := errors.AsType[syscall.Errno](err); !ok && !errors.Is(err, fs.ErrNotExist) {
		return "", syscall.ELOOP // EvalSymlinks has no such error for it
	}
	return "", err
}

// A spot is where a path leads to.
type spot struct {
	real    string // without symbolic links, except perhaps the last element
	rel     string // the same, relative to the root's folder
	missing bool   // there is nothing, or a symbolic link to nothing
}

// resolve follows the symbolic links of a path that lexical has found inside r.
func (r *root) resolve(path string) (spot, error) {
	home, err := r.realpath(r.path)
	if err != nil {
		return spot{}, osError(err, "realpath", r.path)
	}
	var at spot
	at.real, err = r.realpath(path)
	if errors.Is(err, fs.ErrNotExist) && path != r.path {
		at.missing = true
		base := filepath.Base(path)
		path = filepath.Dir(path)
		at.real, err = r.realpath(path)
		at.real = filepath.Join(at.real, base)
	}
	if err != nil {
		return spot{}, osError(err, "realpath", path)
	}
	if !inside(home, at.real) {
		return spot{}, errSymlink
	}
	at.rel, err = filepath.Rel(home, at.real)
	return at, err
}

// openError words the failure to open something through an os.Root, which has
// no error number for a symbolic link that leads outside.
func openError(err error, path string) error {
	if _, ok := errors.AsType[syscall.Errno](err); !ok {
		return errSymlink
	}
	return osError(err, "open", path)
}

// open opens a file, or a directory, for reading. A FIFO does not block it.
func (j *jail) open(path string) (*os.File, error) {
	path, r, err := j.lexical(path, j.read)
	if err != nil {
		return nil, err
	}
	at, err := r.resolve(path)
	if err != nil {
		return nil, err
	}
	folder, err := r.open()
	if err != nil {
		return nil, osError(err, "open", r.path)
	}
	f, err := folder.OpenFile(at.rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case err == nil:
		return f, nil
	case at.missing: // perhaps a link to nothing that is outside
		return nil, osError(syscall.ENOENT, "open", at.real)
	}
	return nil, openError(err, at.real)
}
