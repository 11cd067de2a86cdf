package main

import (
	"slices"
	"sync"
	"sync/atomic"
)

// notes are things that a reader should know and no step failed of.
type notes struct {
	mu    sync.Mutex
	lines []string
}

const maxNotes = 20

func (n *notes) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	line = oneLine(line)
	if len(n.lines) < maxNotes && !slices.Contains(n.lines, line) {
		n.lines = append(n.lines, line)
	}
}

func (n *notes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}

// A counter counts in many goroutines.
type counter struct{ n atomic.Int64 }

func (c *counter) add() { c.n.Add(1) }

func (c *counter) total() int { return int(c.n.Load()) }
