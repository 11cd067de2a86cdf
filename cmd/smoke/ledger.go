package main

import (
	"cmp"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
)

// An item is an object of ours that must be gone in the end.
type item struct {
	resource k8s.Resource
	name     string
	uid      string // "" when it was never seen
	presumed bool   // nobody has told of it, but it may have come of one that is known
}

func (i item) String() string { return i.resource.Kind + " " + i.name }

// A ledger remembers all objects that the run has made or been given.
type ledger struct {
	mu    sync.Mutex
	items []item
	known map[string]int // index by kind and name
}

func (l *ledger) add(r k8s.Resource, name, uid string) {
	if name == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLocked(item{resource: r, name: name, uid: uid})
}

// presume adds what may have been made from an object of which no more is known:
// a claim that starts cold gets a Sandbox of its own name, and a Sandbox a pod.
func (l *ledger) presume(name string) {
	if name == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range []k8s.Resource{k8s.Sandboxes, k8s.Pods} {
		l.addLocked(item{resource: r, name: name, presumed: true})
	}
}

func (l *ledger) addLocked(one item) {
	key := one.String()
	i, ok := l.known[key]
	if !ok {
		if l.known == nil {
			l.known = map[string]int{}
		}
		l.known[key] = len(l.items)
		l.items = append(l.items, one)
		return
	}
	if l.items[i].uid == "" {
		l.items[i].uid = one.uid
	}
	l.items[i].presumed = l.items[i].presumed && one.presumed
}

func (l *ledger) all() []item {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]item(nil), l.items...)
}

func (l *ledger) addReport(r acquire.Report) {
	l.add(resourceOf(r.Kind), r.Object, r.ObjectUID)
	l.add(k8s.Sandboxes, r.Sandbox, "")
	l.add(k8s.Pods, r.Pod, r.PodUID)
}

func (l *ledger) addError(e *acquire.Error) {
	l.add(resourceOf(e.Kind), e.Object, "")
	l.add(k8s.Sandboxes, e.Sandbox, "")
	l.add(k8s.Pods, e.Pod, "")
	l.presume(cmp.Or(e.Sandbox, e.Object))
}

func resourceOf(kind string) k8s.Resource {
	if kind == k8s.Sandboxes.Kind {
		return k8s.Sandboxes
	}
	return k8s.SandboxClaims
}

// trace learns the name of an object from its deletion: a create that was
// interrupted cleans up and returns nothing but why.
func (l *ledger) trace() *k8s.Trace {
	return &k8s.Trace{Request: func(r k8s.RequestInfo) {
		if r.Method != http.MethodDelete {
			return
		}
		for _, resource := range []k8s.Resource{k8s.SandboxClaims, k8s.Sandboxes} {
			if strings.HasSuffix(path.Dir(r.Path), "/"+resource.Plural) {
				l.add(resource, path.Base(r.Path), "")
				l.presume(path.Base(r.Path))
			}
		}
	}}
}
