package sim

import (
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/sandlot-go/sandlot/internal/uuid"
)

// A Fault is what goes wrong with one request. Of several fields the first
// applies, but for Delay, which goes with any other.
type Fault struct {
	Delay time.Duration // before anything else happens

	ResetBefore bool // the connection is reset before the request has an effect
	ResetAfter  bool // and after it had it
	Hang        bool // no effect and no answer until the client goes away
	HangAfter   bool // an effect and no answer; a watch begins and never says anything
	// Late is no answer, and an effect that long after the client went away.
	Late time.Duration

	Code        int         // answered in place of handling the request
	Header      http.Header // with Code
	Body        []byte      // with Code
	ContentType string      // with Code; "" means application/json

	Cut     int                      // the right answer, but only so many bytes of its body, and then the connection is cut
	Replace func(body []byte) []byte // the right answer, rewritten; of a watch, each event
}

// resetter is a connection that can be torn down; memnet's are.
type resetter interface{ Reset() }

// A responder writes the answer to one request, faults included.
type responder struct {
	cluster *Cluster
	w       http.ResponseWriter
	r       *http.Request
	request *Request
	fault   *Fault
	written int
}

// before does what is to be done before the request is handled; it reports
// whether it is to be handled at all.
func (o *responder) before() bool {
	f := o.fault
	if f == nil {
		return true
	}
	if f.Delay > 0 && !o.wait(f.Delay) {
		return false
	}
	switch {
	case f.ResetBefore:
		o.reset()
		return false
	case f.ResetAfter:
	case f.Hang:
		o.hang()
	case f.HangAfter:
	case f.Late > 0:
		return o.outlive(f.Late)
	case f.Code != 0:
		o.header(f.ContentType)
		for k, v := range f.Header {
			o.w.Header()[http.CanonicalHeaderKey(k)] = v
		}
		o.cluster.answered(o.request, f.Code)
		o.w.WriteHeader(f.Code)
		o.w.Write(f.Body)
		return false
	}
	return true
}

// send answers.
func (o *responder) send(a answer) {
	switch f := o.fault; {
	case f != nil && f.ResetAfter:
		o.reset()
		return
	case f != nil && f.HangAfter && a.stream == nil:
		o.hang()
		return
	}
	if a.stream != nil {
		o.stream(a.stream)
		return
	}
	code, contentType, body := a.encode()
	o.header(contentType)
	if a.failure != nil && a.failure.retryAfter > 0 {
		o.w.Header().Set("Retry-After", strconv.Itoa(a.failure.retryAfter))
	}
	if o.fault != nil && o.fault.Cut == 0 && o.fault.Replace != nil {
		body = o.fault.Replace(body)
	}
	o.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	o.cluster.answered(o.request, code)
	o.w.WriteHeader(code)
	o.write(body)
}

// write is Write with the fault's limit on how much gets through.
func (o *responder) write(data []byte) error {
	cut := o.fault != nil && o.fault.Cut > 0 && o.written+len(data) > o.fault.Cut
	if cut {
		data = data[:o.fault.Cut-o.written]
	}
	n, err := o.w.Write(data)
	o.written += n
	if cut {
		http.NewResponseController(o.w).Flush()
		panic(http.ErrAbortHandler) // net/http cuts the connection
	}
	return err
}

// header sets what every answer has.
func (o *responder) header(contentType string) {
	if contentType == "" {
		contentType = "application/json"
	}
	h := o.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Date", o.cluster.cfg.Now().UTC().Format(http.TimeFormat))
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Audit-Id", uuid.New())
	h.Set("X-Kubernetes-Pf-Flowschema-Uid", "5b1a5d3c-0f2e-4c55-9d1e-6a1f54c6a0f1")
	h.Set("X-Kubernetes-Pf-Prioritylevel-Uid", "0c9f1d52-31a4-4a7c-8f0b-7f0b6f3a9b6e")
}

// wait lets time go by; it reports whether somebody is still there after it.
func (o *responder) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-o.r.Context().Done():
	case <-o.cluster.done:
	}
	return false
}

// hang waits for the client to go away.
func (o *responder) hang() {
	o.gone()
	panic(http.ErrAbortHandler)
}

func (o *responder) gone() {
	select {
	case <-o.r.Context().Done():
	case <-o.cluster.done:
	}
}

// outlive waits for the client to go away and then that long; it reports
// whether the cluster is still there.
func (o *responder) outlive(d time.Duration) bool {
	o.gone()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-o.cluster.done:
	}
	return false
}

// reset cuts the connection so that the client sees it reset.
func (o *responder) reset() {
	conn, _, err := http.NewResponseController(o.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	switch conn := conn.(type) {
	case resetter:
		conn.Reset()
		return
	case *net.TCPConn:
		conn.SetLinger(0)
	}
	conn.Close()
}
