package transport

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// ReadFile returns the content of the file, of at most the Config's
// MaxFileBytes.
func (a *Agent) ReadFile(ctx context.Context, path string) ([]byte, error) {
	var b bytes.Buffer
	if _, err := a.ReadFileTo(ctx, path, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ReadFileTo writes the content of the file to w as it arrives, and returns how
// much that was. When it fails, that was not all of it. Time that w takes is
// not held against the guest.
func (a *Agent) ReadFileTo(ctx context.Context, path string, w io.Writer) (int64, error) {
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	var n int64
	err = a.rebinding(ctx, func(b *binding) error {
		features, err := a.features(ctx, b)
		if err != nil {
			return err
		}
		if features.Has(wire.FeatureReadStream) {
			return a.uncrowd(ctx, func() (err error) {
				n, _, err = a.readStream(ctx, b, path, 0, -1, w)
				return err
			})
		}
		n, err = a.readWhole(ctx, b, path, w)
		return err
	})
	return n, callerFirst(ctx, about(path, refusedError(wire.OpReadFileStream, err)))
}

// ReadRange returns length bytes of the file from offset on, or less where it
// ends, and the size of the whole file.
func (a *Agent) ReadRange(ctx context.Context, path string, offset, length int64) (data []byte, size int64, err error) {
	if offset < 0 || length < 0 || offset > wire.MaxSafeInteger || length > wire.MaxSafeInteger {
		return nil, 0, fmt.Errorf("transport: %s %s: %d bytes from %d are no range", wire.OpReadFile, path, length, offset)
	}
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	err = a.rebinding(ctx, func(b *binding) (err error) {
		if err := a.require(ctx, b, wire.OpReadFile, wire.FeatureReadStream); err != nil {
			return err
		}
		if length <= wire.MaxReadRange {
			data, size, err = a.readRange(ctx, b, path, offset, length)
			if refused, ok := errors.AsType[*FileError](err); !ok || refused.Code != "read_file_range_too_large" {
				return err
			}
		}
		var buf bytes.Buffer
		err = a.uncrowd(ctx, func() (err error) {
			_, size, err = a.readStream(ctx, b, path, offset, length, &buf)
			return err
		})
		data = buf.Bytes()
		return err
	})
	if err != nil {
		return nil, 0, callerFirst(ctx, about(path, refusedError(wire.OpReadFileStream, err)))
	}
	return data, size, nil
}

// require fails unless the guest announces the feature.
func (a *Agent) require(ctx context.Context, b *binding, op, feature string) error {
	features, err := a.features(ctx, b)
	if err == nil && !features.Has(feature) {
		err = &UnsupportedError{Op: op, Feature: feature}
	}
	return err
}

func checkPath(op, path string) error {
	if !utf8.ValidString(path) {
		return newFileError(op, path, "the path is not valid UTF-8 and cannot be sent")
	}
	return nil
}

func (a *Agent) readRange(ctx context.Context, b *binding, path string, offset, length int64) ([]byte, int64, error) {
	r, data, err := a.readFile(ctx, b, wire.ReadBody{Path: path, Encoding: wire.EncodingBase64, Offset: &offset, Length: &length}, wire.MaxReadRange)
	if err == nil {
		err = judgeRange(r, data, offset, length)
	}
	return data, r.SizeBytes, err
}

// readWhole is for a guest that knows neither ranges nor the stream: the file
// comes in one frame and is in memory several times over.
func (a *Agent) readWhole(ctx context.Context, b *binding, path string, w io.Writer) (int64, error) {
	limit := min(a.config.MaxFileBytes, wire.MaxFrame/4*3)
	r, data, err := a.readFile(ctx, b, wire.ReadBody{Path: path, Encoding: wire.EncodingBase64}, limit)
	if large, ok := errors.AsType[*wire.TooLargeError](err); ok {
		return 0, &TooLargeError{What: "the reply with " + path, Size: large.Announced, Limit: int64(large.Limit)}
	}
	if err != nil {
		return 0, err
	}
	n := int64(len(data))
	switch {
	case n > limit:
		return 0, &TooLargeError{What: path, Size: n, Limit: limit}
	case n != r.SizeBytes:
		return 0, &ProtocolError{Op: wire.OpReadFile, Err: fmt.Errorf("%d bytes are announced and %d came", r.SizeBytes, n)}
	}
	return writeOut(w, data, path)
}

// readFile carries out the request for content of at most limit bytes, give or
// take what a reply has beside it.
func (a *Agent) readFile(ctx context.Context, b *binding, body wire.ReadBody, limit int64) (wire.ReadReply, []byte, error) {
	if err := checkPath(wire.OpReadFile, body.Path); err != nil {
		return wire.ReadReply{}, nil, err
	}
	r, err := call(ctx, a, b, wire.OpReadFile, body, int(limit/3*4)+smallReply, wire.ParseRead)
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		return r, nil, newFileError(wire.OpReadFile, body.Path, words(refusal))
	}
	if err != nil {
		return r, nil, err
	}
	b.booted(r.BootID)
	if r.Encoding != wire.EncodingBase64 {
		return r, nil, &ProtocolError{Op: wire.OpReadFile, Err: fmt.Errorf("the content is encoded as %.40q, want base64", r.Encoding)}
	}
	data, err := base64.StdEncoding.DecodeString(r.Content)
	if err != nil {
		return r, nil, &ProtocolError{Op: wire.OpReadFile, Err: errors.New("the content is no base64")}
	}
	return r, data, nil
}

// readStream reads the file, or length bytes of it, as a stream.
func (a *Agent) readStream(ctx context.Context, b *binding, path string, offset, length int64, w io.Writer) (n, size int64, err error) {
	s := readState{path: path, offset: offset, length: length, limit: a.config.MaxFileBytes}
	c, err := a.openFileStream(ctx, b, &s)
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	for {
		data, last, err := c.fileEvent(b, wire.OpReadFileStream, &s)
		if err != nil {
			return n, 0, err
		}
		if last {
			return n, s.meta.SizeBytes, nil
		}
		written, err := writeOut(w, data, path)
		if n += written; err != nil {
			return n, 0, err
		}
	}
}

// openFileStream sends the request for what s is about.
func (a *Agent) openFileStream(ctx context.Context, b *binding, s *readState) (*conn, error) {
	const op = wire.OpReadFileStream
	if err := checkPath(op, s.path); err != nil {
		return nil, err
	}
	body := wire.ReadBody{Path: s.path}
	if s.offset > 0 || s.length >= 0 {
		body.Offset = &s.offset
	}
	if s.length >= 0 {
		body.Length = &s.length
	}
	frame, err := requestFrame(b, op, body)
	if err != nil {
		return nil, err
	}
	return a.request(ctx, b, op, frame)
}

// fileEvent reads the next event of a file's stream. The data is valid until the
// following call.
func (c *conn) fileEvent(b *binding, op string, s *readState) (data []byte, last bool, err error) {
	payload, err := c.frames.Next()
	if err != nil {
		return nil, false, readFailure(op, err)
	}
	if data, ok := wire.AppendData(s.piece[:0], payload); ok {
		s.piece = data
		return s.next(data)
	}
	event, err := wire.ParseReadEvent(payload)
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		err = b.refused(op, refusal)
		if err == refusal && !crowded(err) {
			err = newFileError(op, s.path, words(refusal))
		}
		return nil, false, err
	}
	if err != nil {
		return nil, false, &ProtocolError{Op: op, Err: err}
	}
	return s.next(event)
}

func writeOut(w io.Writer, data []byte, path string) (int64, error) {
	if len(data) == 0 {
		return 0, nil
	}
	n, err := w.Write(data)
	if err == nil && n != len(data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		err = fmt.Errorf("transport: writing what was read of %s: %w", path, err)
	}
	return int64(n), err
}
