package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A Quiescence is what it took to end everything that ran in a guest.
type Quiescence struct {
	// Everything is set when no process of the guest's user was left running,
	// and not only none that the guest knew of.
	Everything bool
	Grace      time.Duration // between the two signals
	Rounds     int           // 0: nothing ran
	Stopped    []Stopped
}

// A Stopped is a process that was ended.
type Stopped struct {
	PID    int64
	Name   string // the kernel's short name of it
	Signal string // the last one it was sent, "SIGTERM" or "SIGKILL"
}

// Quiesce ends everything that runs in the guest, which goes on serving. Each
// process gets the grace to obey before it is killed; zero is the guest's
// default of a second, and it refuses 5 seconds and more. The guest takes 20
// seconds at most and then answers with an *UnconfirmedError.
func (a *Agent) Quiesce(ctx context.Context, grace time.Duration) (Quiescence, error) {
	const op = wire.OpQuiesce
	if grace < 0 {
		return Quiescence{}, fmt.Errorf("transport: %s: the grace is %v", op, grace)
	}
	var r wire.QuiesceReply
	err := a.settle(ctx, op, wire.FeatureQuiesce, func(ctx context.Context, b *binding) (err error) {
		r, err = call(ctx, a, b, op, wire.QuiesceBody{GraceMs: roundMs(grace)}, smallReply, wire.ParseQuiesce)
		return err
	})
	if err != nil {
		return Quiescence{}, err
	}
	q := Quiescence{Everything: r.Scope == wire.ScopeNamespace, Grace: time.Duration(r.GraceMs) * time.Millisecond, Rounds: int(r.Rounds)}
	for _, s := range r.Stopped {
		q.Stopped = append(q.Stopped, Stopped{PID: s.PID, Name: s.Command, Signal: s.Signal})
	}
	return q, nil
}

// Flush has the guest put what was written to its workspace onto the disk, and
// returns how long that took. The timeout is the guest's; zero is its default of
// 10 seconds.
func (a *Agent) Flush(ctx context.Context, timeout time.Duration) (time.Duration, error) {
	const op = wire.OpFlush
	if timeout < 0 {
		return 0, fmt.Errorf("transport: %s: the timeout is %v", op, timeout)
	}
	var r wire.FlushReply
	err := a.settle(ctx, op, wire.FeatureFlush, func(ctx context.Context, b *binding) (err error) {
		r, err = call(ctx, a, b, op, wire.FlushBody{TimeoutMs: roundMs(timeout)}, smallReply, wire.ParseFlush)
		return err
	})
	return time.Duration(r.DurationMs) * time.Millisecond, err
}

// roundMs is the duration in whole milliseconds, and not zero unless it is.
func roundMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// settle carries out an operation on the guest as a whole.
func (a *Agent) settle(ctx context.Context, op, feature string, f func(context.Context, *binding) error) error {
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return callerFirst(ctx, a.rebinding(ctx, func(b *binding) error {
		if err := a.require(ctx, b, op, feature); err != nil {
			return err
		}
		err := f(ctx, b)
		r, refused := errors.AsType[*wire.Refusal](err)
		if !refused {
			return err
		}
		switch code := wire.Code(r.Code); code {
		case wire.CodeUnknownOp, wire.CodeQuiesceUnsupported, wire.CodeFlushUnsupported, "flush_unsupported_platform":
			return &UnsupportedError{Op: op, Feature: feature}
		default:
			return &UnconfirmedError{Op: op, Reason: code, Text: words(r)}
		}
	}))
}

// An UnconfirmedError is the guest's answer to a Quiesce or Flush of which it
// cannot say that it is done.
type UnconfirmedError struct {
	Op     string
	Reason string // such as "quiesce_unconfirmed", "quiesce_in_progress" or "flush_unconfirmed"
	Text   string // the guest's words
}

func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("transport: %s: the guest does not confirm it: %s", e.Op, e.Text)
}

func (e *UnconfirmedError) hadNoEffect() bool { return false }
