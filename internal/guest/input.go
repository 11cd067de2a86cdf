package guest

import (
	"io"
	"sync"
)

// An input is what waits to be read by the program on a terminal.
type input struct {
	to      io.Writer
	changed sync.Cond
	mu      sync.Mutex // guards the fields below
	waiting []byte
	over    bool
}

// inputRoom is how much of it there may be before its peer has to wait.
const inputRoom = 1 << 20

func newInput(to io.Writer) *input {
	in := &input{to: to}
	in.changed.L = &in.mu
	return in
}

// put adds text, and waits while there is no room.
func (in *input) put(text string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.waiting) >= inputRoom && !in.over {
		in.changed.Wait()
	}
	if !in.over {
		in.waiting = append(in.waiting, text...)
		in.changed.Broadcast()
	}
}

// end makes put and run return. It is for when the program has ended.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.over, in.waiting = true, nil
	in.changed.Broadcast()
}

// run writes to the program what is put, until end.
func (in *input) run() {
	for {
		in.mu.Lock()
		for len(in.waiting) == 0 && !in.over {
			in.changed.Wait()
		}
		text := in.waiting
		in.waiting = nil
		over := in.over
		in.changed.Broadcast()
		in.mu.Unlock()
		if over {
			return
		}
		if _, err := in.to.Write(text); err != nil {
			in.end() // nobody will read it
		}
	}
}
