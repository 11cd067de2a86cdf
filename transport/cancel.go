package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// cancel ends the execution and returns the guest's acknowledgement that it has
// ended, or why there is none.
func (x *execution) cancel(ctx context.Context, budget time.Duration) (*wire.Cancellation, *CancelError) {
	ctx, end := context.WithTimeoutCause(ctx, budget, fmt.Errorf("no acknowledgement came within %v", budget))
	defer end()
	start := time.Now()
	asked := false
	for attempts := 1; ; attempts++ {
		ack, err := x.cancelOnce(ctx)
		if err == nil {
			return ack, nil
		}
		failed := &CancelError{Err: err, Restarted: restarted(err, x.bootID)}
		step := nextCancel(attempts, asked, err, time.Since(start), budget)
		if step == cancelGiveUp || sleep(ctx, cancelPause) != nil {
			failed.Err = refusedError(wire.OpCancel, err)
			return nil, failed
		}
		if step == cancelAsk {
			asked = true
			if x.fenced(ctx) {
				failed.Err, failed.Retiring = refusedError(wire.OpCancel, err), true
				return nil, failed
			}
		}
	}
}

func (x *execution) cancelOnce(ctx context.Context) (*wire.Cancellation, error) {
	var ack wire.Cancellation
	err := x.agent.call(ctx, x.binding, wire.OpCancel, wire.CancelBody{ExecutionID: x.id}, smallReply, func(payload []byte) (err error) {
		ack, err = wire.ParseCancellation(payload)
		return err
	})
	if err != nil {
		return nil, err
	}
	x.binding.booted(ack.BootID)
	return &ack, nil
}

var errNoAnswer = fmt.Errorf("no answer came within %v", cancelAttempt)

func (x *execution) fenced(ctx context.Context) bool {
	ctx, end := context.WithTimeout(ctx, cancelAttempt)
	defer end()
	h, err := x.agent.health(ctx, x.binding)
	return err == nil && h.Retiring
}
