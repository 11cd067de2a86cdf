package k8s

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Kind says what may be concluded from a failed request.
type Kind string

// The kinds of failure.
const (
	Unreachable      Kind = "unreachable"        // no complete answer: DNS, TCP, TLS, a connection that broke
	Timeout          Kind = "timeout"            // no complete answer within Config.RequestTimeout
	Unauthorized     Kind = "unauthorized"       // 401
	Forbidden        Kind = "forbidden"          // 403
	NotFound         Kind = "not-found"          // 404 that names the object: it is not there
	NotServed        Kind = "not-served"         // any other 404: of the object nothing is known
	MethodNotAllowed Kind = "method-not-allowed" // 405
	Gone             Kind = "gone"               // 410: a resource version or a continue token is too old
	Conflict         Kind = "conflict"           // 409
	Exists           Kind = "exists"             // 409 AlreadyExists
	Invalid          Kind = "invalid"            // 422, or refused here before it was sent
	BadRequest       Kind = "bad-request"        // 400
	TooManyRequests  Kind = "too-many-requests"  // 429
	ServerError      Kind = "server-error"       // 5xx
	Redirect         Kind = "redirect"           // 3xx, never followed
	TooLarge         Kind = "too-large"          // a body over the limit, theirs or ours
	Protocol         Kind = "protocol"           // an answer that is not what the API promises
	Credential       Kind = "credential"         // the source of the token or certificate failed
	Status           Kind = "status"             // any other code
)

// An APIError is a request that did not succeed.
type APIError struct {
	Kind         Kind
	Method, Path string
	Code         int    // of the answer, 0 when there was none
	Reason       string // of the server's Status, such as "AlreadyExists"
	Message      string // the server's words; ours when Code is 0
	Details      *Details

	// RetryAfter is how long the server asks to wait. Zero is a valid wait, so
	// HasRetryAfter reports whether it asked.
	RetryAfter    time.Duration
	HasRetryAfter bool

	// NotApplied reports that the request certainly had no effect: it never
	// left, or the server refused it.
	NotApplied bool

	Excerpt string // begin of a body that is no Status, escaped
	Err     error  // the failure underneath, if any

	hint string // what the reader should look at
}

// Details are those of a server's Status.
type Details struct {
	Name, Group, Kind, UID string
	Causes                 []Cause
	RetryAfterSeconds      int
}

// A Cause is one of the reasons why an object was refused.
type Cause struct{ Reason, Message, Field string }

func (e *APIError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "k8s: %s %s", e.Method, clip(e.Path, excerptLimit))
	said := e.Message
	if said == "" {
		said = e.Excerpt
	}
	switch {
	case e.Code != 0:
		fmt.Fprintf(&b, " -> %d", e.Code)
		// A 401 or 403 that is no Status was written by something in between:
		// its page explains nothing and stays in Excerpt.
		if e.Message == "" && (e.Kind == Unauthorized || e.Kind == Forbidden) {
			said = ""
		}
	case e.Kind == Unreachable:
		b.WriteString(" failed")
	}
	if said != "" {
		b.WriteString(": " + excerpt(said))
	}
	if e.Err != nil {
		b.WriteString(": " + excerpt(e.Err.Error()))
	}
	if e.Kind == Protocol && e.Message != "" && e.Excerpt != "" {
		b.WriteString("; it begins: " + e.Excerpt)
	}
	if e.hint != "" {
		b.WriteString(" (" + e.hint + ")")
	}
	return b.String()
}

func (e *APIError) Unwrap() error { return e.Err }

// redact removes a secret from all texts of the error. A server, a proxy or a
// webhook may echo it.
func (e *APIError) redact(secret string) {
	if secret == "" {
		return
	}
	texts := []*string{&e.Reason, &e.Message, &e.Excerpt}
	if d := e.Details; d != nil {
		texts = append(texts, &d.Name, &d.Group, &d.Kind, &d.UID)
		for i := range d.Causes {
			c := &d.Causes[i]
			texts = append(texts, &c.Reason, &c.Message, &c.Field)
		}
	}
	for _, s := range texts {
		*s = without(*s, secret)
	}
	if e.Err != nil {
		if text := e.Err.Error(); without(text, secret) != text {
			// The chain would print it, so only its text goes on.
			e.Err = errors.New(without(text, secret))
		}
	}
}

// KindOf returns the kind of the [*APIError] in err, "" when there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*APIError](err); ok {
		return e.Kind
	}
	return ""
}

// IsNotFound reports whether err proves that the object itself is not there.
func IsNotFound(err error) bool { return KindOf(err) == NotFound }

// SafeToRetry reports whether a read that failed with err may succeed if it is
// just repeated. For a write, look at NotApplied first. A certificate that does
// not verify is not repeated: it needs an operator.
func SafeToRetry(err error) bool {
	switch KindOf(err) {
	case Unreachable:
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
		return !untrusted
	case Timeout, TooManyRequests, ServerError:
		return true
	}
	return false
}
