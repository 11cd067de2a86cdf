package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// quiesce answers quiesce: all that runs is ended, and the guest goes on.
func (s *Server) quiesce(c *call) {
	most := s.config.CancelTimeout - time.Millisecond
	grace, ok := c.wholeMillis("graceMs", s.config.QuiesceGrace, most)
	if !ok {
		c.reply(&wire.Refusal{Code: wire.CodeQuiesceGrace, Message: fmt.Sprintf(
			"graceMs must be a positive integer of at most %dms (NAMZU_AGENT_CANCEL_CONFIRM_TIMEOUT_MS minus one), got %s",
			most.Milliseconds(), textOf(c.body["graceMs"]))})
		return
	}
	if !s.pausing.CompareAndSwap(false, true) {
		c.fail(codeQuiescing)
		return
	}
	q := quiescence{server: s, ctx: s.life, grace: grace, limit: s.config.QuiesceDeadline}
	err := q.run()
	s.pausing.Store(false)
	switch {
	case err == errProcesses:
		c.reply(&wire.Refusal{Code: wire.CodeQuiesceUnsupported})
	case err != nil:
		c.reply(&wire.Refusal{Code: wire.CodeQuiesceUnconfirmed, Message: err.Error()})
	default:
		c.reply(q.reply())
	}
}

// gated reports whether nothing is to be started, for now or for good.
func (s *Server) gated() bool { return s.quiescing.Load() || s.pausing.Load() }

// wholeMillis returns the field that is a positive whole number of milliseconds,
// def if it is absent, and false if it is anything else.
func (c *call) wholeMillis(name string, def, most time.Duration) (time.Duration, bool) {
	v, given := c.field(name)
	if !given {
		return def, true
	}
	number, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	n, err := number.Float64()
	if err != nil || n < 1 || n != math.Trunc(n) || n > float64(most.Milliseconds()) {
		return 0, false
	}
	return time.Duration(n) * time.Millisecond, true
}

// A quiescence is the work of one quiesce, or of a shutdown.
type quiescence struct {
	server *Server
	ctx    context.Context // given up when it is done
	grace  time.Duration
	limit  time.Duration // for all of it

	deadline time.Duration // by realTime

	owned   map[int]bool // sessions and process groups that the guest has started
	ends    []*termination
	rounds  int
	stopped []process      // in the order in which they were found
	signals map[int]string // the last one that each was sent
}

func (q *quiescence) run() error {
	q.deadline = realTime() + q.limit
	q.owned, q.signals = map[int]bool{}, map[int]string{}
	jobs := q.server.jobs.snapshot()
	for _, j := range jobs {
		q.owned[int(j.group)] = true
	}
	q.server.sessions.addGroups(q.owned)
	for ; ; q.rounds++ {
		executions := q.server.executions.snapshot()
		for _, e := range executions {
			<-e.launched
		}
		q.server.executions.addGroups(q.owned)
		left, err := q.targets()
		switch {
		case err != nil:
			return err
		case len(left) == 0:
			within(q.server.config.QuiesceSettle, func() bool { return q.ctx.Err() != nil || q.settled(jobs) })
			return nil
		case q.left() == 0:
			return q.unconfirmed(left[0])
		case q.rounds == q.server.config.QuiesceRounds:
			return fmt.Errorf("after %d rounds (NAMZU_AGENT_QUIESCE_MAX_ROUNDS) pid %d (%s) was still running",
				q.rounds, left[0].pid, left[0].command)
		}
		if err := q.stop(executions, left); err != nil {
			return err
		}
		for _, p := range left {
			if p.runs() {
				return q.unconfirmed(p)
			}
		}
	}
}

func (q *quiescence) left() time.Duration {
	if q.ctx.Err() != nil {
		return 0
	}
	return max(0, q.deadline-realTime())
}

func (q *quiescence) unconfirmed(p process) error {
	return fmt.Errorf("quiesce did not settle within %dms (NAMZU_AGENT_QUIESCE_DEADLINE_MS); pid %d (%s) was still running",
		q.limit.Milliseconds(), p.pid, p.command)
}

// stop ends the processes, and the executions among them so that their results
// say so. What runs at the deadline is killed, and has not ended in time.
func (q *quiescence) stop(executions []*execution, left []process) error {
	ending := map[int]bool{} // groups that get their signals elsewhere
	for _, e := range executions {
		if e.program == nil || q.foreign(e.program.group, left) {
			continue
		}
		if end := e.terminate(causeQuiesce, q.grace); end != nil {
			ending[int(e.program.group)] = true
			q.ends = append(q.ends, end)
		}
	}
	gone := func() bool {
		if q.ctx.Err() != nil {
			return true
		}
		for _, p := range left {
			if p.runs() {
				return false
			}
		}
		return true
	}
	for _, signal := range []string{"SIGTERM", "SIGKILL"} {
		var late error
		for _, p := range left {
			if !p.runs() {
				continue
			}
			if late == nil && q.left() == 0 {
				late = q.unconfirmed(p)
			}
			if q.signals[p.pid] == "" {
				q.stopped = append(q.stopped, p)
			}
			q.signals[p.pid] = signal
			if signal == "SIGKILL" || !ending[p.group] {
				p.signal(signal)
			}
		}
		if late != nil {
			return late
		}
		if within(min(q.grace, q.left()), gone) {
			break
		}
	}
	return nil
}

// foreign reports whether a group is another user's by now: there is somebody in
// it, and nobody who is to be ended.
func (q *quiescence) foreign(g group, left []process) bool {
	return !slices.ContainsFunc(left, func(p process) bool { return p.group == int(g) }) && !g.watch()()
}

// settled reports whether all that was ended is known to have.
func (q *quiescence) settled(jobs []*job) bool {
	for _, end := range q.ends {
		if !closed(end.done)() {
			return false
		}
	}
	for _, j := range jobs {
		if !closed(j.reaped)() {
			return false
		}
	}
	return q.server.sessions.settled()
}

func (q *quiescence) reply() *wire.QuiesceReply {
	reply := &wire.QuiesceReply{
		OK: true, Scope: wire.ScopeOwned, GraceMs: q.grace.Milliseconds(), Rounds: int64(q.rounds), Stopped: []wire.Stopped{},
	}
	if q.server.config.QuiesceEverything {
		reply.Scope = wire.ScopeNamespace
	}
	for _, p := range q.stopped {
		reply.Stopped = append(reply.Stopped, wire.Stopped{PID: int64(p.pid), Command: p.command, Signal: q.signals[p.pid]})
	}
	return reply
}
