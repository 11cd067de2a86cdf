package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// An executions is the table of reservations and executions.
type executions struct {
	server *Server

	mu      sync.Mutex // guards the fields below and those of each execution
	records map[string]*execution
	running map[*execution]bool // those whose process group may be alive
	pruned  time.Time           // when what had expired was last forgotten
	closed  bool
}

// pruneAfter is how often what has expired is looked for while there is room.
// Looking for it at every reservation took longer than the rest of one.
const pruneAfter = time.Second

func (t *executions) init(s *Server) {
	t.server = s
	t.records = map[string]*execution{}
	t.running = map[*execution]bool{}
}

// pruneLocked forgets what has expired.
func (t *executions) pruneLocked(now time.Time) {
	t.pruned = now
	maps.DeleteFunc(t.records, func(_ string, e *execution) bool { return e.expiredLocked(now) })
}

func (e *execution) expiredLocked(now time.Time) bool {
	return (e.state == wire.StateReserved || e.state == wire.StateTerminal) && !now.Before(e.expires)
}

// find returns the execution of that id, or nil.
func (t *executions) find(id string) *execution {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.findLocked(id, time.Now())
}

func (t *executions) findLocked(id string, now time.Time) *execution {
	if e := t.records[id]; e != nil && !e.expiredLocked(now) {
		return e
	}
	return nil
}

// reserve makes a reservation, of an id of its own if id is empty, or reports
// the state of the one that is there.
func (t *executions) reserve(id string) (*wire.Reservation, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	reply := &wire.Reservation{OK: true, BootID: t.server.bootID, ProtocolVersion: wire.ProtocolVersion}
	if e := t.findLocked(id, now); e != nil {
		reply.ExecutionID, reply.State = id, e.state
		reply.LeaseExpiresAt = now.UnixMilli()
		if !e.expires.IsZero() {
			reply.LeaseExpiresAt = e.expires.UnixMilli()
		}
		if e.log != nil {
			_, end := e.log.span()
			reply.RetainedOutput, reply.OutputOffset = true, &end
		}
		return reply, nil
	}
	if !t.makeRoomLocked(now) {
		return nil, refusal(wire.CodeExecutionCapacity)
	}
	if id == "" {
		id = "exec_" + uuid.New()
	} else {
		reply.State = wire.StateReserved
	}
	expires := now.Add(t.server.config.ReservationTTL)
	t.records[id] = &execution{server: t.server, id: id, state: wire.StateReserved, expires: expires}
	reply.ExecutionID, reply.LeaseExpiresAt = id, expires.UnixMilli()
	return reply, nil
}

// makeRoomLocked gives up what is remembered of ended executions, that which
// would be forgotten soonest first, and reports whether there is room then. It
// makes room for some at once, so that it has not to be done for each.
func (t *executions) makeRoomLocked(now time.Time) bool {
	most := t.server.config.MaxExecutions
	if len(t.records) >= most || now.Sub(t.pruned) >= pruneAfter {
		t.pruneLocked(now)
	}
	if len(t.records) < most {
		return true
	}
	var ended []*execution
	for _, e := range t.records {
		if e.state == wire.StateTerminal {
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, soonest)
	for _, e := range ended {
		if len(t.records) < most-most/16 {
			break
		}
		delete(t.records, e.id)
	}
	return len(t.records) < most
}

func soonest(a, b *execution) int {
	return cmp.Or(a.expires.Compare(b.expires), cmp.Compare(a.id, b.id))
}

// makeLogRoomLocked empties the logs of ended executions, that which would be
// forgotten soonest first, and reports whether there is room for one more then.
func (t *executions) makeLogRoomLocked() bool {
	held := 0
	var ended []*execution
	for _, e := range t.records {
		if e.log == nil || e.log.isEmptied() {
			continue
		}
		held++
		if e.state == wire.StateTerminal {
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, soonest)
	for _, e := range ended {
		if held < t.server.config.MaxRetained {
			break
		}
		e.log.empty()
		held--
	}
	return held < t.server.config.MaxRetained
}

// claim takes a reservation for an execution that was asked for at that time.
// An execution without an id is in no table. Retain: its output is kept.
func (t *executions) claim(id string, asked time.Time, retain bool) (*execution, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &execution{server: t.server}
	if id != "" {
		if e = t.findLocked(id, time.Now()); e == nil {
			return nil, refusal(wire.CodeUnknownExecution)
		}
		if e.state != wire.StateReserved {
			return nil, refusal(wire.CodeExecutionNotReserved + ": " + e.state)
		}
	}
	if retain {
		if !t.makeLogRoomLocked() {
			limit := t.server.config.MaxRetained
			return nil, refusal(fmt.Sprintf("%s: limit %d (%s)", wire.CodeRetainCapacity, limit, variableMaxRetained))
		}
		e.log = newRing(t.server.config.RetainedBytes)
	}
	e.state, e.asked = wire.StateStarting, asked
	e.launched, e.settled = make(chan struct{}), make(chan struct{})
	e.outbox = newOutbox()
	return e, nil
}

// launch is the point from which on the execution runs, or fails to start. It
// was cancelled before, or else a cancel ends a program from here on.
func (t *executions) launch(e *execution) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case e.state != wire.StateStarting:
		return refusal(wire.CodeExecutionCancelled)
	case t.closed || t.server.gated():
		e.settleLocked(wire.StateCancelled, notStarted(e.asked))
		return codeQuiescing
	}
	e.state, e.started, e.expires = wire.StateRunning, true, time.Time{}
	t.running[e] = true
	t.server.programs.Add(1)
	return nil
}

// notStarted is the result of what was cancelled before it ran.
func notStarted(asked time.Time) *wire.Result {
	r := &wire.Result{ExitCode: 1}
	if !asked.IsZero() {
		r.DurationMs = time.Since(asked).Milliseconds()
	}
	return r
}

// abort remembers that the execution could not be started.
func (t *executions) abort(e *execution, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.state == wire.StateTerminal {
		return // cancelled before
	}
	e.failure = why.Error()
	if t.running[e] {
		delete(t.running, e)
		t.server.programs.Done()
	}
	e.settleLocked(wire.StateFailed, nil)
	close(e.launched)
}

// snapshot lists the executions whose process group may be alive.
func (t *executions) snapshot() []*execution {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.running))
}

// addGroups adds the process groups of all that were launched, of which some may
// have ended and left others in their session.
func (t *executions) addGroups(groups map[int]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := range t.running {
		e.addGroup(groups)
	}
	for _, e := range t.records {
		e.addGroup(groups)
	}
}

func (e *execution) addGroup(groups map[int]bool) {
	if e.launched != nil && closed(e.launched)() && e.program != nil {
		groups[int(e.program.group)] = true
	}
}

// quiesce ends all programs and waits for it. The server is quiescing, so only
// those that are being started at this moment can still come up: they are ended
// as soon as they have.
func (t *executions) quiesce(ctx context.Context) error {
	var ends []*termination
	for _, e := range t.snapshot() {
		<-e.launched
		if end := e.terminate(causeQuiesce, t.server.config.QuiesceGrace); end != nil {
			ends = append(ends, end)
		}
	}
	var errs []error
	for _, end := range ends {
		select {
		case <-end.done:
			errs = append(errs, end.err)
		case <-ctx.Done():
			return fmt.Errorf("guest: programs still run: %w", context.Cause(ctx))
		}
	}
	return errors.Join(errs...)
}

// kill ends all programs with SIGKILL, now and for good.
func (t *executions) kill() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	all := t.snapshot()
	for _, e := range all {
		<-e.launched
		if e.program != nil {
			e.program.group.kill()
			e.terminate(causeQuiesce, 0)
		}
	}
	var errs []error
	for _, e := range all {
		if e.program == nil {
			continue
		}
		if !within(closeWait, e.program.group.watch()) {
			errs = append(errs, fmt.Errorf("guest: process group %d does not end", e.program.group))
			continue
		}
		e.program.hangUp()
	}
	return errors.Join(errs...)
}
