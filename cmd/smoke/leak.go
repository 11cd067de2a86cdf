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
	var names, commands []string
	for _, i := range e.left {
		names = append(names, i.String())
		commands = append(commands, strings.ToLower(i.resource.Kind)+"/"+i.name)
	}
	text := fmt.Sprintf("after %v there still is %s in namespace %s", e.waited.Round(time.Second), strings.Join(names, ", "), e.namespace)
	if e.deleting {
		text += "; the API server has taken the deletion, something holds it back (a finalizer, or a node that does not answer)"
	}
	if e.last != nil {
		text += "; the last read failed: " + e.last.Error()
	}
	return text + "; to remove it: kubectl -n " + e.namespace + " delete " + strings.Join(commands, " ")
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
	pause := leakPoll
	for {
		left := &leakError{namespace: s.client.Namespace(), deleting: true}
		for _, i := range items {
			object, err := s.client.Get(ctx, i.resource, i.name)
			switch {
			case ctx.Err() != nil:
				left.left = append(left.left, i)
				left.deleting = false
			case k8s.IsNotFound(err), err == nil && i.uid != "" && object.UID() != i.uid:
			case k8s.KindOf(err) == k8s.Forbidden:
				s.unread[i.resource.Kind] = true
			case err != nil && !k8s.SafeToRetry(err):
				return err
			default:
				left.left = append(left.left, i)
				left.last = err
				left.deleting = left.deleting && err == nil && object.Deleting()
			}
		}
		if items = left.left; len(items) == 0 {
			return nil
		}
		timer := time.NewTimer(pause)
		pause = min(pause*2, leakPollMost)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			left.waited = time.Since(start)
			return left
		}
	}
}

// findLeaks ends the Backend and waits until nothing of the run is left.
func (r *session) findLeaks(ctx context.Context) (string, error) {
	closing, cancel := context.WithTimeout(ctx, closeBudget)
	defer cancel()
	closeErr := r.backend.Close(closing)

	sweep := sweep{client: r.client, unread: map[string]bool{}}
	items := r.ledger.all()
	if err := sweep.gone(ctx, items); err != nil {
		return "", err
	}
	if closeErr != nil {
		r.notes.add(closeErr.Error()) // what it could not delete is gone all the same
	}
	detail := "nothing was made"
	if len(items) > 0 {
		detail = listKinds(items) + " gone"
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
				left.left = append(left.left, item{k8s.SandboxClaims, o.Name(), o.UID()})
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
