package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	smallReply  = 1 << 20 // of operations whose replies hold no content
	maxRequest  = wire.MaxFirstFrame
	streamFrame = 8 << 20 // one event of a stream
)

// A RefusedError is the guest's answer to a request that it did not carry out,
// where no other type is more telling.
type RefusedError struct {
	Op      string
	Code    string // up to the first colon of what the guest said
	Message string // the guest's words
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("transport: %s: the guest refused: %s", e.Op, e.Message)
}

// refused is the error of a refusal that can come in answer to any operation,
// or the refusal itself.
func (b *binding) refused(op string, r *wire.Refusal) error {
	b.booted(r.BootID)
	switch r.Code {
	case wire.CodeUnauthorized:
		return &UnauthorizedError{Op: op, Addr: b.addr()}
	case wire.CodeRetiring:
		return &RetiringError{Op: op, Addr: b.addr()}
	}
	return r
}

// words are what a refusal says.
func words(r *wire.Refusal) string {
	if r.Message != "" {
		return r.Code + ": " + r.Message
	}
	return r.Code
}

// refusedError makes a refusal that nobody knows better a *RefusedError.
func refusedError(op string, err error) error {
	if r, ok := errors.AsType[*wire.Refusal](err); ok {
		return &RefusedError{Op: op, Code: wire.Code(r.Code), Message: words(r)}
	}
	return err
}

// call is Agent.call for a reply that parse reads. What every host links does
// without it, because each of its instances has a long name in the binary.
func call[T any](ctx context.Context, a *Agent, b *binding, op string, body any, limit int, parse func([]byte) (T, error)) (reply T, err error) {
	err = a.call(ctx, b, op, body, limit, func(payload []byte) (err error) {
		reply, err = parse(payload)
		return err
	})
	return reply, err
}

// call carries out a control operation: one request, one reply, which is handed
// to read, and the peer's close. The error is one of this package, or a
// *wire.Refusal whose meaning depends on the operation.
func (a *Agent) call(ctx context.Context, b *binding, op string, body any, limit int, read func([]byte) error) error {
	frame, err := requestFrame(b, op, body)
	if err != nil {
		return err
	}
	return a.exchange(ctx, b, op, frame, limit, read)
}

// exchange is call for a request that is a frame already.
func (a *Agent) exchange(ctx context.Context, b *binding, op string, frame []byte, limit int, read func([]byte) error) error {
	if op == wire.OpHealth {
		return a.exchangeOnce(ctx, b, op, frame, limit, read) // how crowded it is, is an answer
	}
	return a.uncrowd(ctx, func() error { return a.exchangeOnce(ctx, b, op, frame, limit, read) })
}

// exchangeOnce is one attempt. The time that it waits for its turn is not held
// against the guest.
func (a *Agent) exchangeOnce(ctx context.Context, b *binding, op string, frame []byte, limit int, read func([]byte) error) error {
	if err := b.queue(ctx, op); err != nil {
		return err
	}
	bound, over := a.patience(op)
	if bound == 0 {
		return a.turn(ctx, b, op, frame, limit, read)
	}
	ctx, end := context.WithTimeoutCause(ctx, bound, over)
	defer end()
	return boundError(ctx, a.turn(ctx, b, op, frame, limit, read))
}

// patience is how long an attempt at an operation may take, with connecting, and
// the error of one that takes longer. Zero is as long as its context lets it.
func (a *Agent) patience(op string) (time.Duration, error) {
	switch op {
	case wire.OpReserve:
		return a.config.ReserveTimeout, fmt.Errorf("no execution id was reserved within %v", a.config.ReserveTimeout)
	case wire.OpCancel:
		return cancelAttempt, errNoAnswer
	}
	return 0, nil
}

// boundError names the bound of ctx that ended the call, except where no
// connection was made: how that went says more.
func boundError(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*DialError](err); ok || err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// turn carries out what has queued.
func (a *Agent) turn(ctx context.Context, b *binding, op string, frame []byte, limit int, read func([]byte) error) error {
	c, err := a.connect(ctx, b, op, limit)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.send(b, op, frame); err != nil {
		return err
	}
	payload, err := c.frames.Next()
	if err != nil {
		return readFailure(op, err)
	}
	err = read(payload)
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		// What follows on a refusal does not make it less of one.
		return b.refused(op, refusal)
	}
	if err != nil {
		return &ProtocolError{Op: op, Err: err}
	}
	return c.awaitClose(op)
}

// requestFrame refuses what the guest would refuse by its size before it can
// know who sent it.
func requestFrame(b *binding, op string, body any) ([]byte, error) {
	frame, err := wire.Request{Op: op, Body: body, Token: string(b.Token)}.Append(make([]byte, wire.HeaderLen, 512))
	if err != nil {
		return nil, fmt.Errorf("transport: %s: %w", op, err)
	}
	if size := len(frame) - wire.HeaderLen; size > maxRequest {
		return nil, &TooLargeError{What: "the request " + op, Size: int64(size), Limit: maxRequest}
	}
	wire.PutHeader(frame)
	return frame, nil
}
