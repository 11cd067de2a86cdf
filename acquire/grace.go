package acquire

import (
	"context"
	"time"
)

// graced is for a cleanup: a context that outlives ctx by the grace, so that
// there is time for it when its caller has none left.
func graced(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	outliving, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
	})
	return outliving, func() {
		stop()
		cancel(nil)
	}
}
