package guest

import (
	"context"
	"encoding/json"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// An operation is how one op is answered.
type operation struct {
	// stream: the answer is a stream. Its errors are stream errors, and it is
	// given up when the peer closes its side. A control reply is not: the work
	// is done all the same, and a peer that only closed its write side gets it.
	stream bool
	always bool // answered even when the guest is fenced or shutting down
	// hears: what the peer sends after the request means something.
	hears bool
	// follows: shows what runs already. The refusals of a fenced guest have the
	// shape of its stream.
	follows bool
	open    bool // lasts as long as the peer likes: a shutdown does not wait for it
	bare    bool // its stream has no terminator
	starts  bool // begins new work: refused while the guest is shutting down
	serve   func(*Server, *call)
}

// operations is the dispatch table. What is not here is unknown.
var operations = map[string]operation{
	wire.OpHealth:          {always: true, serve: (*Server).health},
	wire.OpReserve:         {starts: true, serve: (*Server).reserve},
	wire.OpExecute:         {starts: true, stream: true, serve: (*Server).execute},
	wire.OpCancel:          {always: true, serve: (*Server).cancel},
	wire.OpAttachExecution: {starts: true, stream: true, hears: true, follows: true, serve: (*Server).attachExecution},
	wire.OpTerminal:        {starts: true, stream: true, hears: true, bare: true, serve: (*Server).terminal},
	wire.OpAttachSession:   {starts: true, stream: true, hears: true, follows: true, serve: (*Server).attachSession},
	wire.OpStartDetached:   {starts: true, serve: (*Server).startDetached},
	wire.OpListSessions:    {serve: (*Server).listSessions},
	wire.OpKillSession:     {starts: true, serve: (*Server).killSession},
	wire.OpQuiesce:         {starts: true, serve: (*Server).quiesce},
	wire.OpFlush:           {starts: true, serve: (*Server).flush},
	wire.OpConnect:         {stream: true, hears: true, open: true, bare: true, serve: (*Server).connect},
	wire.OpReadFile:        {serve: (*Server).readFile},
	wire.OpReadFileStream:  {stream: true, serve: (*Server).readFileStream},
	wire.OpWriteFile:       {serve: (*Server).writeFile},
}

// features is what healthz announces: only what is complete, in the order of
// the reference guest, and then this project's own.
var features = []string{wire.FeatureWriteParts, wire.FeatureAttach, wire.FeatureHeartbeat, wire.FeatureReadStream, wire.FeatureSessions,
	wire.FeatureQuiesce, wire.FeatureFlush, wire.FeatureBootID, wire.FeatureSafeStdin}

// A call is one request and the means of answering it.
type call struct {
	operation
	ctx    context.Context // done when nobody reads the answer any more
	conn   *conn
	server *Server
	op     any
	body   map[string]any

	listening chan struct{} // closed when heard is set
	over      chan struct{} // closed when the answer is complete
	heard     func([]byte)  // takes what the peer sends after the request
}

func newCall(c *conn, e wire.Envelope) *call {
	name, _ := e.Op.(string)
	return &call{
		operation: operations[name], ctx: c.ctx, conn: c, server: c.server, op: e.Op, body: e.Body,
		listening: make(chan struct{}), over: make(chan struct{}),
	}
}

// answer is where the rules about who is answered at all come together.
func (c *call) answer() {
	defer close(c.over)
	switch s := c.server; {
	case c.always:
		c.serve(s, c)
	case s.retiring.Load() && c.follows:
		c.fail(refusal(wire.CodeRetiring))
	case s.retiring.Load():
		c.reply(&wire.Refusal{Code: wire.CodeRetiring})
	case c.starts && s.gated():
		c.bare = false // of this refusal all streams have one
		c.fail(codeQuiescing)
	case c.serve == nil:
		name := "undefined"
		if c.op != nil {
			name = textOf(c.op)
		}
		c.reply(&wire.Refusal{Code: wire.CodeUnknownOp + ": " + excerpt(name)})
	default:
		c.serve(s, c)
	}
}

// listen begins to take what the peer sends after the request.
func (c *call) listen(heard func(payload []byte)) {
	c.heard = heard
	close(c.listening)
}

// hear hands over a frame after the request, as soon as somebody listens. While
// that takes its time nothing is read.
func (c *call) hear(payload []byte) {
	select {
	case <-c.over:
		return
	default:
	}
	select {
	case <-c.listening:
		c.conn.deaf.Store(true)
		c.heard(payload)
		c.conn.hearsNow()
		c.conn.deaf.Store(false)
	case <-c.over:
	}
}

// reply sends the one frame of a control answer.
func (c *call) reply(v any) {
	if c.send(v) == nil {
		c.conn.finish()
	} else {
		c.conn.destroy()
	}
}

// fail ends the answer with an error, in the shape that the operation has.
func (c *call) fail(err error) {
	if !c.stream {
		c.reply(&wire.Refusal{Code: err.Error()})
		return
	}
	if whole, ok := err.(*wire.StreamError); ok { // with more than its text
		c.send(whole)
	} else {
		c.send(&wire.StreamError{Type: wire.TypeError, Text: err.Error()})
	}
	if c.bare {
		c.conn.finish()
	} else {
		c.terminate()
	}
}

// terminate ends a stream.
func (c *call) terminate() {
	if c.conn.write(wire.AppendFrame(nil, nil)) == nil {
		c.conn.finish()
	} else {
		c.conn.destroy()
	}
}

// send sends v as one frame.
func (c *call) send(v any) error {
	frame, err := frameOf(v)
	if err != nil {
		return err
	}
	return c.conn.write(frame)
}

// frameOf is v as one frame.
func frameOf(v any) ([]byte, error) {
	payload, err := wire.Marshal(v)
	if err != nil {
		return nil, err
	}
	return wire.AppendFrame(make([]byte, 0, wire.HeaderLen+len(payload)), payload), nil
}

// field returns a field of the body and whether it is there; null is.
func (c *call) field(name string) (any, bool) {
	v, ok := c.body[name]
	return v, ok
}

// number returns a numeric field as JavaScript's Number has it, or def if the
// field is absent.
func (c *call) number(name string, def float64) float64 {
	if v, ok := c.body[name]; ok {
		return numberOf(v)
	}
	return def
}

// path returns the field that holds a path.
func (c *call) path(missing refusal) (string, error) {
	switch v := c.body["path"].(type) {
	case string:
		if v != "" {
			return v, nil
		}
	case json.Number, bool, []any, map[string]any:
		if truthy(v) {
			return "", wrongType("path", v)
		}
	}
	return "", missing
}
