package guest

import "github.com/sandlot-go/sandlot/transport/wire"

// reserve answers reserve-execution.
func (s *Server) reserve(c *call) {
	id := ""
	if v, ok := c.field("executionId"); ok {
		text, _ := v.(string)
		if !wire.ValidExecutionID(text) {
			c.fail(refusal(wire.CodeInvalidExecutionID))
			return
		}
		id = text
	}
	reply, err := s.executions.reserve(id)
	if err != nil {
		c.fail(err)
		return
	}
	c.reply(reply)
}
