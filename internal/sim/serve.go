package sim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxBody is the API server's own limit on a request.
const maxBody = 3145728

// A call is a request on its way to its answer.
type call struct {
	target
	query  url.Values
	kind   string // content type, without parameters
	body   []byte
	warned []string // Warning headers of the answer
}

// An answer is what a call comes to: an object with its code, a failure, plain
// text, or a stream.
type answer struct {
	code    int
	body    any
	failure *failure
	plain   string
	stream  *watcher
}

// ServeHTTP answers as the API server does. On HTTP/1 all kinds of faults work;
// on HTTP/2 those that reset the connection reset the stream.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return // the client went away
	}
	t, wrong := parseTarget(r.Method, r.URL)
	req := &Request{Verb: t.verb, Method: r.Method, Path: r.URL.Path, Resource: t.ruled(), Name: t.name, Query: r.URL.Query(),
		ContentType: r.Header.Get("Content-Type"), Body: body, Time: time.Now()}
	if !c.enter(req) {
		panic(http.ErrAbortHandler)
	}
	defer c.wg.Done()
	var fault *Fault
	if c.cfg.Fault != nil {
		fault = c.cfg.Fault(req)
	}
	out := &responder{cluster: c, w: w, r: r, request: req, fault: fault}
	if !out.before() {
		return
	}
	var a answer
	if wrong != nil {
		a.failure = wrong
	} else {
		a = c.answer(w, r, t, body)
	}
	if f := a.failure; f != nil && f.unmodelled {
		c.mu.Lock()
		c.unmodelled = append(c.unmodelled, req.Method+" "+r.URL.RequestURI()+": "+f.message)
		c.mu.Unlock()
	}
	out.send(a)
}

// answer handles a request, in the order in which the API server looks at it:
// who, may they, is it served, what does it say.
func (c *Cluster) answer(w http.ResponseWriter, r *http.Request, t target, body []byte) answer {
	fail := func(f *failure) answer { return answer{failure: f} }
	user, ok := c.authenticate(r.Header)
	if !ok {
		return fail(unauthorized())
	}
	if f := c.authorize(t, user); f != nil {
		return fail(f)
	}
	if accept := r.Header.Get("Accept"); accept != "" && !(strings.Contains(accept, "application/json") && !strings.Contains(accept, "as=")) && !strings.Contains(accept, "*/*") {
		return fail(unmodelled("Accept: %s", accept))
	}
	if t.plural == "" {
		return c.discover(t, r.URL.Query())
	}
	if f := t.served(c.cfg.Unserved); f != nil {
		return fail(f)
	}
	if len(body) > maxBody {
		w.Header().Set("Connection", "close")
		return fail(tooLarge())
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	k := &call{target: t, query: r.URL.Query(), kind: strings.TrimSpace(kind), body: body}
	a := c.dispatch(k)
	for _, text := range k.warned {
		w.Header().Add("Warning", "299 - "+strconv.Quote(text))
	}
	return a
}

func (c *Cluster) authenticate(h http.Header) (user string, ok bool) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "system:anonymous", true
	}
	token, found := strings.CutPrefix(values[0], "Bearer ")
	return c.cfg.account(), found && (token == c.cfg.Token || slices.Contains(c.cfg.MoreTokens, token))
}

// open is what system:public-info-viewer lets anybody see.
var open = []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}

func (c *Cluster) authorize(t target, user string) *failure {
	switch {
	case t.plural == "" && slices.Contains(open, t.path):
		return nil
	case user == "system:anonymous":
		return forbidden(t, user)
	case t.plural != "" && c.cfg.Allow != nil && !c.cfg.Allow(t.verb, t.ruled(), t.name):
		return forbidden(t, user)
	}
	return nil
}

func (c *Cluster) dispatch(k *call) answer {
	if k.subresource != "" && !(k.subresource == "status" && k.resource.status && (k.verb == "get" || k.verb == "patch")) {
		return answer{failure: unmodelled("%s of subresource %s/%s", k.verb, k.plural, k.subresource)}
	}
	switch k.verb {
	case "get":
		return c.get(k)
	case "list":
		return c.list(k)
	case "watch":
		return c.watch(k)
	case "create":
		return c.create(k)
	case "patch":
		return c.patch(k)
	case "delete":
		return c.delete(k)
	}
	return answer{failure: unmodelled("verb %s on %s", k.verb, k.plural)}
}

// encode is the answer as it goes over the wire.
func (a answer) encode() (code int, contentType string, body []byte) {
	switch f := a.failure; {
	case f != nil && f.plain != "":
		return f.code, "text/plain; charset=utf-8", []byte(f.plain)
	case f != nil:
		return f.code, "application/json", marshal(f.status())
	case a.plain != "":
		return a.code, "text/plain; charset=utf-8", []byte(a.plain)
	}
	return a.code, "application/json", marshal(a.body)
}

// marshal is JSON with a newline and without escapes for HTML.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	must(e.Encode(v))
	return b.Bytes()
}
