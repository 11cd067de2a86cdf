package k8s

import (
	"context"
	"time"
)

// A Trace is told of the requests that are made under a context.
type Trace struct {
	// Request is called when a request is over, before the method that made it
	// returns, in its goroutine. Of a watch it is the answer's header that ends
	// the request.
	Request func(RequestInfo)
}

// A RequestInfo describes one request.
type RequestInfo struct {
	Method, Path string
	Code         int  // of the answer, 0 when there was none
	Kind         Kind // of the failure, "" for none
	Duration     time.Duration
	Retry        bool // it repeats one that was answered with 401

	// Sent is how many times the request was written to a connection. It is 0 if
	// it never left. It is more than 1 if net/http found a kept connection dead
	// and went over to another one, which it does only for what has no body.
	Sent int
}

type traceKey struct{}

// WithTrace returns a context under which t is told of every request, as are
// the traces that ctx has already.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	traces, _ := ctx.Value(traceKey{}).([]*Trace)
	return context.WithValue(ctx, traceKey{}, append(traces[:len(traces):len(traces)], t))
}

func report(ctx context.Context, i RequestInfo) {
	traces, _ := ctx.Value(traceKey{}).([]*Trace)
	for _, t := range traces {
		if t != nil && t.Request != nil {
			t.Request(i)
		}
	}
}
