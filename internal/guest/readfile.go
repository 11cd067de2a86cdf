package guest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// readFile answers read-file, whole and ranged.
func (s *Server) readFile(c *call) {
	frame, err := c.read()
	if err != nil {
		c.fail(err)
		return
	}
	if c.conn.write(frame) == nil {
		c.conn.finish()
	} else {
		c.conn.destroy()
	}
}

// read makes the reply to read-file.
func (c *call) read() ([]byte, error) {
	path, err := c.path(codeMissingPath)
	if err != nil {
		return nil, err
	}
	encoded := c.body["encoding"] == wire.EncodingBase64
	_, from := c.field("offset")
	_, to := c.field("length")
	if (from || to) && !encoded {
		return nil, refusal("read_file_range_requires_base64: a ranged read must ask for base64, because a utf8 slice at an arbitrary offset can split a multi-byte character")
	}
	f, err := c.server.jail.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, osError(err, "fstat")
	}
	reply := &wire.ReadReply{OK: true, BootID: c.server.bootID, Encoding: "utf8"}
	if encoded {
		reply.Encoding = wire.EncodingBase64
	}
	var data []byte
	if from || to {
		data, err = c.readRange(f, info, reply)
	} else {
		data, err = c.readWhole(f, info, encoded)
		reply.SizeBytes = int64(len(data))
	}
	if err != nil {
		return nil, err
	}
	return c.readReply(reply, data)
}

// readable refuses what has no content, or none that ends.
func readable(info os.FileInfo) error {
	switch {
	case info.IsDir():
		return osError(syscall.EISDIR, "read")
	case !info.Mode().IsRegular():
		return refusal("read_file_not_a_regular_file")
	}
	return nil
}

// readWhole reads a file of a size that a reply can hold.
func (c *call) readWhole(f *os.File, info os.FileInfo, encoded bool) ([]byte, error) {
	if err := readable(info); err != nil {
		return nil, err
	}
	most := c.server.config.MaxFrameBytes
	if encoded {
		most = base64.StdEncoding.DecodedLen(most)
	}
	tooLarge := func(size int64) error {
		return refusal(fmt.Sprintf("read_file_too_large: %d bytes, limit %d (%s). Use the read-file-stream op to read a whole file.", size, most, variableMaxFrame))
	}
	if info.Size() > int64(most) {
		return nil, tooLarge(info.Size())
	}
	data := make([]byte, 0, info.Size()+512)
	for {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, osError(err, "read")
		case len(data) > most:
			return nil, tooLarge(int64(len(data)))
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
	}
}

// span checks the offset and the length of a range in a file of that size.
func (c *call) span(size int64) (offset, length int64, err error) {
	from := c.number("offset", 0)
	if !safeInteger(from) {
		return 0, 0, refusal("read_file_invalid_offset: offset must be a non-negative safe integer")
	}
	offset = int64(from)
	to := c.number("length", float64(max(size-offset, 0)))
	if !safeInteger(to) {
		return 0, 0, refusal("read_file_invalid_length: length must be a non-negative safe integer")
	}
	return offset, int64(to), nil
}

// sizeOf is the size of a file: what stat says, or else what there is to read
// of one that claims to be empty, as the files of procfs do.
func (c *call) sizeOf(f *os.File, info os.FileInfo) (int64, error) {
	if !info.Mode().IsRegular() || info.Size() != 0 {
		return info.Size(), nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(f, int64(c.server.config.MaxFrameBytes)))
	return n, osError(err, "read")
}

// readRange reads a range of a file and fills in what the reply says about it.
func (c *call) readRange(f *os.File, info os.FileInfo, reply *wire.ReadReply) ([]byte, error) {
	size, err := c.sizeOf(f, info)
	if err != nil {
		return nil, err
	}
	offset, length, err := c.span(size)
	if err != nil {
		return nil, err
	}
	if most := int64(c.server.config.ReadRangeBytes); length > most {
		return nil, refusal(fmt.Sprintf("read_file_range_too_large: %d bytes requested, limit %d (%s). Use the read-file-stream op to read a whole file.",
			length, most, variableReadRange))
	}
	if err := readable(info); err != nil {
		return nil, err
	}
	data := make([]byte, min(length, max(size-offset, 0)))
	n, err := f.ReadAt(data, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, osError(err, "read")
	}
	reply.SizeBytes, reply.Offset, reply.BytesRead = size, new(offset), new(int64(n))
	return data[:n], nil
}

// readReply makes the frame of a reply with its content, which is written into
// the frame directly: it can be large.
func (c *call) readReply(reply *wire.ReadReply, data []byte) ([]byte, error) {
	if reply.Encoding != wire.EncodingBase64 {
		reply.Content = decodeText(data)
		return c.fitting(frameOf(reply))
	}
	payload, err := wire.Marshal(reply)
	if err != nil {
		return nil, err
	}
	before, after := cutContent(payload)
	n := base64.StdEncoding.EncodedLen(len(data))
	frame := make([]byte, wire.HeaderLen, wire.HeaderLen+len(payload)+n)
	frame = append(frame, before...)
	frame = base64.StdEncoding.AppendEncode(frame, data)
	frame = append(frame, after...)
	wire.PutHeader(frame)
	return c.fitting(frame, nil)
}

// fitting refuses a reply that is larger than any frame may be.
func (c *call) fitting(frame []byte, err error) ([]byte, error) {
	if most := c.server.config.MaxFrameBytes; err == nil && len(frame)-wire.HeaderLen > most {
		return nil, refusal(fmt.Sprintf("read_file_too_large: a reply of %d bytes, limit %d (%s). Use the read-file-stream op to read a whole file.",
			len(frame)-wire.HeaderLen, most, variableMaxFrame))
	}
	return frame, err
}

// cutContent cuts a payload where its empty content is. No other field before
// it holds a text that could look the same.
func cutContent(payload []byte) (before, after []byte) {
	const empty = `"content":"`
	at := bytes.Index(payload, []byte(empty)) + len(empty)
	return payload[:at], payload[at:]
}
