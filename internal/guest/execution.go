package guest

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	// strayWait is how long a process group may outlive its leader and the
	// leader's output before the guest gives up on it. It is generous: on a busy
	// machine members that are about to end take their time.
	strayWait = 500 * time.Millisecond

	// hangUpWait is how long, once the group is gone, processes outside it may
	// keep the streams open.
	hangUpWait = 100 * time.Millisecond

	readSize = 64 << 10 // of an output; what one delta holds at most
)

// An execution is one program from its reservation on: what is known about it,
// and while it runs the goroutines that read its output and wait for its end.
// Fields without a remark are set before the goroutines start.
type execution struct {
	server *Server
	id     string    // "" when it is in no table
	asked  time.Time // when it was to be executed; zero before

	launched chan struct{} // closed when it runs or could not be started
	settled  chan struct{} // closed when the state will not change any more
	outbox   *outbox
	log      *ring    // of the output that is kept; nil unless it is
	program  *program // valid when launched; nil if it could not be started

	// Guarded by executions.mu:
	state   string
	expires time.Time // of a reservation, or of the memory of its end; else zero
	started bool
	outcome string       // of state terminal
	result  *wire.Result // of state terminal, unless it failed to start
	failure string       // why it failed to start
	fenced  string       // why its end can never be confirmed
	end     *termination // nil unless somebody wanted it to end
}

// settleLocked makes the state final.
func (e *execution) settleLocked(outcome string, result *wire.Result) {
	e.state, e.outcome, e.result = wire.StateTerminal, outcome, result
	e.expires = time.Now().Add(e.server.config.RecordTTL)
	if e.log != nil {
		e.expires = time.Now().Add(e.server.config.RetainedTTL)
		e.log.close(false)
	}
	if e.settled != nil {
		close(e.settled)
	}
}

// run starts the goroutines of a program that was just started.
func (e *execution) run(p *program, stdin *string, timeout time.Duration, most int64) {
	e.program = p
	programs := &e.server.programs
	var truncated [2]bool
	var pumps sync.WaitGroup
	pumps.Go(func() { truncated[0] = e.pump(p.stdout, stdout, most) })
	pumps.Go(func() { truncated[1] = e.pump(p.stderr, stderr, most) })
	programs.Go(func() { pumps.Wait(); close(p.pumped) })
	programs.Go(p.wait)
	if stdin != nil {
		programs.Go(func() { p.feed(*stdin) })
	}
	go func() {
		defer programs.Done() // launch has added it
		e.supervise(timeout)
		e.settle(truncated)
	}()
	close(e.launched)
	if e.server.gated() { // since it was launched
		e.terminate(causeQuiesce, e.server.config.QuiesceGrace)
	}
}

// pump makes frames of an output until its end, and reports whether what
// exceeds most bytes was thrown away.
func (e *execution) pump(from *os.File, output int, most int64) (truncated bool) {
	readPipe(from, func(data []byte) {
		keep := min(int64(len(data)), most)
		most -= keep
		truncated = truncated || keep < int64(len(data))
		if keep > 0 {
			e.say(output, data[:keep])
		}
	})
	return truncated
}

// say makes a frame of output, and keeps it before if it is to be kept. Text of
// a string cannot fail to marshal.
func (e *execution) say(output int, data []byte) {
	if e.log != nil {
		e.log.add(output, data, func(p piece) {
			frame, _ := frameOf(p.delta())
			e.outbox.put(frame)
		})
		return
	}
	kind := wire.TypeStdout
	if output == stderr {
		kind = wire.TypeStderr
	}
	frame, _ := frameOf(&wire.Delta{Type: kind, Data: decodeText(data)})
	e.outbox.put(frame)
}

// hurry keeps the program's last output from waiting for anybody.
func (e *execution) hurry() {
	e.outbox.hurry()
	if e.log != nil {
		e.log.hurry()
	}
}

// supervise waits until the process has ended and its output has too.
func (e *execution) supervise(timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	reaped, pumped := e.program.reaped, e.program.pumped
	for reaped != nil || pumped != nil {
		select {
		case <-reaped:
			reaped = nil
			e.exited()
		case <-pumped:
			pumped = nil
		case <-timer.C:
			if reaped == nil && e.program.group.watch()() {
				e.hurry() // all that is left is a peer that does not read
				e.program.hangUpIfHeld()
			} else {
				e.terminate(causeTimeout, e.server.config.CancelGrace)
			}
		}
	}
	e.program.hangUp()
}

func (e *execution) exited() {
	t := &e.server.executions
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.state == wire.StateRunning {
		e.state = wire.StateExited
	}
}

// settle decides what has become of a program whose process has ended and whose
// output is complete.
func (e *execution) settle(truncated [2]bool) {
	if why := e.stray(); why != "" {
		e.fence(why)
		return
	}
	result := &wire.Result{
		ExitCode: e.program.exit.code, Signal: e.program.exit.signal,
		StdoutTruncated: truncated[0], StderrTruncated: truncated[1],
	}
	t := &e.server.executions
	t.mu.Lock()
	defer t.mu.Unlock()
	outcome := wire.StateCompleted
	if e.end != nil {
		result.TimedOut = e.end.cause == causeTimeout
		if !result.TimedOut {
			outcome = wire.StateCancelled
		}
	}
	result.DurationMs = time.Since(e.asked).Milliseconds()
	delete(t.running, e)
	e.settleLocked(outcome, result)
	last := *result
	last.Type = wire.TypeResult
	frame, _ := frameOf(&last)
	e.outbox.finish(wire.AppendFrame(frame, nil))
}

// stray makes sure that the process group is gone and otherwise says what is
// left of it. A group whose end nobody asked for has a moment to be gone.
func (e *execution) stray() string {
	gone := e.program.group.watch()
	for {
		end := e.ending()
		if end != nil {
			if <-end.decided; end.gone || gone() {
				return ""
			}
			return end.err.Error()
		}
		if within(strayWait, gone) {
			return ""
		}
		if e.ending() == nil {
			return fmt.Sprintf("process group %d remained live after its leader exited", e.program.group)
		}
	}
}

// ending returns the termination under way, or nil.
func (e *execution) ending() *termination {
	t := &e.server.executions
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.end
}

// fence gives up on an execution whose process group cannot be proved to be
// gone: there is no result, and the guest starts nothing any more.
func (e *execution) fence(reason string) {
	e.server.retire(reason)
	e.outbox.destroy()
	if e.log != nil {
		e.log.close(true)
	}
	t := &e.server.executions
	t.mu.Lock()
	defer t.mu.Unlock()
	e.state, e.fenced = wire.StateExited, reason
	close(e.settled)
}
