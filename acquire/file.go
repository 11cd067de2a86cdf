package acquire

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

// Open opens a file of the workspace for reading. A path is relative to the
// workspace or absolute inside it. ctx is for the reading too: its end ends
// that.
func (s *Sandbox) Open(ctx context.Context, path string) (*transport.FileReader, error) {
	return during(s, "open a file", func() (*transport.FileReader, error) { return s.agent.Open(ctx, path) })
}

// OpenRange is Open for length bytes of the file from offset on, or less where
// it ends; a negative length is the rest of it.
func (s *Sandbox) OpenRange(ctx context.Context, path string, offset, length int64) (*transport.FileReader, error) {
	return during(s, "open a file", func() (*transport.FileReader, error) { return s.agent.OpenRange(ctx, path, offset, length) })
}

// ReadFile returns the contents of a file of the workspace.
func (s *Sandbox) ReadFile(ctx context.Context, path string) ([]byte, error) {
	return during(s, "read a file", func() ([]byte, error) { return s.agent.ReadFile(ctx, path) })
}

// ReadFileTo writes the contents of a file to w as they arrive, and returns how
// much that was. When it fails, that was not all.
func (s *Sandbox) ReadFileTo(ctx context.Context, path string, w io.Writer) (int64, error) {
	return during(s, "read a file", func() (int64, error) { return s.agent.ReadFileTo(ctx, path, w) })
}

// ReadRange returns up to length bytes of a file from offset, fewer where the
// file ends, and the size of the whole file.
func (s *Sandbox) ReadRange(ctx context.Context, path string, offset, length int64) (data []byte, size int64, err error) {
	data, err = during(s, "read a file", func() (data []byte, err error) {
		data, size, err = s.agent.ReadRange(ctx, path, offset, length)
		return data, err
	})
	return data, size, err
}

// WriteFile writes all of r to a file of the workspace, making its parents. The
// file appears whole or not at all, and is on disk when WriteFile returns.
func (s *Sandbox) WriteFile(ctx context.Context, path string, r io.Reader) (int64, error) {
	return during(s, "write a file", func() (int64, error) { return s.agent.WriteFile(ctx, path, r) })
}

// Flush puts what was written to the workspace onto its disk, and returns how
// long that took; see transport.Agent.Flush.
func (s *Sandbox) Flush(ctx context.Context, timeout time.Duration) (time.Duration, error) {
	return during(s, "flush the workspace", func() (time.Duration, error) { return s.agent.Flush(ctx, timeout) })
}

// List lists a directory, in no order. Names are the guest's and not to be
// trusted.
func (s *Sandbox) List(ctx context.Context, dir string) iter.Seq2[transport.Entry, error] {
	return s.entries("list a directory", s.agent.List(ctx, dir))
}

// Walk lists what is in a directory and below; see transport.Agent.Walk.
func (s *Sandbox) Walk(ctx context.Context, root string, options transport.WalkOptions) iter.Seq2[transport.Entry, error] {
	return s.entries("list a directory", s.agent.Walk(ctx, root, options))
}

// entries is during for what comes one by one.
func (s *Sandbox) entries(operation string, all iter.Seq2[transport.Entry, error]) iter.Seq2[transport.Entry, error] {
	return func(yield func(transport.Entry, error) bool) {
		if err := s.usable(operation); err != nil {
			yield(transport.Entry{}, err)
			return
		}
		for entry, err := range all {
			if !yield(entry, s.explain(err)) {
				return
			}
		}
	}
}

// PutTree copies the regular files and directories of a file system into a
// directory of the workspace; see transport.Agent.PutTree.
func (s *Sandbox) PutTree(ctx context.Context, dir string, from fs.FS, options transport.TreeOptions) (transport.TreeReport, error) {
	return during(s, "copy a tree", func() (transport.TreeReport, error) { return s.agent.PutTree(ctx, dir, from, options) })
}

// GetTree copies the regular files and directories below a directory of the
// workspace to this side; see transport.Agent.GetTree.
func (s *Sandbox) GetTree(ctx context.Context, to *os.Root, dir string, options transport.TreeOptions) (transport.TreeReport, error) {
	return during(s, "copy a tree", func() (transport.TreeReport, error) { return s.agent.GetTree(ctx, to, dir, options) })
}
