package main

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
)

const (
	connectBudget = 45 * time.Second // kubectl may have to log in first
	leakBudget    = 90 * time.Second // a pod may take its whole grace period
	closeBudget   = 15 * time.Second
	hopelessWait  = 2 * time.Second // for a deletion that will not come about

	// hostLabel is on every claim of a run, with the run's id as its value.
	hostLabel = "sandbox.namzu.ai/host-instance"
)

// A session is one run of the steps against one cluster.
type session struct {
	recorder // of the steps that are there once: connect and leak-check
	options  options
	streams  streams
	progress *progress
	id       string
	started  time.Time
	cluster  cluster
	client   *k8s.Client
	backend  *acquire.Backend
	ledger   ledger
	notes    notes
	requests counter
	hopeless atomic.Bool // a deletion was forbidden: repeating it is no use
	trials   []*trial
}

func runCommand(ctx context.Context, s streams, args []string) (int, error) {
	o, err := parseRun(args)
	if err != nil {
		return exitFailed, err
	}
	if err := o.target.refuse(ctx, s, o.namespace); err != nil {
		return exitFailed, err
	}
	out := s.stdout
	if o.json {
		out = s.stderr
	}
	r := &session{options: o, streams: s, progress: &progress{w: out, single: o.n == 1}, id: "smoke-" + strings.ToLower(rand.Text()[:12]), started: time.Now()}
	result := r.run(ctx)
	if o.json {
		err = writeJSON(s.stdout, result)
	} else {
		_, err = io.WriteString(s.stdout, result.text())
	}
	if err != nil || !result.ok() {
		return exitFailed, err
	}
	return exitOK, nil
}

// refuse finds flags of a server that no client can be made from, before
// anything is printed or sent.
func (t target) refuse(ctx context.Context, s streams, namespace string) error {
	if t.kind != targetServer {
		return nil
	}
	c, err := t.open(ctx, s, namespace)
	if err != nil {
		return nil // it fails in its step
	}
	_, err = k8s.New(c.config)
	return flagOf(err, t.kind)
}

// run goes through all steps. Once there is a Backend it is closed, and what was
// made is seen gone, whatever happens to ctx.
func (r *session) run(ctx context.Context) *result {
	r.progress.header(r.options)
	r.begin, r.end = r.progress.begin, r.progress.end
	ctx = k8s.WithTrace(ctx, &k8s.Trace{Request: func(k8s.RequestInfo) { r.requests.add() }})
	defer func() {
		if r.client != nil {
			r.client.CloseIdleConnections()
		}
		if r.cluster.close != nil {
			r.cluster.close()
		}
	}()
	if r.do(ctx, stepConnect, connectBudget, r.connect) {
		r.create(ctx)
		r.do(context.WithoutCancel(ctx), stepLeakCheck, leakBudget+closeBudget, r.findLeaks)
	}
	return r.result()
}

// create runs the trials, as many at a time as was asked for. Once ctx has ended
// no other one is begun.
func (r *session) create(ctx context.Context) {
	for range r.options.n {
		t := &trial{backend: r.backend, client: r.client, options: r.options, ledger: &r.ledger}
		if r.options.n == 1 {
			t.begin, t.end = r.begin, r.end
		}
		r.trials = append(r.trials, t)
	}
	next := make(chan *trial)
	var wg sync.WaitGroup
	for range r.options.parallel {
		wg.Go(func() {
			for t := range next {
				start := time.Now()
				t.run(ctx)
				r.progress.trial(t, time.Since(start), r.options.n)
			}
		})
	}
	for _, t := range r.trials {
		if ctx.Err() != nil {
			break
		}
		next <- t
	}
	close(next)
	wg.Wait()
}
