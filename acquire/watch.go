package acquire

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// safetyPoll is how often the object is read beside a watch: a proxy may hold
// the stream back.
const safetyPoll = time.Second

// A lookout says when to look at the object, and looks. With a watch the object
// comes by itself and the polls are slow; without one, or once it ends, the
// pace decides alone.
type lookout struct {
	a      *attempt
	cancel context.CancelFunc
	events chan k8s.Object // closed when the watch has ended
	wg     sync.WaitGroup
	fresh  k8s.Object // delivered by the watch and not looked at yet
}

// watch begins to watch the object if the configuration asks for it.
func (a *attempt) watch(object k8s.Object) *lookout {
	l := &lookout{a: a, cancel: func() {}}
	if !a.b.cfg.Watch || !a.b.mayWatch() {
		return l
	}
	ctx, cancel := context.WithCancel(a.ctx)
	l.cancel = cancel
	l.events = make(chan k8s.Object)
	l.wg.Go(func() {
		defer close(l.events)
		err := a.follow(ctx, object.ResourceVersion(), l.events)
		if e, ok := errors.AsType[*k8s.APIError](err); ok && (e.Code == http.StatusForbidden || e.Code == http.StatusMethodNotAllowed) {
			a.b.stopWatching()
		}
	})
	return l
}

// follow delivers what the watch reports until it ends.
func (a *attempt) follow(ctx context.Context, version string, events chan<- k8s.Object) error {
	w, err := a.b.client.Watch(ctx, a.resource, a.name, version)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		event, err := w.Next()
		if err != nil {
			return err
		}
		if event.Type == "DELETED" {
			return errors.New("acquire: the watched object was deleted")
		}
		if event.Type != "ADDED" && event.Type != "MODIFIED" {
			continue
		}
		select {
		case events <- event.Object:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *lookout) close() {
	l.cancel()
	l.wg.Wait()
}

// wait returns when it is time to look: after d, or as soon as the watch has
// something.
func (l *lookout) wait(d time.Duration) error {
	l.fresh = nil
	if l.events == nil {
		return l.a.sleep(d)
	}
	t := time.NewTimer(safetyPoll)
	defer t.Stop()
	select {
	case o, ok := <-l.events:
		if !ok {
			l.events = nil // fall back to polling
			return l.a.sleep(d)
		}
		l.fresh = o
		return nil
	case <-t.C:
		return nil
	case <-l.a.ctx.Done():
		return context.Cause(l.a.ctx)
	}
}

// look returns the object as the watch delivered it, or reads it.
func (l *lookout) look() (k8s.Object, error) {
	if l.fresh != nil {
		return l.fresh, nil
	}
	return l.a.b.client.Get(l.a.ctx, l.a.resource, l.a.name)
}

func (b *Backend) mayWatch() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.noWatch
}

// stopWatching makes all later creates poll: watching was refused.
func (b *Backend) stopWatching() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noWatch = true
}
