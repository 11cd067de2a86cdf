package policy

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/sandlot-go/sandlot/internal/jsontree"
	"github.com/sandlot-go/sandlot/k8s"
)

// Policies are read from undecoded JSON, so that a field of the wrong type is told apart from an absent one: the first cannot
// be judged, the second has its API meaning. Null is absent, as for the API server.

// objectOf returns v as an object. Like the other readers here it is not inlined: that would cost
// its hundreds of callers more than it saves them.
//
//go:noinline
func objectOf(v any) (map[string]any, bool) {
	switch m := v.(type) {
	case map[string]any:
		return m, m != nil
	case k8s.Object:
		return m, m != nil
	}
	return nil, false
}

// listField returns the list at key. An absent or null field is a nil list; ok is false for anything that is no list.
//
//go:noinline
func listField(m map[string]any, key string) (list []any, ok bool) {
	switch v := m[key].(type) {
	case nil:
		return nil, true
	case []any:
		return v, true
	}
	return nil, false
}

// present reports whether the field is there and not null.
//
//go:noinline
func present(m map[string]any, key string) bool { return m[key] != nil }

// unknownField returns the first field, in order of name and in quotes, that is present and not one of known; "" when there is
// none.
//
//go:noinline
func unknownField(m map[string]any, known ...string) string {
	if field, ok := strayField(m, known...); ok {
		return strconv.Quote(excerpt(field, 40))
	}
	return ""
}

// strayField is unknownField with the name as it is. A name may be empty.
func strayField(m map[string]any, known ...string) (field string, ok bool) {
	for key, v := range m {
		if v != nil && !slices.Contains(known, key) && (!ok || key < field) {
			field, ok = key, true
		}
	}
	return field, ok
}

// stringList returns the list at key as strings.
//
//go:noinline
func stringList(m map[string]any, key string) (list []string, ok bool) {
	raw, ok := listField(m, key)
	if !ok {
		return nil, false
	}
	for _, v := range raw {
		s, isString := v.(string)
		if !isString {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// wholeNumber returns v as an integer if it is a JSON number with an integer value.
func wholeNumber(v any) (int64, bool) {
	switch n := v.(type) {
	case json.Number:
		return jsontree.Whole(n)
	case float64:
		return int64(n), n == float64(int64(n)) && n <= 1<<53 && n >= -1<<53
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

// decimal reads a canonical decimal number. Leading zeros, signs, other bases and exponents are none: network plugins differ
// on them.
func decimal(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, false
	}
	return int64(n), true
}

// tri is an answer that may be unknown. The order makes min the AND and max the OR.
type tri int8

const (
	no tri = iota
	unknown
	yes
)

func triOf(b bool) tri {
	if b {
		return yes
	}
	return no
}

// excerpt cuts a text for a message.
func excerpt(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xc0 == 0x80 {
		limit--
	}
	return s[:limit] + "…"
}
