package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// A job is a program that is no execution: that of a terminal, or of a session.
type job struct {
	launched chan struct{} // closed when it runs or could not be started
	*program               // valid when launched; nil if it could not be started
	terminal *os.File      // our side of it; nil without
}

// jobs are those whose program runs.
type jobs struct {
	server *Server

	mu      sync.Mutex // guards the fields below
	running map[*job]bool
	closed  bool
}

// start starts a job, on a terminal if one is given, and waits for its end in
// the background. The caller closes terminal after an error and not otherwise.
func (t *jobs) start(spec spec, master, slave *os.File) (*job, error) {
	j := &job{launched: make(chan struct{}), terminal: master}
	t.mu.Lock()
	if t.closed || t.server.gated() {
		t.mu.Unlock()
		return nil, codeQuiescing
	}
	t.running[j] = true
	t.server.programs.Add(1)
	t.mu.Unlock()
	var err error
	if slave != nil {
		j.program, err = spec.spawnOn(t.server.start, slave)
	} else {
		j.program, err = spec.spawn(t.server.start)
	}
	close(j.launched)
	if err != nil {
		t.forget(j)
		t.server.programs.Done()
		return nil, err
	}
	go func() {
		defer t.server.programs.Done()
		j.wait()
		t.forget(j)
		if j.terminal != nil { // others may still have it
			j.terminal.SetReadDeadline(time.Now().Add(hangUpWait))
		}
	}()
	return j, nil
}

func (t *jobs) forget(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, j)
}

func (t *jobs) snapshot() []*job {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.running))
	t.mu.Unlock()
	for _, j := range all {
		<-j.launched
	}
	return slices.DeleteFunc(all, func(j *job) bool { return j.program == nil })
}

// quiesce ends all jobs and waits for it.
func (t *jobs) quiesce(ctx context.Context) error {
	config := &t.server.config
	for _, step := range []struct {
		signal string
		wait   time.Duration
	}{{"SIGTERM", config.QuiesceGrace}, {"SIGKILL", config.CancelTimeout}} {
		all := t.snapshot()
		for _, j := range all {
			j.group.killSession(step.signal, "")
		}
		ended := func() bool {
			return ctx.Err() != nil || !slices.ContainsFunc(all, func(j *job) bool { return !closed(j.reaped)() })
		}
		if within(step.wait, ended) && ctx.Err() == nil {
			return nil
		}
	}
	return errors.New("guest: programs of terminals or sessions still run")
}

// kill ends all jobs with SIGKILL, now and for good.
func (t *jobs) kill() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	all := t.snapshot()
	for _, j := range all {
		j.group.killSession("SIGKILL", "")
	}
	var errs []error
	for _, j := range all {
		if !within(closeWait, closed(j.reaped)) {
			errs = append(errs, fmt.Errorf("guest: process %d does not end", j.group))
			continue
		}
		j.group.killSession("SIGKILL", "") // what was started meanwhile
	}
	return errors.Join(errs...)
}

// readTerminal hands out what the programs on the terminal write, until none
// has it any more, or the job has ended and all that it has written is there.
func (j *job) readTerminal(take func([]byte)) {
	buf := make([]byte, readSize)
	ended := closed(j.reaped)
	for after, idle := 0, false; after < drainMost; {
		n, err := j.terminal.Read(buf)
		if n > 0 {
			take(buf[:n])
			idle = false
		}
		if ended() {
			after += n
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !idle:
			idle = true // but it may be take that took so long
			j.terminal.SetReadDeadline(time.Now().Add(hangUpWait))
		default: // EIO is how a terminal that nobody has ends
			return
		}
	}
}
