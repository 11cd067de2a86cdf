package acquire

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sandlot-go/sandlot/k8s"
)

// A Released is what ReleaseSelected did.
type Released struct {
	Deleted     []string // names of the claims, in the order of the list
	AlreadyGone []string // somebody else was faster
	Failed      []string // their errors are joined in the error
}

// SelectOptions are of one ReleaseSelected.
type SelectOptions struct {
	// AllowBroad accepts a selector that asks for no label's value, such as
	// "!pinned", and so may select claims of other hosts.
	AllowBroad bool
}

const releaseWorkers = 16

// ReleaseSelected deletes the claims that a label selector selects, for a host
// that has restarted and must give back what its predecessor held. Give each
// host a label of its own in Config.ClaimLabels. The controller deletes what
// belongs to a claim.
//
// Every claim is tried; the error joins what failed. Each is deleted by its uid,
// so that a new claim of the same name is safe.
func (b *Backend) ReleaseSelected(ctx context.Context, selector string, o SelectOptions) (Released, error) {
	narrow, err := k8s.CheckSelector(selector)
	if err != nil {
		return Released{}, fmt.Errorf("acquire: ReleaseSelected needs a non-empty labelSelector: %w", err)
	}
	if !narrow && !o.AllowBroad {
		return Released{}, fmt.Errorf("acquire: the selector %q asks for no label's value and may select other hosts' claims; set AllowBroad if that is meant", selector)
	}
	list, err := k8s.RetryRead(ctx, k8s.Backoff{}, func(ctx context.Context) (k8s.List, error) {
		return b.client.List(ctx, k8s.SandboxClaims, k8s.ListOptions{LabelSelector: selector})
	})
	if err != nil {
		return Released{}, err
	}
	outcomes := make([]error, len(list.Items))
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(releaseWorkers, len(list.Items)) {
		wg.Go(func() {
			for i := range next {
				outcomes[i] = b.releaseOne(ctx, list.Items[i])
			}
		})
	}
	for i := range list.Items {
		next <- i
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var r Released
	var errs []error
	for i, item := range list.Items {
		switch err := outcomes[i]; {
		case err == nil:
			r.Deleted = append(r.Deleted, item.Name())
		case errors.Is(err, errAlreadyGone):
			r.AlreadyGone = append(r.AlreadyGone, item.Name())
		default:
			r.Failed = append(r.Failed, item.Name())
			errs = append(errs, fmt.Errorf("acquire: SandboxClaim %s: %w", item.Name(), err))
		}
	}
	return r, errors.Join(append([]error{err}, errs...)...)
}

var errAlreadyGone = errors.New("already gone")

func (b *Backend) releaseOne(ctx context.Context, claim k8s.Object) error {
	if claim.Name() == "" || claim.UID() == "" {
		return errors.New("the list shows it without name or uid; it was left alone")
	}
	_, err := k8s.RetryRead(ctx, k8s.Backoff{}, func(ctx context.Context) (k8s.Object, error) {
		return b.client.Delete(ctx, k8s.SandboxClaims, claim.Name(), k8s.DeleteOptions{UID: claim.UID()})
	})
	if k8s.IsNotFound(err) || k8s.KindOf(err) == k8s.Conflict {
		return errAlreadyGone
	}
	return err
}
