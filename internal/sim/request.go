package sim

import (
	"net/url"
	"slices"
	"time"
)

// A Request is one request to the API server, as the log has it.
type Request struct {
	N           int    // counts from 1 in order of arrival
	Verb        string // get, list, watch, create, patch, delete, …
	Method      string
	Path        string // without the query
	Resource    string // plural, with the subresource behind a slash; "" if the path names none
	Name        string
	Query       url.Values
	ContentType string
	Body        []byte
	Time        time.Time // of arrival, by time.Now
	Code        int       // that was answered; 0 while there is no answer
}

// String is short, for messages of tests.
func (r Request) String() string {
	s := r.Verb + " " + r.Path
	if r.Resource != "" {
		s = r.Verb + " " + r.Resource
		if r.Name != "" {
			s += "/" + r.Name
		}
	}
	return s
}

// Requests is the log, in order of arrival.
func (c *Cluster) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// ResetRequests empties the log; the count goes on.
func (c *Cluster) ResetRequests() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten += len(c.requests)
	c.requests = nil
}

// enter puts a request into the log; it fails once the cluster is closed. Each
// request that entered has to leave.
func (c *Cluster) enter(r *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Add(1)
	r.N = c.forgotten + len(c.requests) + 1
	c.requests = append(c.requests, *r)
	return true
}

// answered notes the code of a request.
func (c *Cluster) answered(r *Request, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Code = code
	if i := r.N - c.forgotten - 1; i >= 0 && i < len(c.requests) {
		c.requests[i].Code = code
	}
}
