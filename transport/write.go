package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	discardTimeout = 5 * time.Second
	readStep       = 48 << 10 // a multiple of 3, for base64 without padding
	frameSlack     = 1 << 10  // for a token that changes
	tempBase       = 96       // bytes of the target's name in the temporary one's

	// partSize is the content of one part. Both sides hold it in memory, the
	// guest twice. Larger parts are no faster over loopback.
	partSize = 3 << 18
)

// WriteFile writes what r has to the file, whose directories the guest creates,
// and returns how much that was. The guest replaces the file at once and keeps
// its mode; when WriteFile fails the file is what it was, unless the error is a
// *LostError or *ProtocolError. More than 768 KiB goes in parts, with one of them
// in memory at a time. r is read to its end before the first request only if it
// is small, or if the guest takes no parts, and is not read beyond the Config's
// MaxFileBytes.
func (a *Agent) WriteFile(ctx context.Context, path string, r io.Reader) (int64, error) {
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	n, err := a.newUpload(path, path, tempName(path), r).run(ctx)
	return n, callerFirst(ctx, about(path, err))
}

// tempName is the name under which the parts of a file are collected, next to
// it.
func tempName(path string) string {
	slash := strings.LastIndexByte(path, '/') + 1
	base := path[slash:]
	if len(base) > tempBase {
		n := tempBase
		for !utf8.RuneStart(base[n]) {
			n--
		}
		base = base[:n]
	}
	return path[:slash] + wire.TempPrefix + uuid.New() + "-" + base + wire.TempSuffix
}

// An upload is one write of a file.
type upload struct {
	agent  *Agent
	what   string // for errors
	target string
	temp   string
	stays  bool // what is written stays in temp, and there is no target
	src    *bufio.Reader
	frame  wire.WriteFrame
	most   int  // the Budget of a frame that fits a request
	last   bool // nothing comes after the frame
	sent   int64

	binding *binding // the guest that has, or may have, something of it
}

func (a *Agent) newUpload(what, target, temp string, r io.Reader) *upload {
	if sized, ok := r.(interface{ Len() int }); ok && int64(sized.Len()) > a.config.MaxFileBytes {
		r = tooLarge{int64(sized.Len())}
	}
	return &upload{agent: a, what: what, target: target, temp: temp, src: bufio.NewReaderSize(r, readStep)}
}

// tooLarge is the reader in place of one that says beforehand that it has too
// much.
type tooLarge struct{ size int64 }

func (t tooLarge) Read([]byte) (int, error) { return 0, &TooLargeError{Size: t.size} }

// run writes everything. It removes what it leaves behind when it fails.
func (u *upload) run(ctx context.Context) (int64, error) {
	if err := u.prepare(); err != nil {
		return 0, err
	}
	err := u.fill(ctx)
	if err == nil {
		err = u.first(ctx)
	}
	for err == nil && !u.last {
		u.frame.Reset()
		if err = u.fill(ctx); err == nil {
			err = u.part(ctx, u.binding)
		}
	}
	if err != nil && u.binding != nil {
		u.agent.discard(ctx, u.binding, u.temp)
	}
	return u.sent, err
}

// prepare settles how much content a frame can take.
func (u *upload) prepare() error {
	for _, name := range []string{u.target, u.temp} {
		if !utf8.ValidString(name) {
			return newFileError(wire.OpWriteFile, u.what, "the path is not valid UTF-8 and cannot be sent")
		}
	}
	largest := wire.WriteBody{Path: u.temp, Part: &wire.Part{Offset: wire.MaxSafeInteger, Final: true, RenameTo: u.target}}
	over := wire.WriteOverhead(largest, string(u.agent.current().Token))
	u.most = maxRequest - over - frameSlack
	if u.most < 4 {
		return &TooLargeError{What: "the path to write to", Size: int64(over), Limit: maxRequest}
	}
	u.frame.Budget = min(u.most, partSize/3*4)
	if part := u.agent.part; part > 0 {
		u.most = part / 3 * 4
		u.frame.Budget = u.most
	}
	return nil
}

// fill reads what the frame still takes.
func (u *upload) fill(ctx context.Context) error {
	for u.frame.Room() > 0 && !u.last {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		piece, err := u.src.Peek(min(readStep, u.frame.Room()))
		u.frame.Add(piece)
		u.src.Discard(len(piece))
		if err != nil && err != io.EOF {
			return u.readError(err)
		}
		u.last = err == io.EOF
	}
	if limit := u.agent.config.MaxFileBytes; u.sent+int64(u.frame.Len()) > limit {
		return &TooLargeError{What: u.what, Limit: limit}
	}
	if !u.last {
		_, err := u.src.Peek(1)
		if err != nil && err != io.EOF {
			return u.readError(err)
		}
		u.last = err == io.EOF
	}
	return nil
}

func (u *upload) readError(err error) error {
	if large, ok := errors.AsType[*TooLargeError](err); ok && large.What == "" {
		return &TooLargeError{What: u.what, Size: large.Size, Limit: u.agent.config.MaxFileBytes}
	}
	return fmt.Errorf("transport: %s %s: reading what to write: %w", wire.OpWriteFile, u.what, err)
}

// first sends the first frame, which is all there is if it is the last, or if the
// guest takes no parts. Nothing has happened before, so it may go to another guest
// when it cannot go to this one.
func (u *upload) first(ctx context.Context) error {
	return u.agent.rebinding(ctx, func(b *binding) error {
		if u.last && !u.stays {
			return u.whole(ctx, b)
		}
		features, err := u.agent.features(ctx, b)
		if err != nil {
			return err
		}
		if features.Has(wire.FeatureWriteParts) {
			return u.part(ctx, b)
		}
		u.frame.Budget = u.most
		if err := u.fill(ctx); err != nil {
			return err
		}
		if u.last {
			return u.whole(ctx, b)
		}
		return &TooLargeError{
			What:  u.what + " (for one request, and the guest does not announce " + wire.FeatureWriteParts + ")",
			Limit: int64(u.frame.Len()),
		}
	})
}

func (u *upload) whole(ctx context.Context, b *binding) error {
	path := u.target
	if u.stays {
		u.binding, path = b, u.temp
	}
	_, err := u.send(ctx, b, wire.WriteBody{Path: path})
	if err == nil {
		u.sent = int64(u.frame.Len())
	}
	return err
}

func (u *upload) part(ctx context.Context, b *binding) error {
	before := u.binding
	u.binding = b
	p := &wire.Part{Offset: u.sent}
	if u.last && !u.stays {
		p.Final, p.RenameTo = true, u.target
	}
	reply, err := u.send(ctx, b, wire.WriteBody{Path: u.temp, Part: p})
	if err != nil {
		if before == nil && SafeToRetry(err) {
			u.binding = nil
		}
		return err
	}
	u.sent += int64(u.frame.Len())
	if reply.SizeBytes == nil || *reply.SizeBytes != u.sent {
		return &ProtocolError{Op: wire.OpWriteFile, Err: fmt.Errorf("the file is not of %d bytes after a part", u.sent)}
	}
	return nil
}

func (u *upload) send(ctx context.Context, b *binding, body wire.WriteBody) (wire.WriteReply, error) {
	frame := u.frame.Frame(body, string(b.Token))
	if n := len(frame) - wire.HeaderLen; n > maxRequest {
		return wire.WriteReply{}, &TooLargeError{What: "the request " + wire.OpWriteFile, Size: int64(n), Limit: maxRequest}
	}
	var reply wire.WriteReply
	err := u.agent.exchange(ctx, b, wire.OpWriteFile, frame, smallReply, func(payload []byte) (err error) {
		reply, err = wire.ParseWrite(payload)
		return err
	})
	if r, ok := errors.AsType[*wire.Refusal](err); ok {
		return reply, newFileError(wire.OpWriteFile, u.what, words(r))
	}
	if err != nil {
		return reply, err
	}
	b.booted(reply.BootID)
	if want := int64(u.frame.Len()); reply.BytesWritten != want {
		return reply, &ProtocolError{Op: wire.OpWriteFile, Err: fmt.Errorf("%d bytes were written of %d", reply.BytesWritten, want)}
	}
	return reply, nil
}

// discard removes what a write has left behind, as well as it can in a time of
// its own.
func (a *Agent) discard(ctx context.Context, b *binding, temp string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	body := wire.WriteBody{Path: temp, Encoding: wire.EncodingBase64, Part: &wire.Part{Discard: true}}
	a.call(ctx, b, wire.OpWriteFile, body, smallReply, func(payload []byte) error {
		_, err := wire.ParseDiscard(payload)
		return err
	})
}
