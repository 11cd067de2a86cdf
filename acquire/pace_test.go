package acquire_test

import (
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
)

const ms = time.Millisecond

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  time.Duration
		n      int
		most   time.Duration
		random float64
		want   time.Duration
	}{
		{"the first look waits for a usual bind", 0, 1, 50 * ms, 0.5, 25 * ms},
		{"or for what this cluster has shown", 40 * ms, 1, 50 * ms, 0.5, 40 * ms},
		{"spread a tenth to either side", 40 * ms, 1, 50 * ms, 0, 36 * ms},
		{"a slow cluster's first look may come later than the interval", 200 * ms, 1, 50 * ms, 0.5, 200 * ms},
		{"then it looks again soon", 40 * ms, 2, 50 * ms, 0.5, 8 * ms},
		{"in steps that grow by half", 40 * ms, 3, 50 * ms, 0.5, 12 * ms},
		{"up to the interval", 40 * ms, 12, 50 * ms, 0.5, 50 * ms},
		{"however many there are", 40 * ms, 1000, 50 * ms, 0.5, 50 * ms},
		{"an interval shorter than the steps is kept", 40 * ms, 2, 5 * ms, 0.5, 5 * ms},
		{"and never a busy loop", 40 * ms, 2, ms, 0, ms},
	} {
		if got := acquire.Schedule(c.first, c.n, c.most, c.random); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLearned(t *testing.T) {
	for _, c := range []struct {
		name          string
		first         time.Duration
		n             int
		notYet, ready time.Duration
		least, atMost time.Duration
	}{
		{"found at the first look: look a little sooner", 40 * ms, 1, 0, 41 * ms, 37 * ms, 39 * ms},
		{"missed: move towards where the bind was", 30 * ms, 3, 50 * ms, 62 * ms, 35 * ms, 50 * ms},
		{"never below the least a bind takes", 10 * ms, 1, 0, 10 * ms, 10 * ms, 10 * ms},
		{"one slow bind does not spoil the next", 30 * ms, 40, 9 * time.Second, 9050 * ms, 30 * ms, 250 * ms},
	} {
		got := acquire.Learned(c.first, c.n, c.notYet, c.ready)
		if got < c.least || got > c.atMost {
			t.Errorf("%s: got %v, want %v to %v", c.name, got, c.least, c.atMost)
		}
	}
	// A cluster whose binds take 80 ms is learned within a few creates.
	first := time.Duration(0)
	for range 30 {
		looks, at, last := 1, first, time.Duration(0)
		if at == 0 {
			at = 25 * ms
		}
		for at < 80*ms {
			looks++
			last = at
			at += acquire.Schedule(first, looks, 50*ms, 0.5)
		}
		first = acquire.Learned(first, looks, last, at)
	}
	if first < 70*ms || first > 90*ms {
		t.Errorf("after 30 binds of 80 ms the first look comes after %v", first)
	}
}
