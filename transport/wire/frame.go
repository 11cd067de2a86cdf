package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
)

// HeaderLen is the length of a frame header: eight hexadecimal digits of the
// payload's length in bytes, and a line feed.
const HeaderLen = 9

// ErrHeader reports that a frame does not begin with eight hexadecimal digits
// and a line feed. The stream cannot be read any further.
var ErrHeader = errors.New("wire: malformed frame header, want 8 hexadecimal digits and a line feed")

// A TooLargeError reports a frame whose header announces more than the
// reader's limit. No byte of its payload has been read.
type TooLargeError struct {
	Announced int64 // bytes
	Limit     int   // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("wire: frame of %d bytes announced, the limit is %d", e.Announced, e.Limit)
}

const digits = "0123456789abcdef"

// AppendFrame appends payload as one frame to dst. An empty payload makes the
// stream terminator.
func AppendFrame(dst, payload []byte) []byte {
	dst = appendHeader(dst, len(payload))
	return append(dst, payload...)
}

func appendHeader(dst []byte, n int) []byte {
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, digits[n>>shift&0xf])
	}
	return append(dst, '\n')
}

// PutHeader writes the header of a frame whose payload follows it in buf: buf
// must begin with HeaderLen spare bytes. It saves copying large payloads.
func PutHeader(buf []byte) {
	appendHeader(buf[:0], len(buf)-HeaderLen)
}

// A FrameReader cuts a byte stream into frames. It reads ahead, so the stream
// must not be read beside it. It is not safe for concurrent use.
type FrameReader struct {
	r     *bufio.Reader
	limit int
	buf   []byte
}

const (
	readAhead   = 4 << 10  // enough for most frames; larger ones are read past it
	firstGrowth = 64 << 10 // what is allocated on a header's word alone
	keepBuffer  = 1 << 20  // larger buffers are let go after their frame
	maxSpare    = 2 << 20  // of what other readers use again
)

// NewFrameReader returns a FrameReader of r that refuses payloads of more than
// limit bytes.
func NewFrameReader(r io.Reader, limit int) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, readAhead), limit: limit}
}

// SetLimit changes the largest accepted payload for the frames not yet read.
func (f *FrameReader) SetLimit(limit int) { f.limit = limit }

// Buffered is the number of bytes that were read from the stream and belong to
// no frame returned so far.
func (f *FrameReader) Buffered() int { return f.r.Buffered() }

// Next returns the next payload, which is valid until the following call; it is
// empty for the stream terminator. The error is io.EOF at the end of the stream
// between frames, io.ErrUnexpectedEOF inside one, ErrHeader, a *TooLargeError,
// or the stream's own.
func (f *FrameReader) Next() ([]byte, error) {
	head, err := f.r.Peek(HeaderLen)
	if err != nil {
		if firstGrowth < len(f.buf) && len(f.buf) <= maxSpare {
			spare.Put(new(f.buf))
		}
		f.buf = nil
		if errors.Is(err, io.EOF) && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	n, ok := parseHeader(head)
	if !ok {
		return nil, ErrHeader
	}
	if n > int64(f.limit) {
		return nil, &TooLargeError{Announced: n, Limit: f.limit}
	}
	if _, err := f.r.Discard(HeaderLen); err != nil {
		return nil, err
	}
	return f.payload(int(n))
}

func parseHeader(head []byte) (n int64, ok bool) {
	if head[HeaderLen-1] != '\n' {
		return 0, false
	}
	for _, c := range head[:HeaderLen-1] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | int64(c)
	}
	return n, true
}

// payload grows its buffer with the bytes that arrive, so that a header alone
// cannot make it allocate what it announces.
func (f *FrameReader) payload(n int) ([]byte, error) {
	if cap(f.buf) > keepBuffer && n <= keepBuffer {
		f.buf = nil
	}
	have := 0
	for have < n {
		want := min(n, max(2*have, firstGrowth, cap(f.buf)))
		if cap(f.buf) < want {
			f.grow(have, want)
		}
		m, err := io.ReadFull(f.r, f.buf[have:want])
		have += m
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return f.buf[:n], nil
}

// spare has buffers of readers that have come to their end: a guest reads one
// large frame on each of many connections. A reader that needs more than
// firstGrowth has shown with the bytes before that it is worth one.
var spare sync.Pool

// grow makes the buffer hold want bytes or more, and keeps have of them.
func (f *FrameReader) grow(have, want int) {
	var grown []byte
	if want > firstGrowth {
		if other, ok := spare.Get().(*[]byte); ok {
			grown = *other
		}
	}
	if len(grown) < want {
		grown = make([]byte, want)
	}
	copy(grown, f.buf[:have])
	f.buf = grown
}
