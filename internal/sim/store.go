package sim

import (
	"cmp"
	"crypto/rand"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/sandlot-go/sandlot/internal/uuid"
)

const (
	firstVersion = 200  // resource versions of a new cluster begin here: low ones are too old to watch from
	maxEvents    = 4096 // so many changes at least can be watched from the past
)

// A place names an object of a resource.
type place struct{ namespace, name string }

func (p place) String() string { return p.namespace + "/" + p.name }

func placeOf(o object) place { return place{namespace(o), name(o)} }

// A change is one write.
type change struct {
	version  uint64
	resource *resource
	old, now object // old is nil for a new object; now carries the version even if it is gone
	gone     bool
}

// A world is the state of the cluster and everything that acts on it by itself.
// The mutex of its Cluster guards it: all methods are called with that held, and
// none of them waits.
type world struct {
	cfg     *Config
	cluster *Cluster
	objects map[*resource]map[place]object
	version uint64
	changes []change      // the latest, in order
	floor   uint64        // changes up to this version are forgotten
	changed chan struct{} // closed at the next change

	snapshots []snapshot
	tasks     agenda
	births    map[string]time.Time // by uid: when the controller looks at it first
	dress     map[string]time.Time // by uid of a bound sandbox: when its pod gets its labels
	retries   map[task]int
	pods      map[string]*podState // by uid
	nextIP    int
	records   map[string][]string // addresses of Services by name
	paused    bool                // the controller is not running
	held      []task              // what it would have done meanwhile
}

func newWorld(c *Cluster) *world {
	w := &world{
		cfg: &c.cfg, cluster: c, version: firstVersion, floor: firstVersion, changed: make(chan struct{}),
		objects: make(map[*resource]map[place]object), tasks: newAgenda(),
		births: make(map[string]time.Time), dress: make(map[string]time.Time), retries: make(map[task]int),
		pods: make(map[string]*podState), records: make(map[string][]string),
	}
	for _, r := range resources {
		w.objects[r] = make(map[place]object)
	}
	return w
}

func (w *world) now() time.Time { return w.cfg.Now() }

// stamp is the server's time as objects carry it.
func (w *world) stamp() string { return w.now().UTC().Format(time.RFC3339) }

func (w *world) get(r *resource, p place) object { return w.objects[r][p] }

// all lists a resource in the order of keys; an empty namespace means every one.
func (w *world) all(r *resource, ns string) []object {
	return w.where(r, ns, func(object) bool { return true })
}

// where is all of those that are wanted.
func (w *world) where(r *resource, ns string, wanted func(object) bool) []object {
	var out []object
	for p, o := range w.objects[r] {
		if (ns == "" || p.namespace == ns) && wanted(o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b object) int { return cmp.Compare(placeOf(a).String(), placeOf(b).String()) })
	return out
}

// children are the objects that id controls.
func (w *world) children(r *resource, ns, id string) []object {
	return w.where(r, ns, func(o object) bool { return ownedBy(o, id) })
}

// record is the one place where the store changes. A nil now takes old away.
func (w *world) record(r *resource, old, now object) object {
	w.version++
	c := change{version: w.version, resource: r, old: old, now: now}
	if now == nil {
		c.gone = true
		c.now = clone(old)
		delete(w.objects[r], placeOf(old))
	} else {
		w.objects[r][placeOf(now)] = now
	}
	need(c.now, "metadata")["resourceVersion"] = strconv.FormatUint(w.version, 10)
	w.changes = append(w.changes, c)
	if n := len(w.changes) - maxEvents; n >= maxEvents { // seldom, since it copies
		w.floor = w.changes[n-1].version
		w.changes = slices.Clone(w.changes[n:])
	}
	close(w.changed)
	w.changed = make(chan struct{})
	w.notice(r, old, now)
	return c.now
}

// create stores a new object, which must be complete and the caller's own.
func (w *world) create(r *resource, o object) (object, *failure) {
	meta := need(o, "metadata")
	if name(o) == "" {
		meta["name"] = text(meta, "generateName") + suffix()
	}
	if w.get(r, placeOf(o)) != nil {
		return nil, exists(r, name(o))
	}
	w.seed(r, o)
	return w.record(r, nil, o), nil
}

// seed gives a new object what the server gives it.
func (w *world) seed(r *resource, o object) {
	meta := need(o, "metadata")
	meta["uid"] = uuid.New()
	meta["creationTimestamp"] = w.stamp()
	for _, k := range []string{"generation", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"} {
		delete(meta, k)
	}
	if r.generation {
		meta["generation"] = int64(1)
	}
	o["apiVersion"], o["kind"] = r.apiVersion(), r.kind
}

// update replaces an object, unless nothing differs. The generation goes up
// with the spec; an object that is being deleted goes with its last finalizer.
func (w *world) update(r *resource, old, now object) object {
	meta := need(now, "metadata")
	meta["resourceVersion"] = at(old, "metadata", "resourceVersion")
	meta["generation"] = at(old, "metadata", "generation")
	if !r.generation {
		delete(meta, "generation")
	}
	if equal(old, now) {
		return old
	}
	if r.generation && !equal(content(r, old), content(r, now)) {
		meta["generation"] = generation(old) + 1
	}
	if dying(now) && len(finalizers(now)) == 0 && r != pods {
		return w.record(r, now, nil)
	}
	return w.record(r, old, now)
}

// content is what generation counts changes of.
func content(r *resource, o object) object {
	c := maps.Clone(o)
	delete(c, "metadata")
	if r.status {
		delete(c, "status")
	}
	return c
}

// edit is update of a copy that f changes.
func (w *world) edit(r *resource, o object, f func(object)) object {
	next := clone(o)
	f(next)
	return w.update(r, o, next)
}

// setStatus is edit of nothing but the status.
func (w *world) setStatus(r *resource, o, status object) object {
	return w.edit(r, o, func(o object) { o["status"] = status })
}

// remaining is the time until a stamp by the server's clock; ok is false when
// there is none.
func (w *world) remaining(stamp string) (d time.Duration, ok bool) {
	t, err := time.Parse(time.RFC3339, stamp)
	return t.Sub(w.now()), err == nil
}

// suffix is five characters of the server's alphabet for generated names.
func suffix() string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	for i := range b {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		b[i] = alphabet[n.Int64()]
	}
	return string(b)
}
