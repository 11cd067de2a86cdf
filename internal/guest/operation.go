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
	starts bool // begins new work: refused while the guest is shutting down
	serve  func(*Server, *call)
}

// operations is the dispatch table. What is not here is unknown.
var operations = map[string]operation{
	wire.OpHealth:         {always: true, serve: (*Server).health},
	wire.OpReserve:        {starts: true, serve: (*Server).reserve},
	wire.OpExecute:        {starts: true, stream: true, serve: (*Server).execute},
	wire.OpCancel:         {always: true, serve: (*Server).cancel},
	wire.OpReadFile:       {serve: (*Server).readFile},
	wire.OpReadFileStream: {stream: true, serve: (*Server).readFileStream},
	wire.OpWriteFile:      {serve: (*Server).writeFile},
}

// features is what healthz announces: only what is complete, in the order of
// the reference guest, and then this project's own.
var features = []string{wire.FeatureWriteParts, wire.FeatureReadStream, wire.FeatureBootID, wire.FeatureSafeStdin}

// A call is one request and the means of answering it.
type call struct {
	operation
	ctx    context.Context // done when nobody reads the answer any more
	conn   *conn
	server *Server
	op     any
	body   map[string]any
}

func newCall(c *conn, e wire.Envelope) *call {
	name, _ := e.Op.(string)
	return &call{operation: operations[name], ctx: c.ctx, conn: c, server: c.server, op: e.Op, body: e.Body}
}

// answer is where the rules about who is answered at all come together.
func (c *call) answer() {
	switch s := c.server; {
	case c.always:
		c.serve(s, c)
	case s.retiring.Load():
		c.reply(&wire.Refusal{Code: wire.CodeRetiring})
	case c.starts && s.quiescing.Load():
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
	c.send(&wire.StreamError{Type: wire.TypeError, Text: err.Error()})
	c.terminate()
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
