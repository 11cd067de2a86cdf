package transport

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A FileReader reads a file of the guest as it comes, of any size and with one
// piece of 256 KiB in memory. It must be closed.
type FileReader struct {
	conn    *conn
	binding *binding
	state   readState
	rest    []byte // of the last piece
	err     error  // of the last Read, if that was one

	ctx    context.Context // of the reading
	over   func()          // ends the connection and the operation; can be called again
	closed atomic.Bool
}

var _ io.ReadCloser = (*FileReader)(nil)

// Open opens a file for reading. ctx is for the reading too: its end ends that.
func (a *Agent) Open(ctx context.Context, path string) (*FileReader, error) {
	return a.OpenRange(ctx, path, 0, -1)
}

// OpenRange is Open for length bytes of the file from offset on, or less where
// it ends; a negative length is the rest of it.
func (a *Agent) OpenRange(ctx context.Context, path string, offset, length int64) (*FileReader, error) {
	if offset < 0 || offset > wire.MaxSafeInteger || length > wire.MaxSafeInteger {
		return nil, fmt.Errorf("transport: %s %s: %d bytes from %d are no range", wire.OpReadFileStream, path, length, offset)
	}
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return nil, err
	}
	f := &FileReader{state: readState{path: path, offset: offset, length: max(-1, length), limit: math.MaxInt64}, ctx: ctx}
	err = a.rebinding(ctx, func(b *binding) error {
		if err := a.require(ctx, b, wire.OpReadFileStream, wire.FeatureReadStream); err != nil {
			return err
		}
		f.binding = b
		return a.uncrowd(ctx, func() error { return f.begin(ctx, a) })
	})
	if err != nil {
		err = callerFirst(ctx, about(path, refusedError(wire.OpReadFileStream, err)))
		end()
		return nil, err
	}
	f.conn.release()
	f.over = sync.OnceFunc(func() {
		f.conn.Conn.Close()
		end()
	})
	context.AfterFunc(ctx, f.over)
	return f, nil
}

// begin sends the request and waits for the size.
func (f *FileReader) begin(ctx context.Context, a *Agent) error {
	c, err := a.openFileStream(ctx, f.binding, &f.state)
	if err != nil {
		return err
	}
	if _, _, err := c.fileEvent(f.binding, wire.OpReadFileStream, &f.state); err != nil {
		c.close()
		return err
	}
	f.conn = c
	return nil
}

// Size is that of the whole file.
func (f *FileReader) Size() int64 { return f.state.meta.SizeBytes }

// Read implements io.Reader. Its io.EOF means that all is there; a file that
// was cut off, or has become shorter, is another error. Time between the calls
// is not held against the guest.
func (f *FileReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(f.rest) == 0 && f.err == nil {
		data, last, err := f.conn.fileEvent(f.binding, wire.OpReadFileStream, &f.state)
		if last {
			err = io.EOF
		}
		if f.rest = data; err != nil {
			f.err = about(f.state.path, err)
			if cause := context.Cause(f.ctx); f.closed.Load() {
				f.err = fs.ErrClosed
			} else if cause != nil && err != io.EOF {
				f.err = cause
			}
			f.over()
		}
	}
	if len(f.rest) == 0 {
		return 0, f.err
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// Close ends the reading, also one under way in another goroutine. A second
// call returns fs.ErrClosed.
func (f *FileReader) Close() error {
	if f.closed.Swap(true) {
		return fs.ErrClosed
	}
	f.over()
	return nil
}
