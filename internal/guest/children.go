package guest

import (
	"os"
	"sync"
)

// children are the processes that this package has started and not yet waited
// for. Whoever reaps orphans must leave them alone: their exit status belongs
// to the one that started them.
var children = struct {
	// starting is read-held while a process is being started: it may end before
	// it is in own.
	starting sync.RWMutex

	mu    sync.Mutex // guards the fields below
	own   map[int]bool
	freed func() // called when one has been waited for; nil without a reaper
}{own: map[int]bool{}}

// startChild starts a process of ours.
func startChild(start func() (*os.Process, error)) (*os.Process, error) {
	children.starting.RLock()
	defer children.starting.RUnlock()
	p, err := start()
	if err == nil {
		children.mu.Lock()
		children.own[p.Pid] = true
		children.mu.Unlock()
	}
	return p, err
}

// waitChild waits for it to end.
func waitChild(p *os.Process) (*os.ProcessState, error) {
	state, err := p.Wait()
	children.mu.Lock()
	delete(children.own, p.Pid)
	freed := children.freed
	children.mu.Unlock()
	if freed != nil {
		freed()
	}
	return state, err
}
