package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A Request is what arrived.
type Request struct {
	wire.Envelope
	Payload string
}

// A Check looks at a request. Its error may be a *StepError of which only Want
// and Got are set.
type Check func(Request) error

// Differs is the failure of a check.
func Differs(want, got any) error {
	return &StepError{Want: fmt.Sprint(want), Got: fmt.Sprint(got)}
}

// Expect reads one request, whose op must be the given one, and checks it.
func Expect(op string, checks ...Check) Step {
	return on(func(p *player, c *peer) error {
		if err := c.SetReadDeadline(time.Now().Add(p.patience)); err != nil {
			return err
		}
		b, err := c.frames.Next()
		if err != nil {
			return fmt.Errorf("no request came: %w", err)
		}
		e, err := wire.ParseEnvelope(b)
		if err != nil {
			return fmt.Errorf("%q: %w", short(string(b)), err)
		}
		r := Request{Envelope: e, Payload: string(b)}
		if e.Op != op {
			return Differs(fmt.Sprintf("op %q", op), short(r.Payload))
		}
		for _, check := range checks {
			if err := check(r); err != nil {
				return err
			}
		}
		return nil
	}, "Expect(%q)", op)
}

// Token checks the request's token; an empty one must be absent.
func Token(want string) Check {
	return func(r Request) error {
		if got, _ := r.Token.(string); got != want || want == "" && r.Token != nil {
			return Differs(fmt.Sprintf("token %q", want), fmt.Sprintf("token %v", r.Token))
		}
		return nil
	}
}

// Body checks that the body is the same JSON as want; an empty want means that
// there is none.
func Body(want string) Check {
	return func(r Request) error {
		var got struct{ Body json.RawMessage }
		if err := json.Unmarshal([]byte(r.Payload), &got); err != nil {
			return err
		}
		switch {
		case want == "" && got.Body == nil:
			return nil
		case want == "":
			return Differs("no body", "body "+short(string(got.Body)))
		case got.Body == nil:
			return Differs("body "+want, "no body")
		}
		if same, err := equal(want, string(got.Body)); err != nil {
			return err
		} else if !same {
			return Differs("body "+want, "body "+short(string(got.Body)))
		}
		return nil
	}
}

// Field checks one field of the body against a value as encoding/json would
// write it. A path goes through objects, its parts separated by dots; a nil
// want means that the field is absent.
func Field(path string, want any) Check {
	return func(r Request) error {
		got := any(r.Body)
		for part := range strings.SplitSeq(path, ".") {
			o, _ := got.(map[string]any)
			got = o[part]
		}
		w, err := json.Marshal(want)
		if err != nil {
			return err
		}
		g, err := json.Marshal(got)
		if err != nil {
			return err
		}
		if same, err := equal(string(w), string(g)); err != nil {
			return err
		} else if !same {
			return Differs(fmt.Sprintf("%s %s", path, w), fmt.Sprintf("%s %s", path, short(string(g))))
		}
		return nil
	}
}

// Capture keeps the request.
func Capture(r *Request) Check {
	return func(got Request) error { *r = got; return nil }
}

func equal(a, b string) (bool, error) {
	decode := func(s string) (v any, err error) {
		dec := json.NewDecoder(strings.NewReader(s))
		dec.UseNumber()
		if err = dec.Decode(&v); err != nil {
			err = fmt.Errorf("%q: %w", short(s), err)
		}
		return v, err
	}
	x, err := decode(a)
	if err != nil {
		return false, err
	}
	y, err := decode(b)
	return reflect.DeepEqual(x, y), err
}

// ExpectFrame reads one frame, which must be the same JSON as want.
func ExpectFrame(want string) Step {
	return on(func(p *player, c *peer) error {
		if err := c.SetReadDeadline(time.Now().Add(p.patience)); err != nil {
			return err
		}
		b, err := c.frames.Next()
		if err != nil {
			return fmt.Errorf("no frame came: %w", err)
		}
		if same, err := equal(want, string(b)); err != nil {
			return err
		} else if !same {
			return Differs(want, short(string(b)))
		}
		return nil
	}, "ExpectFrame(%s)", short(want))
}

// ExpectClose waits until the other side closes the connection, and fails when
// it sends anything before.
func ExpectClose() Step {
	return on(func(p *player, c *peer) error {
		if err := c.SetReadDeadline(time.Now().Add(p.patience)); err != nil {
			return err
		}
		b, err := c.frames.Next()
		if err == nil {
			return Differs("the connection closed", "a frame "+short(string(b)))
		}
		if !gone(err) {
			return fmt.Errorf("the connection was not closed: %w", err)
		}
		return nil
	}, "ExpectClose")
}

// Hang does nothing until the other side closes the connection. What that sends
// before is read and thrown away.
func Hang() Step {
	return on(func(p *player, c *peer) error {
		buf := make([]byte, 32<<10)
		for {
			if err := c.SetReadDeadline(time.Now().Add(p.patience)); err != nil {
				return err
			}
			if _, err := c.Read(buf); err != nil {
				if gone(err) {
					return nil
				}
				return fmt.Errorf("the connection was not closed: %w", err)
			}
		}
	}, "Hang")
}

// gone reports whether err is the peer's end of a connection, orderly or not.
func gone(err error) bool {
	return err == io.EOF || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// JSON marshals v for use in a check or a step, and panics when it cannot.
func JSON(v any) string {
	b, err := wire.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(bytes.TrimSpace(b))
}
