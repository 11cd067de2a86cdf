package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// An inFlight knows the temporary files to which a part is being written.
type inFlight struct {
	mu    sync.Mutex // guards paths
	paths map[string]bool
}

// enter reports whether no other part is being written to path.
func (f *inFlight) enter(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paths[path] {
		return false
	}
	if f.paths == nil {
		f.paths = map[string]bool{}
	}
	f.paths[path] = true
	return true
}

func (f *inFlight) leave(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.paths, path)
}

// writePart answers a write-file with a part: path names the temporary file.
func (c *call) writePart(path string, part map[string]any) (any, error) {
	if part["discard"] == true {
		return c.discard(path)
	}
	temp, err := c.server.jail.place(path)
	if err != nil {
		return nil, err
	}
	defer temp.close()
	data, err := c.content()
	if err != nil {
		return nil, err
	}
	offset, err := partOffset(part)
	if err != nil {
		return nil, err
	}
	var target *place // of the final part
	if part["final"] == true {
		to, _ := part["renameTo"].(string)
		if to == "" {
			return nil, codePartNoTarget
		}
		if target, err = c.server.jail.place(to); err != nil {
			return nil, err
		}
		defer target.close()
	}
	if !c.server.parts.enter(temp.path) {
		return nil, codePartInFlight
	}
	defer c.server.parts.leave(temp.path)
	size, err := temp.append(data, offset, target)
	if err != nil {
		return nil, err
	}
	return &wire.WriteReply{OK: true, BootID: c.server.bootID, BytesWritten: int64(len(data)), SizeBytes: new(size)}, nil
}

// partOffset is strict where other numbers are not: nothing but a whole number
// is one.
func partOffset(part map[string]any) (int64, error) {
	v, ok := part["offset"]
	if !ok {
		return 0, nil
	}
	if n, ok := v.(json.Number); ok {
		if f := numberOf(n); safeInteger(f) {
			return int64(f), nil
		}
	}
	return 0, refusal("write_part_invalid_offset: " + jsonOf(v))
}

// append writes data at offset, which must be where the file ends, and makes
// the file that at target if there is one. It returns the file's size. When it
// fails the file stays, to be discarded or started over.
func (temp *place) append(data []byte, offset int64, target *place) (int64, error) {
	mode := os.O_WRONLY
	if offset == 0 {
		mode |= os.O_CREATE | os.O_TRUNC
	}
	if info, err := temp.dir.Lstat(temp.base); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return 0, osError(syscall.ELOOP, "open", temp.path) // a link to nothing is no temporary file
	}
	mismatch := func(is string) error {
		return refusal(fmt.Sprintf("write_part_offset_mismatch: temp file is %s, part starts at offset %d", is, offset))
	}
	f, err := temp.dir.OpenFile(temp.base, mode, 0o666)
	if errors.Is(err, fs.ErrNotExist) && offset != 0 {
		return 0, mismatch("absent")
	}
	if err != nil {
		return 0, openError(err, temp.path)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, osError(err, "fstat")
	}
	if info.Size() != offset {
		return 0, mismatch(fmt.Sprintf("%d bytes", info.Size()))
	}
	n, err := writeOnce(f, data, offset)
	if err != nil {
		return 0, osError(err, "write")
	}
	if info, err = f.Stat(); err != nil {
		return 0, osError(err, "fstat")
	}
	if n != len(data) || info.Size() != offset+int64(n) {
		return 0, refusal(fmt.Sprintf("write_part_short_write: wrote %d of %d bytes at offset %d, temp file is %d bytes", n, len(data), offset, info.Size()))
	}
	if target == nil {
		return info.Size(), nil
	}
	if err := target.keepMode(f); err != nil {
		return 0, err
	}
	return info.Size(), temp.become(target, f)
}

// temporary reports whether a path is named as temporary files are: only those
// can be discarded.
func temporary(path string) bool {
	middle, prefix := strings.CutPrefix(filepath.Base(path), wire.TempPrefix)
	middle, suffix := strings.CutSuffix(middle, wire.TempSuffix)
	return prefix && suffix && middle != ""
}

// discard removes a temporary file. That there is none is success.
func (c *call) discard(path string) (any, error) {
	done := &wire.DiscardReply{OK: true, Discarded: true}
	j := c.server.jail
	path, r, err := j.lexical(path, j.write)
	if err != nil {
		return nil, err
	}
	if !temporary(path) {
		return nil, codePartNotTemp
	}
	parent := filepath.Dir(path)
	if _, err := r.realpath(parent); errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	at, err := r.resolve(path)
	if err != nil {
		return nil, err
	}
	if !temporary(at.real) {
		return nil, codePartNotTemp
	}
	p, err := r.enter(at)
	if err != nil {
		return nil, err
	}
	defer p.close()
	info, err := p.dir.Lstat(p.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return done, nil
	case err == nil && info.IsDir():
		return nil, refusal("Path is a directory: rm returned EISDIR (is a directory) " + p.path)
	}
	if err := p.dir.Remove(p.base); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, osError(err, "unlink", p.path)
	}
	return done, nil
}
