package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// connect opens the target and reads one object, which proves the server, the
// credentials and the resources at once.
func (r *session) connect(ctx context.Context) (string, error) {
	start := time.Now()
	c, err := r.options.target.open(ctx, r.streams, r.options.namespace)
	if r.options.target.kind == targetSim {
		r.idle += time.Since(start) // filling its pool is no part of connecting
	}
	if err != nil {
		return "", &configError{err}
	}
	r.cluster = c
	c.config.Warning = func(w k8s.Warning) { r.notes.add("the API server warns: " + w.Text) }
	if r.client, err = k8s.New(c.config); err != nil {
		return "", &configError{err}
	}
	detail, err := r.look(ctx)
	if err != nil {
		return "", err
	}
	if r.backend, err = acquire.New(r.client, r.config()); err != nil {
		return "", &configError{err}
	}
	return detail, nil
}

// look reads the pool, or the template when there is none. A pool-only account
// may be allowed to claim from a pool that it must not read; then a claim that
// does not exist tells as much about the server and the credentials.
func (r *session) look(ctx context.Context) (string, error) {
	o := &r.options
	if o.pool == "" {
		template, err := r.client.Get(ctx, k8s.SandboxTemplates, o.template)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, namespace %s; template %s is there", r.cluster.name, r.client.Namespace(), template.Name()), nil
	}
	pool, err := r.client.Get(ctx, k8s.SandboxWarmPools, o.pool)
	if k8s.KindOf(err) == k8s.Forbidden {
		if _, claimErr := r.client.Get(ctx, k8s.SandboxClaims, r.id); !k8s.IsNotFound(claimErr) {
			return "", err
		}
		r.notes.add("the account may not read SandboxWarmPools, so the pool was not looked at")
		return fmt.Sprintf("%s, namespace %s", r.cluster.name, r.client.Namespace()), nil
	}
	if err != nil {
		return "", err
	}
	if o.template, err = templateOf(pool, *o); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, namespace %s; %s", r.cluster.name, r.client.Namespace(), describePool(pool)), nil
}

// templateOf returns the template that a pool is made from. Another one that was
// asked for by name is refused: network policies select pods by it.
func templateOf(pool k8s.Object, o options) (string, error) {
	own := pool.Text("spec", "sandboxTemplateRef", "name")
	switch {
	case own == "" || own == o.template:
		return o.template, nil
	case o.anyTemplate:
		return own, nil
	}
	return "", &configError{fmt.Errorf("pool %s is made from template %s, not from %s: leave out -template, or name another -pool", o.pool, own, o.template)}
}

func describePool(pool k8s.Object) string {
	ready, known := pool.Int("status", "readyReplicas")
	want, _ := pool.Int("spec", "replicas")
	if !known || ready == 0 {
		return fmt.Sprintf("pool %s has none of %d ready, the start will be cold", pool.Name(), want)
	}
	return fmt.Sprintf("pool %s has %d of %d ready", pool.Name(), ready, want)
}

func (r *session) config() acquire.Config {
	o := &r.options
	return acquire.Config{
		Template:     o.template,
		Pool:         o.pool,
		AgentPort:    o.port,
		AgentAddress: o.address,
		ReadyTimeout: o.readyTimeout,
		TTL:          o.ttl,
		ClaimLabels:  map[string]string{hostLabel: r.id},
		DialContext:  r.cluster.dial,
		OnRenewalError: func(sandbox string, err error) {
			r.notes.add(fmt.Sprintf("renewing %s failed: %v", sandbox, err))
		},
		Ingress: policy.Ingress{InsecureUnverified: o.unverified},
		Watch:   o.watch,
		OnLeak: func(l acquire.Leak) {
			if k8s.KindOf(l.Err) == k8s.Forbidden {
				r.hopeless.Store(true)
			}
			r.notes.add(fmt.Sprintf("deleting %s %s failed, now %s: %v", l.Kind, l.Name, l.State, l.Err))
		},
	}
}
