package wire

import "encoding/base64"

// A WriteFrame builds the frame of a write-file request in one buffer. Content
// is encoded as it arrives and what describes it comes behind it, because only
// the end of the content tells whether a write is whole or a part.
type WriteFrame struct {
	// Budget is how many bytes of base64 the content may take.
	Budget int

	buf []byte // up to the end of the content; empty before the first Add
	raw int
}

const writeHead = `{"op":"` + OpWriteFile + `","body":{"content":"`

// WriteOverhead is the length of a write-file frame's payload without the
// content's base64.
func WriteOverhead(body WriteBody, token string) int {
	return len(writeHead) + len(writeTail(body, token))
}

// Room is how many bytes of content still fit.
func (w *WriteFrame) Room() int { return w.Budget/4*3 - w.raw }

// Len is how many bytes of content there are.
func (w *WriteFrame) Len() int { return w.raw }

// Add appends content. Its length is a multiple of 3 unless it is the last of
// its frame, and is at most Room.
func (w *WriteFrame) Add(p []byte) {
	w.start()
	w.buf = base64.StdEncoding.AppendEncode(w.buf, p)
	w.raw += len(p)
}

func (w *WriteFrame) start() {
	if len(w.buf) == 0 {
		w.buf = append(w.buf, make([]byte, HeaderLen)...)
		w.buf = append(w.buf, writeHead...)
	}
}

// Frame returns the whole frame, which is valid until the following Add or
// Reset. Content and Encoding of body are not looked at. Frame can be called
// again with another body or token.
func (w *WriteFrame) Frame(body WriteBody, token string) []byte {
	w.start()
	frame := append(w.buf, writeTail(body, token)...)
	w.buf = frame[:len(w.buf)] // the buffer may have moved
	PutHeader(frame)
	return frame
}

// Reset empties the frame and keeps its buffer.
func (w *WriteFrame) Reset() { w.buf, w.raw = w.buf[:0], 0 }

// writeTail is what follows the content.
func writeTail(body WriteBody, token string) []byte {
	o := object{dst: []byte(`",`)}
	o.text("path", body.Path)
	o.text("encoding", EncodingBase64)
	o.part(body.Part)
	o.dst = append(o.dst, '}')
	if token != "" {
		o.text("token", token)
	}
	return append(o.dst, '}')
}
