package transport

import (
	"context"
	"fmt"
	"io"
	"sync"
)

const (
	treeWorkers     = 4
	defaultMaxFiles = 100_000
	defaultMaxTree  = 16 << 30
)

// TreeOptions limit PutTree and GetTree and tell how far they are. The zero
// value has the limits that its fields name.
type TreeOptions struct {
	MaxFiles int            // zero is 100,000
	MaxBytes int64          // of all files together; zero is 16 GiB
	Progress func(Progress) // after each file, by one goroutine at a time; nil: nobody is told
}

func (o TreeOptions) withDefaults() TreeOptions {
	setDefault(&o.MaxFiles, defaultMaxFiles)
	setDefault(&o.MaxBytes, defaultMaxTree)
	return o
}

// Progress is how far a copy has come.
type Progress struct {
	Path  string // of the file that is done, relative to the tree, with slashes
	Files int    // that are done
	Bytes int64  // in them
}

// A TreeReport is what came of a copy. When that failed, it is what was copied
// before.
type TreeReport struct {
	Files   int
	Bytes   int64
	Skipped []Skipped
}

// A Skipped is what a copy has left out: links, devices, and what has a name
// that the other side cannot have.
type Skipped struct {
	Path   string // relative to the tree, with slashes
	Reason string
}

// A TreeError reports the file that a copy failed at.
type TreeError struct {
	Path string // relative to the tree, with slashes
	Err  error
}

func (e *TreeError) Error() string {
	return fmt.Sprintf("transport: copying a tree, at %q: %v", e.Path, e.Err)
}

func (e *TreeError) Unwrap() error { return e.Err }

func tooManyFiles(path string, o TreeOptions) error {
	return &TreeError{Path: path, Err: fmt.Errorf("there are more than %d files", o.MaxFiles)}
}

func (e *TreeError) hadNoEffect() bool { return false } // on other files

// A treeCopy is a copy under way.
type treeCopy struct {
	options TreeOptions

	mu     sync.Mutex // guards what follows
	report TreeReport
	taken  int64 // bytes that were let through, of files that are not done too
	err    error // the first
}

// each calls copy for the files, a few at a time, until one fails. Copy returns
// how many bytes there were.
func (t *treeCopy) each(ctx context.Context, files []string, copy func(ctx context.Context, path string) (int64, error)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	paths := make(chan string)
	var workers sync.WaitGroup
	for range min(treeWorkers, len(files)) {
		workers.Go(func() {
			for path := range paths {
				n, err := copy(ctx, path)
				if err != nil {
					t.fail(ctx, path, err)
					stop(err)
					continue
				}
				t.done(path, n)
			}
		})
	}
feed:
	for _, path := range files {
		select {
		case paths <- path:
		case <-ctx.Done():
			break feed
		}
	}
	close(paths)
	workers.Wait()
	if t.err == nil {
		t.err = context.Cause(ctx)
	}
	return t.err
}

// fail keeps the first error. What ends the others is not theirs.
func (t *treeCopy) fail(ctx context.Context, path string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = &TreeError{Path: path, Err: err}
		if cause := context.Cause(ctx); cause != nil {
			t.err = cause
		}
	}
}

func (t *treeCopy) done(path string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Files++
	t.report.Bytes += n
	if t.options.Progress != nil {
		t.options.Progress(Progress{Path: path, Files: t.report.Files, Bytes: t.report.Bytes})
	}
}

func (t *treeCopy) skip(path, reason string) {
	t.report.Skipped = append(t.report.Skipped, Skipped{Path: path, Reason: reason})
}

// take lets n bytes through, of all files together.
func (t *treeCopy) take(n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken += int64(n); t.taken > t.options.MaxBytes {
		return &TooLargeError{What: "the tree", Limit: t.options.MaxBytes}
	}
	return nil
}

// reader and writer are for what goes through take.
func (t *treeCopy) reader(r io.Reader) io.Reader { return treeReader{t, r} }
func (t *treeCopy) writer(w io.Writer) io.Writer { return treeWriter{t, w} }

type treeReader struct {
	tree *treeCopy
	io.Reader
}

func (r treeReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if full := r.tree.take(n); full != nil {
		return 0, full
	}
	return n, err
}

type treeWriter struct {
	tree *treeCopy
	io.Writer
}

func (w treeWriter) Write(p []byte) (int, error) {
	if err := w.tree.take(len(p)); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}
