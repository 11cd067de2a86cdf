package guest

import (
	"encoding/base64"
	"errors"
	"io"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// readFileStream answers read-file-stream. It holds one piece of the file at a
// time and goes on when the peer has taken it.
func (s *Server) readFileStream(c *call) {
	path, err := c.path(codeMissingPath)
	if err != nil {
		c.fail(err)
		return
	}
	f, err := s.jail.open(path)
	if err != nil {
		c.fail(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		err = osError(err, "fstat")
	case !info.Mode().IsRegular():
		err = codeNotRegular
	}
	if err != nil {
		c.fail(err)
		return
	}
	size, err := c.sizeOf(f, info)
	if err != nil {
		c.fail(err)
		return
	}
	offset, length, err := c.span(size)
	if err != nil {
		c.fail(err)
		return
	}
	length = min(length, max(size-offset, 0))
	if c.send(&wire.Meta{Type: wire.TypeMeta, SizeBytes: size, Offset: offset, Length: length}) != nil {
		c.conn.destroy()
		return
	}
	sent, err := c.sendData(io.NewSectionReader(f, offset, length))
	switch {
	case c.ctx.Err() != nil:
		c.conn.destroy()
	case err != nil:
		c.fail(err)
	case c.send(&wire.End{Type: wire.TypeEnd, BytesSent: sent}) != nil:
		c.conn.destroy()
	default:
		c.terminate()
	}
}

// sendData sends all that r has in data frames. A file that has become shorter
// than it was just ends.
func (c *call) sendData(r *io.SectionReader) (sent int64, err error) {
	const before, after = `{"type":"` + wire.TypeData + `","data":"`, `"}`
	piece := make([]byte, max(1, min(r.Size(), int64(c.server.config.ReadChunkBytes)))) // most files are small
	frame := make([]byte, 0, wire.HeaderLen+len(before)+base64.StdEncoding.EncodedLen(len(piece))+len(after))
	for c.ctx.Err() == nil {
		n, err := io.ReadFull(r, piece)
		if n > 0 {
			frame = append(frame[:wire.HeaderLen], before...)
			frame = base64.StdEncoding.AppendEncode(frame, piece[:n])
			frame = append(frame, after...)
			wire.PutHeader(frame)
			if err := c.conn.write(frame); err != nil {
				c.conn.destroy() // which ends c.ctx
				return sent, err
			}
			sent += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return sent, nil
		case err != nil:
			return sent, osError(err, "read")
		}
	}
	return sent, c.ctx.Err()
}
