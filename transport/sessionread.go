package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	lookTimeout   = 30 * time.Second
	maxSessionLog = 16 << 20 // bytes of text of one look
)

// A SessionOutput is what a guest keeps of a session's output, at one moment.
type SessionOutput struct {
	Pieces     []SessionPiece
	Gap        Gap   // what was asked for and is kept no longer
	NextOffset int64 // where to go on
	Running    bool
	ExitCode   int // of one that does not run; -1 when Signal ended it
	Signal     int // number
}

// A SessionPiece is a piece of output from the offset From on.
type SessionPiece struct {
	Stderr bool
	Text   string
	From   int64
}

// ReadSession returns what the guest keeps of a session's output from the offset
// on, and displaces nobody. It takes 30 seconds at most.
func (a *Agent) ReadSession(ctx context.Context, id string, from int64) (SessionOutput, error) {
	if err := checkSession(wire.OpAttachSession, id); err != nil {
		return SessionOutput{}, err
	}
	if err := checkFrom(wire.OpAttachSession, id, from); err != nil {
		return SessionOutput{}, err
	}
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return SessionOutput{}, err
	}
	defer end()
	late := &LostError{Op: wire.OpAttachSession + " " + id, Sent: true, Err: fmt.Errorf("the output did not come within %v", lookTimeout)}
	lctx, cancel := context.WithTimeoutCause(ctx, lookTimeout, late)
	defer cancel()
	var out SessionOutput
	err = a.rebinding(lctx, func(b *binding) (err error) {
		if err := a.require(lctx, b, wire.OpAttachSession, wire.FeatureSessions); err != nil {
			return err
		}
		return a.uncrowd(lctx, func() (err error) {
			out, err = a.look(lctx, b, id, from)
			return err
		})
	})
	if err != nil {
		return SessionOutput{}, callerFirst(ctx, callerFirst(lctx, sessionFailure(wire.OpAttachSession, id, err)))
	}
	return out, nil
}

// sessionOver reports whether the session is known to have ended.
func (a *Agent) sessionOver(ctx context.Context, b *binding, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	out, err := a.look(ctx, b, id, 0)
	return err == nil && !out.Running
}

func (a *Agent) look(ctx context.Context, b *binding, id string, from int64) (out SessionOutput, err error) {
	const op = wire.OpAttachSession
	d, err := a.openDuplex(ctx, b, op, wire.AttachSessionBody{SessionID: id, FromOffset: from, Once: true})
	if err != nil {
		return out, err
	}
	defer d.conn.close()
	cursor := cursor{at: from}
	size, begun := 0, false
	for {
		payload, err := d.conn.frames.Next()
		if err != nil {
			return out, readFailure(op, err)
		}
		if len(payload) == 0 {
			if !begun {
				return out, d.broken("the session was not told of")
			}
			out.NextOffset = cursor.at
			return out, d.conn.awaitClose(op)
		}
		event, err := d.parse(payload, wire.ParseTerminalEvent)
		if err != nil {
			return out, err
		}
		switch event := event.(type) {
		case *wire.SessionReady:
			gap, err := cursor.begin(event.FromOffset, event.Dropped)
			if err != nil || begun || event.SessionID != id {
				return out, protocolError(op, err, "another session was told of")
			}
			begun = true
			if gap != nil {
				out.Gap = *gap
			}
			b.booted(event.BootID)
			if out.Running, out.Signal = event.State == wire.StateRunning, event.Signal; event.ExitCode != nil {
				out.ExitCode = *event.ExitCode
			}
		case *wire.SessionData:
			if err := cursor.move(event.Offset, event.NextOffset, event.Data); err != nil || !begun {
				return out, protocolError(op, err, "output came before the session was told of")
			}
			if size += len(event.Data); size > maxSessionLog {
				return out, &TooLargeError{What: "the output of session " + id, Limit: maxSessionLog}
			}
			out.Pieces = append(out.Pieces, SessionPiece{Stderr: event.Stream == wire.StreamStderr, Text: event.Data, From: event.Offset})
		case *wire.StreamError:
			return out, b.refused(op, &wire.Refusal{Code: event.Text})
		default:
			return out, protocolError(op, nil, "an event came that does not belong to a look at a session")
		}
	}
}
