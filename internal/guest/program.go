package guest

import (
	"os"
	"time"
)

// A program is a process that was started, with what it started in turn in its
// process group.
type program struct {
	process *os.Process
	group   group
	stdin   *os.File // the end that is written to; nil without
	stdout  *os.File
	stderr  *os.File

	reaped chan struct{} // closed when the process has been waited for
	exit   exit          // valid then
	pumped chan struct{} // closed when both outputs have been read to their end
}

// wait waits for the process.
func (p *program) wait() {
	defer close(p.reaped)
	state, err := waitChild(p.process)
	if err != nil {
		p.exit = exit{code: -1} // somebody else has waited for it
		return
	}
	p.exit = exitOf(state)
}

// feed writes text to the program's stdin and closes it. A program that does
// not want it is no error.
func (p *program) feed(text string) {
	p.stdin.WriteString(text)
	p.stdin.Close()
}

// hangUp closes this side of the streams, for the case that processes outside
// the group still have the other.
func (p *program) hangUp() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// hangUpIfHeld has the outputs end with what is in them, if they are still open
// after a while. The time is nothing that they must be read in.
func (p *program) hangUpIfHeld() {
	if within(hangUpWait, closed(p.pumped)) {
		return
	}
	if p.stdin != nil {
		p.stdin.Close()
	}
	cutOff(p.stdout)
	cutOff(p.stderr)
}

// end ends the process group: SIGTERM, SIGKILL after grace, and until limit has
// passed to be gone. It reports whether it is.
func (g group) end(grace, limit time.Duration) bool {
	gone := g.watch()
	g.terminate()
	if within(min(grace, limit), gone) {
		return true
	}
	g.kill()
	return within(max(limit-grace, 0), gone)
}
