package k8s

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"sync"
	"time"
)

// maxErrorBody bounds what is read of an answer that is an error.
const maxErrorBody = 64 << 10

// A call is a request before it is sent.
type call struct {
	target
	query       url.Values
	contentType string // of body
	body        []byte // nil for none
	limit       int64  // of the answer's body
}

// An attempt is a call on its way, with one credential.
type attempt struct {
	*call
	co    *core
	ctx   context.Context // of this one request
	token string
	start time.Time
	again bool // after a 401

	mu        sync.Mutex // guards what follows, which net/http reports from its goroutines
	connected bool       // a connection was there to write to
	sent      int        // times that the header was written
	sentAt    time.Time
}

// A reply is a whole answer of 2xx.
type reply struct {
	code  int
	body  []byte
	token string // it was asked for with this, which no error may repeat
}

// exchange makes a call and reads its answer.
func (co *core) exchange(ctx context.Context, q *call) (reply, error) {
	a, resp, err := co.open(ctx, q)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := a.readBody(resp)
	a.report(resp.StatusCode, err)
	return reply{resp.StatusCode, body, a.token}, err
}

// open makes a call, a second time after a 401 if there is another credential
// to show, and returns an answer of 2xx whose body is to be read. A 401 is
// given before a request has any effect, so this is right for every method.
func (co *core) open(ctx context.Context, q *call) (*attempt, *http.Response, error) {
	cred, err := co.credential(ctx, false)
	if err != nil {
		err := q.noCredential(ctx, err, co.cfg.RequestTimeout)
		report(ctx, RequestInfo{Method: q.method, Path: q.path, Kind: err.Kind})
		return nil, nil, err
	}
	a, resp, err := co.attempt(ctx, q, cred, false)
	if KindOf(err) != Unauthorized {
		return a, resp, err
	}
	refusal, _ := errors.AsType[*APIError](err)
	switch fresh, err := co.credential(ctx, true); {
	case err != nil && ended(ctx):
		return nil, nil, q.noCredential(ctx, err, co.cfg.RequestTimeout)
	case err != nil:
		refusal.hint = "and there is no other credential: " + excerpt(without(err.Error(), cred.token))
		return nil, nil, refusal
	case fresh == cred:
		refusal.hint = "the source still gives the credential that was refused: it has expired, or its account or pod is gone"
		return nil, nil, refusal
	default:
		a, resp, err := co.attempt(ctx, q, fresh, true)
		if e, ok := errors.AsType[*APIError](err); ok && e.Kind == Unauthorized {
			e.hint = "a fresh credential was refused too"
		}
		return a, resp, err
	}
}

// attempt sends a call once. It has reported itself if it returns an error.
func (co *core) attempt(ctx context.Context, q *call, cred credential, again bool) (*attempt, *http.Response, error) {
	a := &attempt{call: q, co: co, token: cred.token, start: time.Now(), again: again}
	a.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.connected = true
		},
		WroteHeaders: func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.sent++
			a.sentAt = time.Now()
		},
	})
	// The transport itself, without an http.Client around it: that would follow
	// redirects and put the URL into its errors.
	resp, err := cred.transport.RoundTrip(a.request())
	if err != nil {
		e := a.noAnswer(err)
		a.report(0, e)
		return nil, nil, e
	}
	a.heard(resp.Header)
	if resp.StatusCode/100 == 2 {
		return a, resp, nil
	}
	defer resp.Body.Close()
	err = a.refusal(resp)
	a.report(resp.StatusCode, err)
	return nil, nil, err
}

// request has no GetBody, on purpose. With it, an HTTP/2 transport would repeat
// a POST or PATCH by itself after parts of it were written, once the server
// resets its stream in certain ways. Without it, net/http repeats only requests
// that have no body, and what failed before anything was written is reported as
// NotApplied and left to the caller.
func (a *attempt) request() *http.Request {
	u := *a.co.base
	u.Path += a.path
	u.RawQuery = a.query.Encode()
	r := (&http.Request{
		Method: a.method, URL: &u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Accept":     {"application/json"},
			"User-Agent": {a.co.cfg.UserAgent},
		},
	}).WithContext(a.ctx)
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.body != nil {
		r.Header.Set("Content-Type", a.contentType)
		r.ContentLength = int64(len(a.body))
		r.Body = io.NopCloser(bytes.NewReader(a.body))
	}
	return r
}

// heard takes what every answer carries: the server's clock and its warnings.
func (a *attempt) heard(h http.Header) {
	now := time.Now()
	a.mu.Lock()
	sent := a.sentAt
	a.mu.Unlock()
	if date, ok := parseHTTPDate(h.Get("Date")); ok && !sent.IsZero() {
		a.co.clock.observe(sent, now, date)
	}
	if a.co.cfg.Warning == nil {
		return
	}
	var headers []string
	for _, s := range h.Values("Warning") {
		headers = append(headers, without(s, a.token))
	}
	for _, w := range parseWarnings(headers) {
		w.Method, w.Path = a.method, a.path
		a.co.cfg.Warning(w)
	}
}

// noCredential is the error of a request that could not even be put together.
func (t target) noCredential(ctx context.Context, err error, bound time.Duration) *APIError {
	if ended(ctx) {
		e := t.timeout(bound, true)
		e.hint = "Config.Token, a certificate or a file did not come in time"
		return e
	}
	e := t.fail(Credential, "no credential", err)
	e.NotApplied = true
	return e
}

func (t target) timeout(bound time.Duration, notApplied bool) *APIError {
	said := "the server may have applied it"
	if notApplied {
		said = "it was not sent"
	}
	e := t.fail(Timeout, fmt.Sprintf("no complete answer within the %v of Config.RequestTimeout; %s", bound, said), nil)
	e.NotApplied = notApplied
	return e
}

// noAnswer is the error of a round trip that failed. Without a connection
// nothing was written. With one, nothing was written unless the header was; but
// after the end of the context net/http may still be about to write it.
func (a *attempt) noAnswer(err error) *APIError {
	over := ended(a.ctx)
	a.mu.Lock()
	unsent := !a.connected || !over && a.sent == 0
	a.mu.Unlock()
	if over {
		return a.timeout(a.co.cfg.RequestTimeout, unsent)
	}
	e := a.fail(Unreachable, "", err)
	if _, ok := errors.AsType[*certificateError](err); ok {
		e.Kind, e.Message = Credential, "no credential"
	} else if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		e.hint = "the server's certificate does not descend from the CA that the client was given, or is for another name"
	}
	e.NotApplied = unsent
	e.redact(a.token)
	return e
}

// refusal reads the body of an answer outside 2xx and classifies it.
func (a *attempt) refusal(resp *http.Response) *APIError {
	body, err := readLimited(resp.Body, maxErrorBody)
	known := errors.Is(err, errOverLimit) || resp.StatusCode == 429 || resp.StatusCode >= 500
	if err != nil && !known {
		return a.brokenBody(resp.StatusCode, err)
	}
	return classify(a.target, answer{
		code: resp.StatusCode, header: textproto.MIMEHeader(resp.Header), body: body, cut: err != nil,
	}, a.token, time.Now())
}

// readBody reads the body of an answer of 2xx.
func (a *attempt) readBody(resp *http.Response) ([]byte, error) {
	if err := a.wantJSON(resp); err != nil {
		return nil, err
	}
	if resp.ContentLength > a.limit {
		return nil, a.tooLarge(resp.StatusCode)
	}
	body, err := readLimited(resp.Body, a.limit)
	switch {
	case errors.Is(err, errOverLimit):
		return nil, a.tooLarge(resp.StatusCode)
	case err != nil:
		return nil, a.brokenBody(resp.StatusCode, err)
	}
	return body, nil
}

// wantJSON refuses an answer that says it is something else: the usual cause is
// a login page.
func (a *attempt) wantJSON(resp *http.Response) error {
	header := resp.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(header)
	if err == nil && kind == "application/json" || header == "" {
		return nil
	}
	e := a.fail(Protocol, "the answer is "+excerpt(without(header, a.token))+", not JSON; is this the API server?", nil)
	e.Code = resp.StatusCode
	if b, err := readLimited(resp.Body, maxErrorBody); err == nil || errors.Is(err, errOverLimit) {
		e.Excerpt = excerpt(without(string(b), a.token))
	}
	return e
}

func (a *attempt) tooLarge(code int) *APIError {
	e := a.fail(TooLarge, fmt.Sprintf("the answer has more than the %d bytes that are allowed", a.limit), nil)
	e.Code = code
	return e
}

// brokenBody is the error of an answer whose body did not come to its end.
func (a *attempt) brokenBody(code int, err error) *APIError {
	if ended(a.ctx) {
		e := a.timeout(a.co.cfg.RequestTimeout, false)
		e.Code = code
		return e
	}
	e := a.fail(Unreachable, "the answer broke off", err)
	e.Code = code
	e.redact(a.token)
	return e
}

// report tells the traces that the attempt is over.
func (a *attempt) report(code int, err error) {
	a.mu.Lock()
	sent := a.sent
	a.mu.Unlock()
	report(a.ctx, RequestInfo{
		Method: a.method, Path: a.path, Code: code, Kind: KindOf(err),
		Duration: time.Since(a.start), Retry: a.again, Sent: sent,
	})
}

var errOverLimit = errors.New("k8s: body over its limit")

// readLimited reads at most limit bytes. With more there it returns the first
// limit of them and errOverLimit: a body that is cut must never pass for a
// whole one.
func readLimited(r io.Reader, limit int64) ([]byte, error) {
	var b bytes.Buffer
	_, err := b.ReadFrom(io.LimitReader(r, limit+1))
	if int64(b.Len()) > limit {
		return b.Bytes()[:limit], errOverLimit
	}
	return b.Bytes(), err
}
