package jsontree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deeply arrays and objects may be nested.
const MaxDepth = 1000

// A SyntaxError reports text that is not JSON, or nested too deeply.
type SyntaxError struct {
	Offset  int // in bytes
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not JSON at byte %d: %s", e.Offset, e.Problem)
}

// Parse reads the one value that data consists of. Of equal keys the last
// counts; what is no UTF-8 becomes U+FFFD. Nothing of data is kept.
func Parse(data []byte) (any, error) {
	p := parser{data: data}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.blank(); p.at < len(data) {
		return nil, p.fail("something follows the value")
	}
	return v, nil
}

// ParseObject is Parse for what must be an object.
func ParseObject(data []byte) (map[string]any, error) {
	v, err := Parse(data)
	if err != nil {
		return nil, err
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, &SyntaxError{0, "not an object"}
	}
	return o, nil
}

// A parser is at a byte of its data.
type parser struct {
	data []byte
	at   int
}

func (p *parser) fail(problem string) error {
	if p.at >= len(p.data) {
		problem = "it ends too early"
	}
	return &SyntaxError{p.at, problem}
}

func (p *parser) blank() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

// next is the next byte after blanks, 0 at the end.
func (p *parser) next() byte {
	if p.blank(); p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

func (p *parser) value(depth int) (any, error) {
	switch c := p.next(); {
	case c == '{':
		return p.object(depth + 1)
	case c == '[':
		return p.array(depth + 1)
	case c == '"':
		return p.text()
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	}
	for _, l := range literals {
		if rest := p.data[p.at:]; len(rest) >= len(l.text) && string(rest[:len(l.text)]) == l.text {
			p.at += len(l.text)
			return l.value, nil
		}
	}
	return nil, p.fail("no value begins here")
}

var literals = []struct {
	text  string
	value any
}{{"null", nil}, {"true", true}, {"false", false}}

func (p *parser) object(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, p.fail("nested too deeply")
	}
	p.at++
	o := map[string]any{}
	if p.next() == '}' {
		p.at++
		return o, nil
	}
	for {
		if p.next() != '"' {
			return nil, p.fail("a key is expected")
		}
		key, err := p.text()
		if err != nil {
			return nil, err
		}
		if p.next() != ':' {
			return nil, p.fail("a colon is expected")
		}
		p.at++
		if o[key], err = p.value(depth); err != nil {
			return nil, err
		}
		switch p.next() {
		case ',':
			p.at++
		case '}':
			p.at++
			return o, nil
		default:
			return nil, p.fail("a comma or the end of the object is expected")
		}
	}
}

func (p *parser) array(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, p.fail("nested too deeply")
	}
	p.at++
	list := []any{}
	if p.next() == ']' {
		p.at++
		return list, nil
	}
	for {
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		switch p.next() {
		case ',':
			p.at++
		case ']':
			p.at++
			return list, nil
		default:
			return nil, p.fail("a comma or the end of the array is expected")
		}
	}
}

// number reads a number as it is written, by RFC 8259, section 6.
func (p *parser) number() (any, error) {
	start := p.at
	p.skip('-')
	if !p.skip('0') && !p.digits() {
		return nil, p.fail("a digit is expected")
	}
	if p.skip('.') && !p.digits() {
		return nil, p.fail("a digit is expected after the point")
	}
	if p.skip('e') || p.skip('E') {
		if !p.skip('+') {
			p.skip('-')
		}
		if !p.digits() {
			return nil, p.fail("a digit is expected in the exponent")
		}
	}
	return json.Number(p.data[start:p.at]), nil
}

func (p *parser) skip(c byte) bool {
	if p.at < len(p.data) && p.data[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) digits() bool {
	start := p.at
	for p.at < len(p.data) && '0' <= p.data[p.at] && p.data[p.at] <= '9' {
		p.at++
	}
	return p.at > start
}

// text reads a string. Most have nothing in them that must be translated, and
// large ones are mostly base64.
func (p *parser) text() (string, error) {
	p.at++
	n := bytes.IndexByte(p.data[p.at:], '"')
	if n < 0 || !plain(p.data[p.at:p.at+n]) {
		return p.translate(n)
	}
	s := string(p.data[p.at : p.at+n])
	p.at += n + 1
	return s, nil
}

// plain reports whether b is ASCII without backslashes and control characters. It
// looks at eight bytes at a time: none of them has its top bit set, nor gets it
// by borrowing when ' ' is taken from each, or 1 from its difference to '\\'.
func plain(b []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if (w|(w-' '*ones)|(w^'\\'*ones-ones))&tops != 0 {
			return false
		}
	}
	for _, c := range b {
		if c < ' ' || c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return true
}

// translate reads a string that has escapes or characters beyond ASCII in it, and
// perhaps as many bytes as size.
func (p *parser) translate(size int) (string, error) {
	out := make([]byte, 0, max(size, 32))
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			return string(out), nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case c < ' ':
			return "", p.fail("a control character in a string")
		case c < utf8.RuneSelf:
			start := p.at
			for p.at < len(p.data) && ' ' <= p.data[p.at] && p.data[p.at] < utf8.RuneSelf && p.data[p.at] != '"' && p.data[p.at] != '\\' {
				p.at++
			}
			out = append(out, p.data[start:p.at]...)
		default:
			r, n := utf8.DecodeRune(p.data[p.at:])
			out = utf8.AppendRune(out, r)
			p.at += n
		}
	}
	return "", p.fail("")
}

const (
	escapes = `"\/bfnrt`
	meant   = "\"\\/\b\f\n\r\t"
)

func (p *parser) escape() (rune, error) {
	p.at++
	if p.at >= len(p.data) {
		return 0, p.fail("")
	}
	c := p.data[p.at]
	if c == 'u' {
		p.at++
		return p.unicode()
	}
	for i := range len(escapes) {
		if escapes[i] == c {
			p.at++
			return rune(meant[i]), nil
		}
	}
	return 0, p.fail("no such escape")
}

// unicode reads the digits of a \u escape, and the second half of a surrogate
// pair. A half without the other is U+FFFD.
func (p *parser) unicode() (rune, error) {
	r, err := p.hex()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if rest := p.data[p.at:]; len(rest) > 1 && rest[0] == '\\' && rest[1] == 'u' {
		back := p.at
		p.at += 2
		low, err := p.hex()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
		p.at = back
	}
	return utf8.RuneError, nil
}

func (p *parser) hex() (rune, error) {
	if len(p.data)-p.at < 4 {
		p.at = len(p.data)
		return 0, p.fail("")
	}
	n, err := strconv.ParseUint(string(p.data[p.at:p.at+4]), 16, 16)
	if c := p.data[p.at]; err != nil || c == '+' || c == '-' {
		return 0, p.fail("four hexadecimal digits are expected")
	}
	p.at += 4
	return rune(n), nil
}
