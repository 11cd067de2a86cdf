package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// A leakError is what was still there when the time for it to go was over.
type leakError struct {
	namespace string
	left      []item
	deleting  bool // all of it is on its way out
	waited    time.Duration
	last      error // of a read that failed
}

func (e *leakError) Unwrap() error { return e.last }

func (e *leakError) Error() string {
	var names, owners []string
	for _, i := range e.left {
		names = append(names, i.String())
	}
	for _, r := range []k8s.Resource{k8s.SandboxClaims, k8s.Sandboxes, k8s.Pods} { // each owns the next
		for _, i := range e.left {
			if i.resource == r {
				owners = append(owners, strings.ToLower(r.Kind)+"/"+i.name)
			}
		}
		if owners != nil {
			break
		}
	}
	text := fmt.Sprintf("after %v there still is %s in namespace %s", e.waited.Round(time.Second), strings.Join(names, ", "), e.namespace)
	if e.deleting {
		text += "; the API server has taken the deletion, something holds it back (a finalizer, or a node that does not answer)"
	}
	if e.last != nil {
		text += "; the last read failed: " + e.last.Error()
	}
	return text + "; to remove it: kubectl -n " + e.namespace + " delete " + strings.Join(owners, " ")
}

const (
	leakPoll     = 50 * time.Millisecond
	leakPollMost = time.Second
)

// A sweep waits until objects are gone.
type sweep struct {
	client *k8s.Client
	unread map[string]bool // kinds that the account may not read
}

// gone returns when no item is there any more. An object is gone when the API
// server says that it does not exist, or another one has its name; an answer
// that only says the path is not served proves nothing.
func (s *sweep) gone(ctx context.Context, items []item) error {
	start := time.Now()
	left := &leakError{namespace: s.client.Namespace(), left: items}
	for pause := leakPoll; ; pause = min(pause*2, leakPollMost) {
		seen, err := s.look(ctx, left.left)
		switch {
		case ctx.Err() != nil:
			left.waited = time.Since(start)
			return left // what the last look saw that was not cut short
		case err != nil:
			return err
		case len(seen.left) == 0:
			return nil
		}
		left = seen
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// look asks once for each item.
func (s *sweep) look(ctx context.Context, items []item) (*leakError, error) {
	left := &leakError{namespace: s.client.Namespace(), deleting: true}
	for _, i := range items {
		object, err := s.client.Get(ctx, i.resource, i.name)
		switch {
		case k8s.IsNotFound(err), err == nil && i.uid != "" && object.UID() != i.uid:
		case k8s.KindOf(err) == k8s.Forbidden:
			s.unread[i.resource.Kind] = true
		case err != nil && !k8s.SafeToRetry(err):
			return left, err
		default:
			left.left = append(left.left, i)
			left.last = err
			left.deleting = left.deleting && err == nil && object.Deleting()
		}
	}
	return left, nil
}

// findLeaks ends the Backend and waits until nothing of the run is left.
func (r *session) findLeaks(ctx context.Context) (string, error) {
	budget := closeBudget
	if r.hopeless.Load() {
		budget = hopelessWait
	}
	closing, cancel := context.WithTimeoutCause(ctx, budget, &budgetError{stepLeakCheck, budget})
	defer cancel()
	closeErr := r.backend.Close(closing)
	if closeErr != nil { // nothing more is going to be deleted
		ctx, cancel = context.WithTimeout(ctx, hopelessWait)
		defer cancel()
	}

	sweep := sweep{client: r.client, unread: map[string]bool{}}
	items := r.ledger.all()
	if err := sweep.gone(ctx, items); err != nil {
		return "", err
	}
	if closeErr != nil {
		r.notes.add(closeErr.Error()) // what it could not delete is gone all the same
	}
	detail := "nothing was made"
	if known := slices.DeleteFunc(items, func(i item) bool { return i.presumed }); len(known) > 0 {
		detail = listKinds(known) + " gone"
	}
	if r.options.pool != "" {
		list, err := r.client.List(ctx, k8s.SandboxClaims, k8s.ListOptions{LabelSelector: hostLabel + "=" + r.id})
		switch {
		case k8s.KindOf(err) == k8s.Forbidden:
			detail += "; the account may not list claims, so none was looked for by its label"
		case err != nil:
			return "", err
		case len(list.Items) > 0:
			left := &leakError{namespace: r.client.Namespace()}
			for _, o := range list.Items {
				left.left = append(left.left, item{resource: k8s.SandboxClaims, name: o.Name(), uid: o.UID()})
			}
			return "", left
		default:
			detail += "; no claim carries this run's label"
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(sweep.unread)) {
		detail += "; the account may not read " + plural(kind) + ", so none was checked"
	}
	return detail, nil
}

// listKinds counts items by kind.
func listKinds(items []item) string {
	n := map[string]int{}
	var kinds []string
	for _, i := range items {
		if n[i.resource.Kind]++; n[i.resource.Kind] == 1 {
			kinds = append(kinds, i.resource.Kind)
		}
	}
	for i, kind := range kinds {
		kinds[i] = count(n[kind], kind)
	}
	verb := " are"
	if len(items) == 1 {
		verb = " is"
	}
	last := len(kinds) - 1
	if last == 0 {
		return kinds[0] + verb
	}
	return strings.Join(kinds[:last], ", ") + " and " + kinds[last] + verb
}
