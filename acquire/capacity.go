package acquire

import (
	"context"
	"errors"
	"sync"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
)

// A Capacity is what a pool has and what is asked of it, as of now.
type Capacity struct {
	Ready   int64 // members that can be adopted
	Desired int64 // members that the pool is to have
	Claims  int   // claims on the pool
	Pending int   // pods of the template that are not running yet
}

// Capacity reads the pool, its claims and the pending pods, in parallel. It is
// refused without a pool. Pods are counted by the template's label.
func (b *Backend) Capacity(ctx context.Context) (Capacity, error) {
	if b.cfg.Pool == "" {
		return Capacity{}, errors.New("acquire: Capacity requires Config.Pool")
	}
	var (
		c    Capacity
		errs [3]error
		wg   sync.WaitGroup
	)
	wg.Go(func() {
		pool, err := k8s.RetryRead(ctx, k8s.Backoff{}, func(ctx context.Context) (k8s.Object, error) {
			return b.client.Get(ctx, k8s.SandboxWarmPools, b.cfg.Pool)
		})
		c.Ready, _ = pool.Int("status", "readyReplicas")
		c.Desired, _ = pool.Int("spec", "replicas")
		errs[0] = err
	})
	wg.Go(func() {
		for claim, err := range b.client.Items(ctx, k8s.SandboxClaims, k8s.ListOptions{}) {
			if err != nil {
				errs[1] = err
				return
			}
			if claim.Text("spec", "warmPoolRef", "name") == b.cfg.Pool {
				c.Claims++
			}
		}
	})
	wg.Go(func() {
		options := k8s.ListOptions{FieldSelector: "status.phase=Pending", LabelSelector: podbind.TemplateLabel + "=" + b.cfg.Template}
		for _, err := range b.client.Items(ctx, k8s.Pods, options) {
			if err != nil {
				errs[2] = err
				return
			}
			c.Pending++
		}
	})
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return Capacity{}, err
	}
	return c, nil
}
