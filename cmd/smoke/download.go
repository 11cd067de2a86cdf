package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// checkDestination refuses what a download must not replace, before anything is
// read: a device or a folder would be lost.
func checkDestination(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err := os.Stat(filepath.Dir(path))
		return err
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s exists and is not a regular file; use - for standard output", path)
	}
	return nil
}

// replaceFile has write write a file so that it is there whole or not at all:
// beside its place first, then moved. A symbolic link is followed, as a shell
// would.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	mode := fs.FileMode(0o666) // less the umask
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".smoke-"+rand.Text())
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temporary)
		}
	}()
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
