package wire

import (
	"encoding/json"
	"fmt"

	"github.com/sandlot-go/sandlot/internal/jsontree"
)

// A MessageError reports a payload that is not the message it should be.
type MessageError struct {
	Message string // what was expected, such as "reserve-execution reply"
	Problem string
}

func (e *MessageError) Error() string {
	return fmt.Sprintf("wire: invalid %s: %s", e.Message, e.Problem)
}

// message is one decoded object whose fields are read strictly: a field is of
// its type or the message is refused.
type message struct {
	name   string
	fields map[string]any
	err    error
}

func parse(name string, payload []byte) *message {
	v, err := jsontree.Parse(payload)
	m := &message{name: name}
	var ok bool
	switch m.fields, ok = v.(map[string]any); {
	case err != nil:
		m.fail("not a JSON object: %v", err)
	case v == nil:
		m.fail("null instead of an object")
	case !ok:
		m.fail("not a JSON object")
	}
	return m
}

func (m *message) fail(format string, args ...any) {
	if m.err == nil {
		m.err = &MessageError{Message: m.name, Problem: fmt.Sprintf(format, args...)}
	}
}

// field stores the field in v and reports whether it is there. A null counts as
// absent.
func field[T bool | string | []any | map[string]any](m *message, key string, required bool, v *T) bool {
	typed, ok := m.fields[key].(T)
	if ok {
		*v = typed
	} else {
		m.lacks(key, required)
	}
	return ok
}

// lacks fails unless the field is absent and may be.
func (m *message) lacks(key string, required bool) {
	if m.fields[key] != nil {
		m.fail("%s is of the wrong type", key)
	} else if required {
		m.fail("no %s", key)
	}
}

// texts is field for a list of strings.
func (m *message) texts(key string, v *[]string) {
	var list []any
	if !field(m, key, false, &list) {
		return
	}
	*v = make([]string, 0, len(list))
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			m.fail("%s is not a list of strings", key)
			return
		}
		*v = append(*v, s)
	}
}

// integer is field for a whole number that both sides can hold exactly.
func (m *message) integer(key string, required bool, v *int64) bool {
	number, ok := m.fields[key].(json.Number)
	if !ok {
		m.lacks(key, required)
		return false
	}
	n, whole := jsontree.Whole(number)
	if !whole || n < -MaxSafeInteger || n > MaxSafeInteger {
		m.fail("%s is no safe integer", key)
		return false
	}
	*v = n
	return true
}

// size is integer for a number of bytes, or a position.
func (m *message) size(key string, required bool, v *int64) bool {
	if !m.integer(key, required, v) {
		return false
	}
	if *v < 0 {
		m.fail("%s is negative", key)
		return false
	}
	return true
}
