package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// chunks is a reader whose every Read returns one of its pieces.
type chunks [][]byte

func (c *chunks) Read(p []byte) (int, error) {
	for len(*c) > 0 && len((*c)[0]) == 0 {
		*c = (*c)[1:]
	}
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	(*c)[0] = (*c)[0][n:]
	return n, nil
}

func TestAppendFrame(t *testing.T) {
	for _, tt := range []struct {
		name, payload, want string
	}{
		{"an empty payload is the terminator", "", "00000000\n"},
		{"digits are lower case and the payload follows at once", strings.Repeat("x", 0xab), "000000ab\n" + strings.Repeat("x", 0xab)},
		{"the length counts bytes, not characters", "é€", "00000005\né€"},
		{"a payload may hold line feeds", "\n\n", "00000002\n\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(wire.AppendFrame(nil, []byte(tt.payload))); got != tt.want {
				t.Errorf("AppendFrame(%q) = %q, want %q", tt.payload, got, tt.want)
			}
			buf := append(make([]byte, wire.HeaderLen), tt.payload...)
			wire.PutHeader(buf)
			if string(buf) != tt.want {
				t.Errorf("PutHeader made %q, want %q", buf, tt.want)
			}
		})
	}
	if got := string(wire.AppendFrame([]byte("before"), []byte("x"))); got != "before00000001\nx" {
		t.Errorf("AppendFrame after something = %q", got)
	}
}

// TestFramesSplitAtEveryByte cuts a stream of frames in two and in three at
// every position.
func TestFramesSplitAtEveryByte(t *testing.T) {
	payloads := []string{`{"a":1}`, "", "é\n", strings.Repeat("z", 40), ""}
	var stream []byte
	for _, p := range payloads {
		stream = wire.AppendFrame(stream, []byte(p))
	}
	check := func(name string, r io.Reader) {
		t.Helper()
		fr := wire.NewFrameReader(r, 64)
		for i, want := range payloads {
			got, err := fr.Next()
			if err != nil || string(got) != want {
				t.Fatalf("%s: frame %d = %q, %v, want %q", name, i, got, err, want)
			}
		}
		if got, err := fr.Next(); err != io.EOF {
			t.Fatalf("%s: after the last frame = %q, %v, want io.EOF itself", name, got, err)
		}
	}
	for i := range len(stream) + 1 {
		check(fmt.Sprintf("cut at %d", i), &chunks{stream[:i], stream[i:]})
		for j := i; j <= len(stream); j += 7 {
			check(fmt.Sprintf("cut at %d and %d", i, j), &chunks{stream[:i], stream[i:j], stream[j:]})
		}
	}
	check("byte by byte", iotest.OneByteReader(bytes.NewReader(stream)))
	check("with the EOF in the last read", iotest.DataErrReader(bytes.NewReader(stream)))
}

// TestFrameEndsAtEveryByte ends the stream inside a frame.
func TestFrameEndsAtEveryByte(t *testing.T) {
	stream := wire.AppendFrame(nil, []byte("0123456789"))
	for n := range len(stream) + 1 {
		want := io.ErrUnexpectedEOF
		switch n {
		case 0:
			want = io.EOF
		case len(stream):
			want = nil
		}
		got, err := wire.NewFrameReader(bytes.NewReader(stream[:n]), 10).Next()
		if err != want {
			t.Errorf("the first %d of %d bytes: %q, %v, want %v", n, len(stream), got, err, want)
		}
	}
}

func TestFrameReaderRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         error
	}{
		{"a line feed too early", "000001\n{}xxxxxx", wire.ErrHeader},
		{"no line feed within nine bytes", "000000001\n", wire.ErrHeader},
		{"a flood without any line feed", strings.Repeat("0", 1<<20), wire.ErrHeader},
		{"letters that are no digits", "zzzzzzzz\n", wire.ErrHeader},
		{"a sign", "+0000001\nx", wire.ErrHeader},
		{"a prefix", "0x000001\nx", wire.ErrHeader},
		{"blanks for zeros", "       1\nx", wire.ErrHeader},
		{"an underscore between digits", "0000_001\nx", wire.ErrHeader},
		{"a carriage return", "0000001\r\nx", wire.ErrHeader},
		{"an HTTP request", "GET / HTTP/1.1\r\n\r\n", wire.ErrHeader},
		{"digits of another script", "٠٠٠٠\n", wire.ErrHeader},
		{"fewer than nine bytes of nonsense are an unfinished header", "zzzz", io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := wire.NewFrameReader(strings.NewReader(tt.stream), 100).Next(); !errors.Is(err, tt.want) {
				t.Errorf("Next(%.40q) = %q, %v, want %v", tt.stream, got, err, tt.want)
			}
		})
	}
}

func TestFrameReaderAcceptsUpperCaseDigits(t *testing.T) {
	got, err := wire.NewFrameReader(strings.NewReader("0000000A\n0123456789"), 10).Next()
	if err != nil || string(got) != "0123456789" {
		t.Errorf("Next = %q, %v", got, err)
	}
}

// TestFrameLimit reads a frame of exactly the limit and one of a byte more, and
// sees that nothing of the latter's payload is asked for.
func TestFrameLimit(t *testing.T) {
	for _, limit := range []int{0, 1, 1 << 10, wire.MaxFirstFrame} {
		fits := wire.AppendFrame(nil, make([]byte, limit))
		if got, err := wire.NewFrameReader(bytes.NewReader(fits), limit).Next(); err != nil || len(got) != limit {
			t.Errorf("limit %d: a frame of that size = %d bytes, %v", limit, len(got), err)
		}
		header := wire.AppendFrame(nil, make([]byte, limit+1))[:wire.HeaderLen]
		_, err := wire.NewFrameReader(bytes.NewReader(header), limit).Next()
		want := wire.TooLargeError{Announced: int64(limit) + 1, Limit: limit}
		if got, ok := errors.AsType[*wire.TooLargeError](err); !ok || *got != want {
			t.Errorf("limit %d: the header alone of one byte more = %v, want %v", limit, err, &want)
		}
	}
	_, err := wire.NewFrameReader(strings.NewReader("ffffffff\n"), wire.MaxFrame).Next()
	if got, ok := errors.AsType[*wire.TooLargeError](err); !ok || got.Announced != 1<<32-1 {
		t.Errorf("the largest header there is = %v", err)
	}
}

func TestSetLimitCountsForTheNextFrame(t *testing.T) {
	stream := wire.AppendFrame(wire.AppendFrame(nil, []byte("ab")), []byte("0123456789"))
	fr := wire.NewFrameReader(bytes.NewReader(stream), 2)
	if got, err := fr.Next(); err != nil || string(got) != "ab" {
		t.Fatalf("first = %q, %v", got, err)
	}
	if got, err := fr.Next(); err == nil {
		t.Fatalf("second under the old limit = %q", got)
	}
	fr.SetLimit(10)
	if got, err := fr.Next(); err != nil || string(got) != "0123456789" {
		t.Errorf("second under the new limit = %q, %v", got, err)
	}
}

func TestBufferedCountsWhatBelongsToNoFrame(t *testing.T) {
	fr := wire.NewFrameReader(strings.NewReader("00000002\nabtail"), 10)
	if _, err := fr.Next(); err != nil {
		t.Fatal(err)
	}
	if got := fr.Buffered(); got != len("tail") {
		t.Errorf("Buffered = %d, want %d", got, len("tail"))
	}
}

// TestStreamErrorsComeThrough sees that a failing connection is not mistaken
// for a malformed peer, and that a time-out between frames loses nothing.
func TestStreamErrorsComeThrough(t *testing.T) {
	boom := errors.New("boom")
	stream := wire.AppendFrame(nil, []byte("0123456789"))
	for n := range stream {
		_, err := wire.NewFrameReader(io.MultiReader(bytes.NewReader(stream[:n]), iotest.ErrReader(boom)), 10).Next()
		if !errors.Is(err, boom) {
			t.Errorf("after %d bytes: %v, want %v", n, err, boom)
		}
	}
	fr := wire.NewFrameReader(iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(stream))), 10)
	if _, err := fr.Next(); err != iotest.ErrTimeout {
		t.Fatalf("Next = %v, want %v", err, iotest.ErrTimeout)
	}
	if got, err := fr.Next(); err != nil || string(got) != "0123456789" {
		t.Errorf("Next after a time-out inside the header = %q, %v", got, err)
	}
}

// TestHeaderAloneAllocatesLittle announces 256 MiB and sends none of it.
func TestHeaderAloneAllocatesLittle(t *testing.T) {
	head := []byte("10000000\nx")
	got := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			wire.NewFrameReader(bytes.NewReader(head), wire.MaxFrame).Next()
		}
	})
	if per := got.AllocedBytesPerOp(); per > 256<<10 {
		t.Errorf("a header without its payload cost %d bytes, want at most 256 KiB", per)
	}
}

// TestReadingIsLinear compares the work per byte of a small and of a hundred
// times larger stream, delivered in tiny reads: the copies that are made must
// not grow with the size.
func TestReadingIsLinear(t *testing.T) {
	work := func(size int) float64 {
		stream := wire.AppendFrame(nil, make([]byte, size))
		got := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				fr := wire.NewFrameReader(&halves{stream, 512}, size)
				if _, err := fr.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
		return float64(got.AllocedBytesPerOp()) / float64(size)
	}
	if got := work(16 << 20); got > 4 {
		t.Errorf("%.1f bytes were allocated for each byte of a 16 MiB frame, want at most 4", got)
	}
}

// halves is a reader that gives at most n bytes at a time.
type halves struct {
	rest []byte
	n    int
}

func (h *halves) Read(p []byte) (int, error) {
	if len(h.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), h.n)], h.rest)
	h.rest = h.rest[n:]
	return n, nil
}

func TestLargeBufferIsLetGo(t *testing.T) {
	var stream []byte
	stream = wire.AppendFrame(stream, make([]byte, 4<<20))
	for range 3 {
		stream = wire.AppendFrame(stream, []byte("small"))
	}
	fr := wire.NewFrameReader(bytes.NewReader(stream), 8<<20)
	for i := range 4 {
		got, err := fr.Next()
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && cap(got) > 1<<20 {
			t.Errorf("frame %d of %d bytes sits in a buffer of %d", i, len(got), cap(got))
		}
	}
}
