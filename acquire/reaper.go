package acquire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// An orphan is an object that its create or its holder could not delete.
type orphan struct {
	resource k8s.Resource
	name     string
	uid      string    // "" when it was never seen
	until    time.Time // its own shutdownTime: the controller deletes it then

	// recheck marks an object that was not there when it was deleted, and whose
	// creation may still be under way.
	recheck bool
	tries   int
	due     time.Time
	err     error // of the last try
}

// delete removes the object. That it is gone, or that another one has its name,
// is success; an answer that only says the path is not served is not.
func (o *orphan) delete(ctx context.Context, client *k8s.Client) error {
	_, err := client.Delete(ctx, o.resource, o.name, k8s.DeleteOptions{UID: o.uid})
	if k8s.IsNotFound(err) || o.uid != "" && k8s.KindOf(err) == k8s.Conflict {
		return nil
	}
	return err
}

// A Leak is an object whose deletion failed.
type Leak struct {
	Kind, Namespace, Name, UID string
	State                      LeakState
	Until                      time.Time // when the object expires by itself
	Err                        error     // of the last attempt to delete it; nil when it was deleted
}

// A LeakState says where a Leak stands.
type LeakState string

// The states of a leak.
const (
	LeakPending   LeakState = "pending"   // its deletion failed and will be repeated
	LeakReleased  LeakState = "released"  // it is deleted
	LeakExpired   LeakState = "expired"   // its own time has passed; the controller is to have deleted it
	LeakAbandoned LeakState = "abandoned" // given up: too many at once, or Close had no more time
)

const (
	maxOrphans   = 1024 // more at once are reported and left to their expiry
	reapTimeout  = 10 * time.Second
	reapFirst    = time.Second
	reapMost     = 30 * time.Second
	recheckAfter = 5 * time.Second
	// recheckClosing is the same for a Backend that is closed before.
	recheckClosing = time.Second
)

// A reaper deletes orphans in the background. Its goroutine runs while there
// are any; close joins it.
type reaper struct {
	client *k8s.Client
	report func(Leak)

	mu      sync.Mutex
	orphans []*orphan
	running bool
	closed  bool
	wake    chan struct{} // buffered; a new orphan may be due sooner
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

func newReaper(client *k8s.Client, report func(Leak)) *reaper {
	if report == nil {
		report = func(Leak) {}
	}
	r := &reaper{client: client, report: report, wake: make(chan struct{}, 1)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// add hands over an object whose deletion failed with err; err is nil for one
// that is only to be checked again.
func (r *reaper) add(o orphan, err error) {
	o.err = err
	o.due = time.Now().Add(reapFirst)
	if o.recheck {
		o.due = time.Now().Add(recheckAfter)
	}
	r.mu.Lock()
	full := r.closed || len(r.orphans) >= maxOrphans
	if !full {
		r.orphans = append(r.orphans, &o)
		if !r.running {
			r.running = true
			r.wg.Go(r.run)
		}
	}
	r.mu.Unlock()
	if err != nil {
		r.tell(&o, LeakPending)
	}
	if full && err != nil {
		r.tell(&o, LeakAbandoned)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// unsure reports whether an object may yet appear.
func (r *reaper) unsure() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.orphans, func(o *orphan) bool { return o.err == nil && o.recheck })
}

func (r *reaper) tell(o *orphan, state LeakState) {
	l := Leak{Kind: o.resource.Kind, Namespace: r.client.Namespace(), Name: o.name, UID: o.uid, State: state, Until: o.until, Err: o.err}
	if state == LeakReleased {
		l.Err = nil
	}
	r.report(l)
}

// run tries what is due until nothing is left.
func (r *reaper) run() {
	for {
		next, ok := r.next()
		if !ok {
			return
		}
		t := time.NewTimer(time.Until(next))
		select {
		case <-t.C:
			r.round(r.ctx, false)
		case <-r.wake:
		case <-r.ctx.Done():
		}
		t.Stop()
	}
}

// next is when the earliest orphan is due; false ends the goroutine.
func (r *reaper) next() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.orphans) == 0 || r.ctx.Err() != nil {
		r.running = false
		return time.Time{}, false
	}
	next := r.orphans[0].due
	for _, o := range r.orphans {
		if o.due.Before(next) {
			next = o.due
		}
	}
	return next, true
}

// round tries every orphan that is due, or all of them, one after the other.
func (r *reaper) round(ctx context.Context, all bool) {
	r.mu.Lock()
	var due []*orphan
	for _, o := range r.orphans {
		if all || !o.due.After(time.Now()) {
			due = append(due, o)
		}
	}
	r.mu.Unlock()
	for _, o := range due {
		if ctx.Err() != nil {
			return
		}
		r.try(ctx, o)
	}
}

func (r *reaper) try(ctx context.Context, o *orphan) {
	bounded, cancel := context.WithTimeout(ctx, reapTimeout)
	err := o.delete(bounded, r.client)
	cancel()
	if err != nil && ctx.Err() != nil {
		return // stopped, not failed
	}
	offset, _ := r.client.ClockOffset()
	expired := time.Now().Add(offset).After(o.until)
	r.mu.Lock()
	first := o.err == nil
	o.err = err
	o.tries++
	o.due = time.Now().Add(min(reapFirst<<min(o.tries, 10), reapMost))
	if err == nil || expired {
		for i, other := range r.orphans {
			if other == o {
				r.orphans = append(r.orphans[:i], r.orphans[i+1:]...)
				break
			}
		}
	}
	r.mu.Unlock()
	switch {
	case err == nil && !o.recheck:
		r.tell(o, LeakReleased)
	case err != nil && expired:
		r.tell(o, LeakExpired)
	case err != nil && first:
		r.tell(o, LeakPending)
	}
}

// close tries what is left for as long as ctx lasts and a moment longer, then
// stops.
func (r *reaper) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.wg.Wait()
	if r.unsure() { // a POST that nobody waits for any more may be under way
		t := time.NewTimer(recheckClosing)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
	ctx, cancel := graced(ctx, cleanupGrace)
	defer cancel()
	for n := 0; ; n++ {
		r.round(ctx, true)
		r.mu.Lock()
		left := len(r.orphans)
		r.mu.Unlock()
		if left == 0 {
			return nil
		}
		t := time.NewTimer(min(100*time.Millisecond<<min(n, 10), reapMost))
		select {
		case <-t.C:
			t.Stop()
			continue
		case <-ctx.Done():
			t.Stop()
		}
		break
	}
	r.mu.Lock()
	left := r.orphans
	r.orphans = nil
	r.mu.Unlock()
	errs := []error{fmt.Errorf("acquire: Close gave up: %w", context.Cause(ctx))}
	for _, o := range left {
		if o.err == nil && o.recheck {
			continue
		}
		r.tell(o, LeakAbandoned)
		errs = append(errs, fmt.Errorf("acquire: %s %s in namespace %s is not deleted and expires at %s: %w", o.resource.Kind, o.name, r.client.Namespace(), o.until.UTC().Format(time.RFC3339), o.err))
	}
	if len(errs) == 1 {
		return nil
	}
	return errors.Join(errs...)
}
