//go:build linux

package transport_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// plainCopy copies over a loopback connection, from a goroutine that reads and
// encodes to one that decodes and writes, neither waiting for the other: the
// best that base64 in frames of JSON can do. There is no request, no answer and
// no error on the way.
func plainCopy(w io.Writer, r io.Reader, codec codec) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	sent := make(chan error, 1)
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			err = errors.Join(sendPlain(c, r, codec), c.Close())
		}
		sent <- err
	}()
	c, err := l.Accept()
	if err == nil {
		err = errors.Join(receivePlain(w, c, codec), c.Close())
	}
	return errors.Join(err, <-sent)
}

func sendPlain(w io.Writer, r io.Reader, codec codec) error {
	chunk := make([]byte, wire.ReadChunk)
	for {
		n, err := io.ReadFull(r, chunk)
		if err != nil && err != io.ErrUnexpectedEOF {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		frame, err := codec.encode(chunk[:n])
		if err != nil {
			return err
		}
		if err := binary.Write(w, binary.BigEndian, uint32(len(frame))); err != nil {
			return err
		}
		if _, err := w.Write(frame); err != nil {
			return err
		}
	}
}

func receivePlain(w io.Writer, r io.Reader, codec codec) error {
	buffered := bufio.NewReader(r)
	var head [4]byte
	var frame []byte
	for {
		if _, err := io.ReadFull(buffered, head[:]); err != nil {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		n := int(binary.BigEndian.Uint32(head[:]))
		if cap(frame) < n {
			frame = make([]byte, n)
		}
		if _, err := io.ReadFull(buffered, frame[:n]); err != nil {
			return err
		}
		chunk, err := codec.decode(frame[:n])
		if err != nil {
			return err
		}
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
}

// A codec makes a frame of a chunk.
type codec interface {
	encode(chunk []byte) ([]byte, error)
	decode(frame []byte) ([]byte, error)
}

// jsonCodec is encoding/json, which makes base64 of a []byte.
type jsonCodec struct{}

type plainFrame struct {
	Type string `json:"type"`
	Data []byte `json:"data"`
}

func (jsonCodec) encode(chunk []byte) ([]byte, error) {
	return json.Marshal(plainFrame{"data", chunk})
}

func (jsonCodec) decode(frame []byte) ([]byte, error) {
	var f plainFrame
	err := json.Unmarshal(frame, &f)
	return f.Data, err
}

// base64Codec makes the same frame without a JSON writer or parser, which would
// refuse every other one.
type base64Codec struct{}

const plainHead, plainTail = `{"type":"data","data":"`, `"}`

func (base64Codec) encode(chunk []byte) ([]byte, error) {
	frame := make([]byte, 0, len(plainHead)+base64.StdEncoding.EncodedLen(len(chunk))+len(plainTail))
	frame = base64.StdEncoding.AppendEncode(append(frame, plainHead...), chunk)
	return append(frame, plainTail...), nil
}

func (base64Codec) decode(frame []byte) ([]byte, error) {
	text, head := bytes.CutPrefix(frame, []byte(plainHead))
	text, tail := bytes.CutSuffix(text, []byte(plainTail))
	if !head || !tail {
		return nil, errors.New("another frame")
	}
	return base64.StdEncoding.AppendDecode(make([]byte, 0, wire.ReadChunk), text)
}
