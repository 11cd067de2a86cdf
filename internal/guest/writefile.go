package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// modeBits are those that a file keeps when its content is replaced.
const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// writeFile answers write-file: a whole file, or a part of one.
func (s *Server) writeFile(c *call) {
	if data, ok := c.body["content"].([]byte); ok {
		defer contents.Put(&data)
	}
	path, err := c.path(codeMissingContent)
	if err != nil {
		c.fail(err)
		return
	}
	var reply any
	switch part := c.body["part"].(type) {
	case nil:
		reply, err = c.writeWhole(path)
	case map[string]any:
		reply, err = c.writePart(path, part)
	default:
		err = codePartShape
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.reply(reply)
}

// content is what is to be written.
func (c *call) content() ([]byte, error) {
	v, ok := c.field("content")
	if !ok {
		return nil, codeMissingContent
	}
	if data, ok := v.([]byte); ok {
		return data, nil
	}
	if c.body["encoding"] == wire.EncodingBase64 {
		return decodeBase64(textOf(v)), nil
	}
	return []byte(textOf(v)), nil
}

func (c *call) writeWhole(path string) (any, error) {
	data, err := c.content()
	if err != nil {
		return nil, err
	}
	p, err := c.server.jail.place(path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := p.replace(data); err != nil {
		return nil, err
	}
	return &wire.WriteReply{OK: true, BootID: c.server.bootID, BytesWritten: int64(len(data))}, nil
}

// temp is a place beside p for what is to become p.
func (p *place) temp() *place {
	const maxName = 255 // bytes, of common file systems
	id := "." + uuid.New()
	base := p.base
	if most := maxName - len(wire.TempPrefix+id+wire.TempSuffix); len(base) > most {
		for base = base[:most]; len(base) > 0 && !utf8.ValidString(base) && utf8.ValidString(p.base); {
			base = base[:len(base)-1]
		}
	}
	name := wire.TempPrefix + base + id + wire.TempSuffix
	return &place{dir: p.dir, base: name, path: p.path[:len(p.path)-len(p.base)] + name}
}

// replace replaces the content of p, or makes it: at any moment, and after a
// crash, there is the old content or the new. The new one is on the device when
// it returns. When it fails, the old one is still there.
func (p *place) replace(data []byte) (err error) {
	temp := p.temp()
	f, err := p.dir.OpenFile(temp.base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return openError(err, temp.path)
	}
	defer func() {
		f.Close()
		if err != nil {
			p.dir.Remove(temp.base)
		}
	}()
	if err := p.keepMode(f); err != nil {
		return err
	}
	n, err := writeOnce(f, data, 0)
	if err != nil {
		return osError(err, "write")
	}
	info, err := f.Stat()
	if err != nil {
		return osError(err, "fstat")
	}
	if n != len(data) || info.Size() != int64(len(data)) {
		return refusal(fmt.Sprintf("write_short_write: wrote %d of %d bytes, temp file is %d bytes", n, len(data), info.Size()))
	}
	return temp.become(p, f)
}

// keepMode gives f the mode of the file at p, if there is one.
func (p *place) keepMode(f *os.File) error {
	info, err := p.dir.Lstat(p.base)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	if err != nil {
		return osError(err, "stat", p.path)
	}
	return osError(f.Chmod(info.Mode()&modeBits), "fchmod")
}

// become makes the file f at temp that at p, durably.
func (temp *place) become(p *place, f *os.File) error {
	if err := f.Sync(); err != nil {
		return osError(err, "fsync")
	}
	if err := rename(temp, p); err != nil {
		return osError(err, "rename", temp.path, p.path)
	}
	return syncDir(p.dir, ".")
}
