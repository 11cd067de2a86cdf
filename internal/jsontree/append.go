package jsontree

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Append appends v as compact JSON, the keys of objects sorted. Beside what
// Parse returns it takes numbers, and maps with string keys, slices and pointers
// of what it takes, of any named type; a struct it refuses.
func Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case string:
		return AppendString(dst, v), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case json.Number:
		return appendNumber(dst, string(v))
	case map[string]any:
		return appendObject(dst, v)
	case []any:
		return appendArray(dst, v)
	}
	return appendOther(dst, reflect.ValueOf(v))
}

func appendNumber(dst []byte, s string) ([]byte, error) {
	if s == "" {
		s = "0" // as encoding/json has it
	}
	p := parser{data: []byte(s)}
	if c := s[0]; c == '-' || '0' <= c && c <= '9' {
		if _, err := p.number(); err == nil && p.at == len(s) {
			return append(dst, s...), nil
		}
	}
	return nil, fmt.Errorf("jsontree: %.40q is no number", s)
}

func appendObject(dst []byte, o map[string]any) ([]byte, error) {
	if o == nil {
		return append(dst, "null"...), nil
	}
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, k), ':')
		var err error
		if dst, err = Append(dst, o[k]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendArray(dst []byte, list []any) ([]byte, error) {
	if list == nil {
		return append(dst, "null"...), nil
	}
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = Append(dst, v); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// appendOther handles the named and the less usual types.
func appendOther(dst []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.String:
		return AppendString(dst, v.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		return appendFloat(dst, v.Float())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		return Append(dst, v.Elem().Interface())
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			break
		}
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		o := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			o[it.Key().String()] = it.Value().Interface()
		}
		return appendObject(dst, o)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break // encoding/json would make base64 of it; nobody here means that
		}
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = v.Index(i).Interface()
		}
		return appendArray(dst, list)
	}
	return nil, fmt.Errorf("jsontree: a %s cannot be written", v.Type())
}

func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("jsontree: %v is no JSON number", f)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64), nil
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. What is no UTF-8 becomes U+FFFD, byte
// by byte.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[done:i]...)
			dst = appendEscape(dst, c)
			i++
			done = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(append(dst, s[done:i]...), `\ufffd`...)
			done = i + n
		case r == '\u2028' || r == '\u2029': // which JavaScript took for line ends
			dst = append(append(dst, s[done:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			done = i + n
		}
		i += n
	}
	return append(append(dst, s[done:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	for i := range len(meant) {
		if meant[i] == c { // a slash never comes here
			return append(dst, '\\', escapes[i])
		}
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}
