package k8s

import (
	"net/textproto"
	"net/url"
	"time"
)

// A target is what a request is about: what a 404 has to name before it says
// anything of the object.
type target struct {
	method, path string
	resource     Resource
	name         string // "" for a collection
	jsonPatch    bool
}

// fail returns an error about the target that has no answer to report.
func (t target) fail(kind Kind, message string, err error) *APIError {
	return &APIError{Kind: kind, Method: t.method, Path: t.path, Message: message, Err: err}
}

// An answer is what came outside 2xx.
type answer struct {
	code   int
	header textproto.MIMEHeader
	body   []byte
	cut    bool // the body goes on: what there is of it is no Status, even if it looks whole
}

// classify decides what an answer outside 2xx means. The code comes first; the
// body is believed only where it is a Status. It never fails: whatever the
// answer is, its code is reported. The secret is cut out of all texts.
func classify(t target, a answer, secret string, now time.Time) *APIError {
	code := a.code
	e := &APIError{Method: t.method, Path: t.path, Code: code}
	var st status
	ok := false
	if !a.cut {
		st, ok = parseStatus(a.body)
	}
	if ok {
		e.Reason, e.Message, e.Details = st.reason, st.message, st.details
	} else {
		// Before it is shortened, which could leave a part of the secret.
		e.Excerpt = excerpt(without(string(a.body), secret))
	}
	e.Kind = kindOf(t, code, st)
	e.NotApplied = refused(code)
	if code == 429 || code >= 500 {
		e.RetryAfter, e.HasRetryAfter = retryAfter(a.header, e.Details, now)
	}
	switch {
	case e.Kind == Redirect:
		// The host alone: a path or a query may carry anything.
		e.Message, e.Excerpt = "redirect", ""
		if u, err := url.Parse(a.header.Get("Location")); err == nil && u.Host != "" {
			e.Message = "redirect to host " + u.Host
		}
		e.hint = "redirects are never followed, because credentials would follow them"
	case e.Kind == NotServed && !ok:
		e.hint = "no Status: the server does not serve this resource, or it is not the API server"
	case e.Kind == Invalid && t.jsonPatch:
		// The server gives one and the same answer in both cases.
		e.hint = "either a test operation no longer holds or the patch is wrong; nothing was changed"
	}
	e.redact(secret)
	return e
}

func kindOf(t target, code int, st status) Kind {
	switch code {
	case 400:
		return BadRequest
	case 401:
		return Unauthorized
	case 403:
		return Forbidden
	case 404:
		if st.reason == "NotFound" && t.isNamed(st.details) {
			return NotFound
		}
		return NotServed
	case 405:
		return MethodNotAllowed
	case 409:
		if st.reason == "AlreadyExists" {
			return Exists
		}
		return Conflict
	case 410:
		return Gone
	case 413:
		return TooLarge
	case 422:
		return Invalid
	case 429:
		return TooManyRequests
	}
	switch {
	case code >= 300 && code < 400:
		return Redirect
	case code >= 500 && code < 600:
		return ServerError
	}
	return Status
}

// isNamed reports whether d names the target itself. A POST has no object to
// name yet: its 404 is about the namespace.
func (t target) isNamed(d *Details) bool {
	return d != nil && t.name != "" && t.method != "POST" &&
		d.Name == t.name &&
		(d.Kind == "" || d.Kind == t.resource.Plural || d.Kind == t.resource.Kind) &&
		(d.Group == "" || d.Group == t.resource.Group)
}

// refused reports whether a code says that the request was not carried out.
func refused(code int) bool {
	switch code {
	case 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429:
		return true
	}
	return false
}

// retryAfter takes the header, and the Status where the header is missing. A
// date is compared with the server's own clock if the answer carries it.
func retryAfter(header textproto.MIMEHeader, d *Details, now time.Time) (time.Duration, bool) {
	if t, ok := parseHTTPDate(header.Get("Date")); ok {
		now = t
	}
	if wait, ok := parseRetryAfter(header.Get("Retry-After"), now); ok {
		return wait, true
	}
	if d != nil && d.RetryAfterSeconds > 0 {
		return min(time.Duration(d.RetryAfterSeconds)*time.Second, maxRetryAfter), true
	}
	return 0, false
}

// A status is the API server's own description of an outcome.
type status struct {
	outcome, reason, message string
	code                     int
	details                  *Details
}

// parseStatus reports whether body is a Status.
func parseStatus(body []byte) (status, bool) {
	o, err := ParseObject(body)
	if err != nil {
		return status{}, false
	}
	return statusOf(o)
}

// statusOf reports whether o is a Status: its kind says so and its status field
// is a text, while an object's is an object.
func statusOf(o Object) (status, bool) {
	if o.Text("kind") != "Status" {
		return status{}, false
	}
	if _, object := o["status"].(map[string]any); object {
		return status{}, false
	}
	st := status{outcome: o.Text("status"), reason: o.Text("reason"), message: o.Text("message")}
	if n, ok := o.Int("code"); ok && n >= 0 && n < 1000 {
		st.code = int(n)
	}
	if m := o.Map("details"); m != nil {
		d := &Details{Name: m.Text("name"), Group: m.Text("group"), Kind: m.Text("kind"), UID: m.Text("uid")}
		if n, ok := m.Int("retryAfterSeconds"); ok {
			d.RetryAfterSeconds = int(min(max(n, 0), int64(maxRetryAfter/time.Second)))
		}
		for _, v := range m.List("causes") {
			if c := mapOf(v); c != nil {
				d.Causes = append(d.Causes, Cause{Reason: c.Text("reason"), Message: c.Text("message"), Field: c.Text("field")})
			}
		}
		st.details = d
	}
	return st, true
}
