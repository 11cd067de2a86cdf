package sim

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// defaultWatch is how long a watch lasts that does not say; the real server
// picks a time between 30 and 60 minutes.
const defaultWatch = 30 * time.Minute

// A watcher is a watch that is about to be streamed.
type watcher struct {
	want    filter
	first   []object // ADDED to begin with
	version uint64   // what has been seen
	life    time.Duration
	marks   bool     // bookmarks are wanted
	begun   bool     // one is to say that what there was has been sent
	failed  *failure // the one event there will be
}

// An event is a line of a watch.
type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// watch answers GET of a collection with watch=1.
func (c *Cluster) watch(k *call) answer {
	fail := func(f *failure) answer { return answer{failure: f} }
	if f := checkQuery(k.query, "labelSelector", "fieldSelector", "watch", "resourceVersion", "timeoutSeconds", "allowWatchBookmarks"); f != nil {
		return fail(f)
	}
	want, f := k.filter()
	if f != nil {
		return fail(f)
	}
	s := &watcher{want: want, life: defaultWatch}
	if t := k.query.Get("timeoutSeconds"); t != "" {
		n, err := strconv.Atoi(t)
		if err != nil || n < 0 {
			return fail(unmodelled("timeoutSeconds=%s", t))
		}
		if n > 0 {
			s.life = time.Duration(n) * time.Second
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.version = c.world.version
	if s.marks = k.query.Get("allowWatchBookmarks") == "true" || k.query.Get("allowWatchBookmarks") == "1"; s.marks {
		s.begun = k.query.Get("resourceVersion") == "0"
	}
	switch v := k.query.Get("resourceVersion"); v {
	case "", "0":
		s.first = slices.DeleteFunc(c.world.all(k.resource, k.namespace), func(o object) bool { return !want.takes(o) })
	default:
		from, err := strconv.ParseUint(v, 10, 64)
		switch {
		case err != nil || from > c.world.version:
			return fail(unmodelled("watch from resourceVersion=%s", v))
		case from < c.world.floor:
			s.failed = tooOld(from, c.world.floor)
		}
		s.version = from
	}
	return answer{code: http.StatusOK, stream: s}
}

// since are the changes after a version; ok is false when some are forgotten.
func (w *world) since(version uint64) (changes []change, ok bool) {
	if version < w.floor {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(w.changes, version+1, func(c change, v uint64) int { return int(int64(c.version) - int64(v)) })
	return slices.Clone(w.changes[i:]), true
}

// event is what a change is for somebody who sees only what the filter takes.
func (f filter) event(c change) (event, bool) {
	if c.resource != f.resource {
		return event{}, false
	}
	before, after := f.takes(c.old), !c.gone && f.takes(c.now)
	switch {
	case before && after:
		return event{"MODIFIED", c.now}, true
	case after:
		return event{"ADDED", c.now}, true
	case before:
		gone := clone(c.old)
		need(gone, "metadata")["resourceVersion"] = strconv.FormatUint(c.version, 10)
		return event{"DELETED", gone}, true
	}
	return event{}, false
}

// stream writes events until the watch's time is over or somebody leaves.
func (o *responder) stream(s *watcher) {
	o.header("application/json")
	o.cluster.answered(o.request, http.StatusOK)
	o.w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(o.w).Flush
	flush()
	if o.fault != nil && o.fault.HangAfter {
		o.hang()
	}
	if s.failed != nil {
		o.emit(event{"ERROR", s.failed.status()})
		return
	}
	end := time.NewTimer(s.life)
	defer end.Stop()
	mark := time.NewTimer(s.untilMark(s.life))
	defer mark.Stop()
	left := time.Now().Add(s.life)
	for _, obj := range s.first {
		if o.emit(event{"ADDED", obj}) != nil {
			return
		}
	}
	if s.begun && o.emit(s.bookmark(object{"k8s.io/initial-events-end": "true"})) != nil {
		return
	}
	for {
		c := o.cluster
		c.mu.Lock()
		changes, ok := c.world.since(s.version)
		changed, oldest := c.world.changed, c.world.floor
		c.mu.Unlock()
		if !ok { // too slow a reader
			o.emit(event{"ERROR", tooOld(s.version, oldest).status()})
			return
		}
		for _, ch := range changes {
			s.version = ch.version
			if e, wanted := s.want.event(ch); wanted && o.emit(e) != nil {
				return
			}
		}
		if flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-mark.C:
			if s.marks && o.emit(s.bookmark(nil)) != nil {
				return
			}
			mark.Reset(s.untilMark(time.Until(left)))
		case <-end.C:
			return
		case <-o.r.Context().Done():
			return
		case <-c.done:
			panic(http.ErrAbortHandler)
		}
	}
}

const (
	markEvery = time.Minute     // from one bookmark to the next
	lastMark  = 2 * time.Second // from the last one to the end of the watch
)

// untilMark is the time until the next bookmark of a watch that has that long
// to go; behind the last one there is none.
func (s *watcher) untilMark(left time.Duration) time.Duration {
	if left <= lastMark {
		return left + time.Hour
	}
	return min(markEvery, left-lastMark)
}

func (s *watcher) bookmark(notes object) event {
	r := s.want.resource
	meta := object{"creationTimestamp": nil, "resourceVersion": strconv.FormatUint(s.version, 10)}
	if notes != nil {
		meta["annotations"] = notes
	}
	return event{"BOOKMARK", object{"apiVersion": r.apiVersion(), "kind": r.kind, "metadata": meta}}
}

func (o *responder) emit(e event) error {
	data := marshal(e)
	if o.fault != nil && o.fault.Cut == 0 && o.fault.Replace != nil {
		data = o.fault.Replace(data)
	}
	return o.write(data)
}
