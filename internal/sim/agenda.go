package sim

import (
	"container/heap"
	"time"
)

// A task is one object that one of the cluster's own parts is to look at.
type task struct {
	kind     string
	resource *resource // of the garbage collector's tasks
	place    place
}

// The kinds of tasks. Those of the controller stand still while it is paused.
const (
	observeTask  = "observe"
	claimTask    = "claim"
	readyTask    = "first ready"
	sandboxTask  = "sandbox"
	poolTask     = "pool"
	templateTask = "template"

	podTask     = "pod"
	diskTask    = "disk"
	collectTask = "collect"
)

func (t task) ofController() bool {
	switch t.kind {
	case podTask, diskTask, collectTask:
		return false
	}
	return true
}

// An agenda holds each task at most once, at the earliest time asked for; equal
// times go in the order of asking.
type agenda struct {
	due   map[task]entry
	queue entries
	count int
}

type entry struct {
	task  task
	at    time.Time
	order int
}

type entries []entry

func (e entries) Len() int      { return len(e) }
func (e entries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *entries) Push(v any)   { *e = append(*e, v.(entry)) }
func (e *entries) Pop() any     { o := *e; last := o[len(o)-1]; *e = o[:len(o)-1]; return last }
func (e entries) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].order < e[j].order
}

func newAgenda() agenda { return agenda{due: make(map[task]entry)} }

// add reports whether the task is now due sooner than it was.
func (a *agenda) add(t task, at time.Time) bool {
	if e, ok := a.due[t]; ok && !at.Before(e.at) {
		return false
	}
	a.count++
	e := entry{t, at, a.count}
	a.due[t] = e
	heap.Push(&a.queue, e)
	return true
}

// next is the first task, which stays.
func (a *agenda) next() (entry, bool) {
	for len(a.queue) > 0 {
		first := a.queue[0]
		if a.due[first.task] == first {
			return first, true
		}
		heap.Pop(&a.queue) // superseded
	}
	return entry{}, false
}

// take removes the task.
func (a *agenda) take(t task) { delete(a.due, t) }
