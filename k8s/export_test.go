package k8s

import (
	"bufio"
	"bytes"
	"context"
	"net/textproto"
	"time"
)

// InClusterAt is InCluster with the mounted folder and the environment given.
var InClusterAt = inCluster

var (
	ParseRetryAfter = parseRetryAfter
	ParseWarnings   = parseWarnings
	ServiceURL      = serviceURL
	ReadLimited     = readLimited
	ErrOverLimit    = errOverLimit
	Printable       = excerpt
)

const (
	MaxAsking = maxAsking
	MaxToken  = maxToken
	MaxFile   = maxFile
	PingAfter = pingAfter
	PingWait  = pingTimeout
	MaxPages  = maxPages
	WatchTime = watchTime
)

// RetryReadWith is RetryRead with a chosen chance.
func RetryReadWith[T any](ctx context.Context, b Backoff, random func() float64, read func(context.Context) (T, error)) (T, error) {
	return retryRead(ctx, b, random, read)
}

// Next is the decision of RetryRead.
func (b Backoff) Next(err error, n int, random float64, left time.Duration) (time.Duration, bool) {
	return b.withDefaults().next(err, n, random, left)
}

// Classify is what becomes of an answer outside 2xx.
func Classify(method string, r Resource, name string, code int, header map[string][]string, body []byte, secret string, now time.Time) *APIError {
	t := target{method: method, path: "/p", resource: r, name: name}
	return classify(t, answer{code: code, header: textproto.MIMEHeader(header), body: body}, secret, now)
}

// ParseEvent reads one line of a watch of a claim.
func ParseEvent(line []byte, name string) (Event, *APIError) {
	return parseEvent(target{method: "GET", path: "/p", resource: SandboxClaims, name: name}, line, "", time.Time{})
}

// ParsePage reads one page of a list.
func ParsePage(body []byte) (items []Object, next string, err error) {
	p, err := parsePage(body)
	return p.items, p.next, err
}

// ReadLine reads one line of a stream.
func ReadLine(stream []byte, limit int) ([]byte, error) {
	return readLine(bufio.NewReaderSize(bytes.NewReader(stream), 16), limit)
}

// A Clock is what learns the server's time.
type Clock struct{ c clock }

func (c *Clock) Observe(sent, received, date time.Time) { c.c.observe(sent, received, date) }
func (c *Clock) Offset() (time.Duration, bool)          { return c.c.offset() }
