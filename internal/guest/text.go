package guest

import (
	"strings"
	"unicode/utf8"
)

// decodeText makes text of bytes that may be no UTF-8: each maximal part of
// what could have been a character becomes one U+FFFD, as the WHATWG Encoding
// Standard has it and unlike Go's conversions, which replace every byte.
func decodeText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	out.Grow(len(b) + len(b)/8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = brokenLen(b)
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

// brokenLen is the length of the broken character that b begins with: its first
// byte and the bytes after it that could still have belonged to it.
func brokenLen(b []byte) int {
	low, high, more := byte(0x80), byte(0xbf), 0
	switch c := b[0]; {
	case 0xc2 <= c && c <= 0xdf:
		more = 1
	case 0xe0 <= c && c <= 0xef:
		more = 2
		switch c {
		case 0xe0:
			low = 0xa0 // below: overlong
		case 0xed:
			high = 0x9f // above: surrogates
		}
	case 0xf0 <= c && c <= 0xf4:
		more = 3
		switch c {
		case 0xf0:
			low = 0x90 // below: overlong
		case 0xf4:
			high = 0x8f // above: beyond U+10FFFF
		}
	}
	n := 1
	for n <= more && n < len(b) && low <= b[n] && b[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}
