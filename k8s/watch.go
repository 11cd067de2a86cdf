package k8s

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// watchTime is how long a server is asked to keep a watch, unless the caller's
// deadline is nearer.
const watchTime = 5 * time.Minute

// eventOverhead is what an event may have beside its object.
const eventOverhead = 4 << 10

// errClosed is the cause of a context that ended by Close.
var errClosed = errors.New("k8s: the watch is closed")

// A Watch is a stream of the changes of one object. One goroutine may call Next;
// Close may be called from any, at any time.
//
// A watch ends: the server ends it after some minutes, and proxies do sooner,
// or hold it silent. It tells sooner what a poll would tell later, and does not
// replace the poll. It never resumes by itself; who starts another one should
// pause before that, because a server may end each one at once.
type Watch struct {
	// ctx is the caller's. It is kept because a Watch lives as long as the one
	// request that it is.
	ctx     context.Context
	a       *attempt
	body    io.ReadCloser
	lines   *bufio.Reader
	limit   int
	cancel  context.CancelCauseFunc
	overdue *time.Timer
	closing sync.Once
	err     error // what Next returns from now on
}

// Watch starts to watch one object. With a resource version it begins after
// that version; with "" it begins with an Added event if the object exists. A
// version that is too old is [Gone], either here or from Next: then the object
// has to be read again.
func (c *Client) Watch(ctx context.Context, r Resource, name, resourceVersion string) (*Watch, error) {
	q, err := c.named("GET", r, name)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// The path is the collection's, the name goes into the selector. It stays
	// the target's name, but a 404 of the collection does not name an object.
	if q.path, err = r.Path(c.namespace, ""); err != nil {
		return nil, q.notSent(err)
	}
	keep := watchTime
	if d, ok := ctx.Deadline(); ok {
		keep = min(keep, max(time.Until(d), 0)+time.Second)
	}
	q.query = url.Values{
		"watch":          {"1"},
		"fieldSelector":  {"metadata.name=" + name},
		"timeoutSeconds": {strconv.Itoa(int(keep / time.Second))},
	}
	if resourceVersion != "" {
		q.query.Set("resourceVersion", resourceVersion)
	}

	bound := c.core.cfg.RequestTimeout
	inner, cancel := context.WithCancelCause(ctx)
	start := time.AfterFunc(bound, func() { cancel(errBound) })
	a, resp, err := c.core.open(inner, q)
	if err == nil && !start.Stop() {
		// Too late by a moment: the body can no longer be read.
		resp.Body.Close()
		e := q.timeout(bound, false)
		a.report(resp.StatusCode, e)
		err = e
	}
	if err == nil {
		err = a.wantJSON(resp)
		a.report(resp.StatusCode, err)
		if err != nil {
			resp.Body.Close()
		}
	}
	if err != nil {
		start.Stop()
		cancel(errClosed)
		if ended(ctx) {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return newWatch(ctx, a, resp, cancel, int(c.core.cfg.MaxObjectBytes), keep+bound), nil
}

func newWatch(ctx context.Context, a *attempt, resp *http.Response, cancel context.CancelCauseFunc, limit int, life time.Duration) *Watch {
	return &Watch{
		ctx: ctx, a: a, body: resp.Body, cancel: cancel,
		lines: bufio.NewReaderSize(resp.Body, 16<<10),
		limit: limit + eventOverhead,
		// A server that was asked to end the watch and does not is not there.
		overdue: time.AfterFunc(life, func() { cancel(errBound) }),
	}
}

// Next waits for an event. Its error is [io.EOF] when the server has ended the
// watch, the cause of the caller's context when that is over, [net.ErrClosed]
// after Close, and an [*APIError] for anything else. It stays the same from then
// on.
func (w *Watch) Next() (Event, error) {
	if w.err != nil {
		return Event{}, w.err
	}
	ev, err := w.next()
	if err != nil {
		w.err = err
		w.Close()
	}
	return ev, err
}

func (w *Watch) next() (Event, error) {
	for {
		line, err := readLine(w.lines, w.limit)
		if ended(w.ctx) {
			return Event{}, context.Cause(w.ctx)
		}
		if err != nil || w.closed() {
			return Event{}, w.broken(err)
		}
		if len(line) == 0 {
			continue
		}
		ev, bad := parseEvent(w.a.target, line, w.a.token, time.Now())
		if bad != nil {
			return Event{}, bad
		}
		if ev.Type != bookmark {
			return ev, nil
		}
	}
}

func (w *Watch) broken(err error) error {
	switch {
	case w.closed():
		return net.ErrClosed
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, errOverLimit):
		return w.a.tooLarge(http.StatusOK)
	}
	return w.a.brokenBody(http.StatusOK, err)
}

func (w *Watch) closed() bool { return context.Cause(w.a.ctx) == errClosed }

// Close ends the watch and unblocks Next. It may be called again.
func (w *Watch) Close() {
	w.closing.Do(func() {
		w.overdue.Stop()
		w.cancel(errClosed)
		w.body.Close()
	})
}

// readLine reads up to a line feed, or to the end of the stream, and at most
// limit bytes. Blank lines come back empty. A stream that ends within a line
// ends unexpectedly unless the line is whole as it is.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errOverLimit
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSpace(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0:
			if _, bad := ParseObject(line); bad != nil {
				return nil, io.ErrUnexpectedEOF
			}
			return bytes.TrimSpace(line), nil
		default:
			return nil, err
		}
	}
}
