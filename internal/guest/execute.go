package guest

import (
	"fmt"
	"math"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	defaultTimeout = 5 * time.Minute
	defaultOutput  = 100 << 20 // bytes of each stream
)

// An order is an execute request that has been checked.
type order struct {
	id      string
	spec    spec
	timeout time.Duration
	most    int64 // bytes of each stream
	retain  bool  // the output is kept
}

// order checks an execute request.
func (c *call) order() (*order, error) {
	o := &order{}
	o.spec.command, _ = c.body["command"].(string)
	if o.spec.command == "" {
		return nil, codeMissingCommand
	}
	if v, ok := c.field("executionId"); ok {
		o.id, _ = v.(string)
		if !wire.ValidExecutionID(o.id) {
			return nil, refusal(wire.CodeInvalidExecutionID)
		}
	}
	if o.retain = c.body["retainOutput"] == true; o.retain && o.id == "" {
		return nil, refusal(wire.CodeRetainNeedsID)
	}
	var err error
	if o.spec.dir, err = c.server.jail.workdir(c.body["cwd"]); err != nil {
		return nil, refusal("invalid_cwd: " + err.Error())
	}
	limit := c.server.config.MaxTimeout
	timeout := c.number("timeoutMs", float64(defaultTimeout.Milliseconds()))
	// Not a number is neither.
	if !(timeout > 0 && timeout <= float64(limit.Milliseconds())) {
		return nil, refusal(fmt.Sprintf("invalid_timeout: timeoutMs must be a finite number in (0, %d] (%s)",
			limit.Milliseconds(), variableMaxTimeout))
	}
	o.timeout = max(time.Duration(timeout*float64(time.Millisecond)), time.Millisecond)
	o.most = defaultOutput
	if most := c.number("maxOutputBytes", 0); most != 0 && !math.IsNaN(most) {
		o.most = int64(min(max(most, 0), wire.MaxSafeInteger))
	}
	o.spec.args = texts(c.body["args"])
	o.spec.env = overlay(c.server.environ, environment(c.body["env"]))
	if v, ok := c.field("stdin"); ok {
		o.spec.stdin = new(textOf(v))
	}
	return o, nil
}

// execute answers execute.
func (s *Server) execute(c *call) {
	asked := time.Now()
	o, err := c.order()
	if err != nil {
		c.fail(err)
		return
	}
	c.body = nil // it can be large, and the program can run for long
	e, err := s.executions.claim(o.id, asked, o.retain)
	if err != nil {
		c.fail(err)
		return
	}
	if err := s.jail.makeWorkdir(o.spec.dir); err != nil {
		err = refusal("mkdir_failed: " + err.Error())
		s.executions.abort(e, err)
		c.fail(err)
		return
	}
	if err := s.executions.launch(e); err != nil {
		c.fail(err)
		return
	}
	o.spec.dir = s.jail.workspace.reach(o.spec.dir)
	program, err := o.spec.spawn(s.start)
	if err != nil {
		s.executions.abort(e, err)
		c.fail(err)
		return
	}
	e.run(program, o.spec.stdin, o.timeout, o.most)
	c.deliver(e.outbox)
}

// deliver sends what the outbox holds until it has ended. The program goes on
// when the connection does not.
func (c *call) deliver(box *outbox) {
	defer whenDone(c.ctx, box.destroy)()
	for {
		frame, ok := box.next()
		if !ok {
			break
		}
		if c.conn.write(frame) != nil {
			box.destroy()
		}
	}
	if box.complete() {
		c.conn.finish()
	} else {
		c.conn.destroy()
	}
}
