package k8s

import (
	"errors"
	"fmt"
	"time"
)

// The types of events.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
)

const (
	bookmark   = "BOOKMARK"
	errorEvent = "ERROR"
)

// An Event is one change of a watched object.
type Event struct {
	Type   string // Added, Modified or Deleted
	Object Object // as it is now, or was last
}

// badEvent is the error of an event that is not what it should be.
//
//go:noinline
func (t target) badEvent(err error, secret string) *APIError {
	e := t.fail(Protocol, "an event is not what it should be", err)
	e.Code = 200
	e.redact(secret)
	return e
}

// parseEvent reads one line of a watch of an object. An ERROR event becomes an
// error of the kind that its Status says, so that nobody takes that Status for
// an object. Bookmarks come back with no error and the type they have.
func parseEvent(t target, line []byte, secret string, now time.Time) (Event, *APIError) {
	bad := func(err error) (Event, *APIError) { return Event{}, t.badEvent(err, secret) }
	o, err := ParseObject(line)
	if err != nil {
		return bad(err)
	}
	object := o.Map("object")
	if object == nil {
		return bad(errors.New("it has no object"))
	}
	switch kind := o.Text("type"); kind {
	case Added, Modified, Deleted:
		if _, ok := statusOf(object); ok {
			return bad(fmt.Errorf("%s of a Status", kind))
		}
		if object.Name() != t.name {
			return bad(fmt.Errorf("it is about %q, not %s", excerpt(without(object.Name(), secret)), t.name))
		}
		return Event{kind, object}, nil
	case bookmark:
		return Event{kind, object}, nil
	case errorEvent:
		st, ok := statusOf(object)
		if !ok || st.code < 400 {
			return bad(errors.New("ERROR without a Status of a failure"))
		}
		body, err := encode(object)
		if err != nil {
			return bad(err)
		}
		return Event{}, classify(t, answer{code: st.code, body: body}, secret, now)
	default:
		return bad(fmt.Errorf("its type is %q", excerpt(without(kind, secret))))
	}
}
