package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A duplex is a connection over which both sides send frames. It has a
// goroutine that reads, which hands each event to its consumer before it reads
// the next, and one that keeps the heartbeat if there is one.
type duplex struct {
	conn    *conn
	binding *binding
	op      string
	asked   int64 // heartbeat in milliseconds; 0: none

	writing chan struct{} // holds an element while a frame is written
	gone    chan struct{} // closed by shut
	joined  chan struct{} // closed when no goroutine is left

	mu      sync.Mutex // guards what follows
	err     error      // why it is over; the first reason stays
	writeBy time.Time  // for send
	beating bool       // writeBy does not apply at the moment
}

// openDuplex connects and sends the request. ctx bounds that and what follows
// until live. The stream itself lives until shut or Agent.Close; one that is
// not made live has to be dropped.
func (a *Agent) openDuplex(ctx context.Context, b *binding, op string, body any) (*duplex, error) {
	frame, err := requestFrame(b, op, body)
	if err != nil {
		return nil, err
	}
	c, err := a.request(ctx, b, op, frame)
	if err != nil {
		return nil, err
	}
	return &duplex{
		conn: c, binding: b, op: op, asked: roundMs(a.config.Heartbeat),
		writing: make(chan struct{}, 1), gone: make(chan struct{}), joined: make(chan struct{}),
	}, nil
}

// event reads the next event, which parse tells from a refusal.
func (d *duplex) event(parse func([]byte) (any, error)) (any, error) {
	payload, err := d.conn.frames.Next()
	if err != nil {
		return nil, readFailure(d.op, err)
	}
	return d.parse(payload, parse)
}

func (d *duplex) parse(payload []byte, parse func([]byte) (any, error)) (any, error) {
	event, err := parse(payload)
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		return nil, d.binding.refused(d.op, refusal)
	}
	if err != nil {
		return nil, &ProtocolError{Op: d.op, Err: err}
	}
	return event, nil
}

// interrupted is err as the end of a stream over which something has begun: a
// refusal does not mean any more that nothing was done.
func (d *duplex) interrupted(err error) error {
	switch err.(type) {
	case *LostError, *ProtocolError:
		return err
	}
	return &LostError{Op: d.op, Sent: true, Err: refusedError(d.op, err)}
}

func (d *duplex) broken(format string, args ...any) error {
	return &ProtocolError{Op: d.op, Err: fmt.Errorf(format, args...)}
}

// live makes the stream independent of the context that it was opened with and
// has read called in a goroutine, whose error, never nil, is the end of the
// stream. ctx and end are from Agent.begin.
func (d *duplex) live(ctx context.Context, end func(), echoedMs int64, read func() error) {
	d.conn.release()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		d.shut(context.Cause(ctx))
	})
	beat := agreedBeat(d.asked, echoedMs)
	d.conn.source = liveReader{d.conn, missedBeats * beat}
	var beating sync.WaitGroup
	if beat > 0 {
		beating.Go(func() { d.keepBeating(beat) })
	}
	go func() {
		d.shut(read())
		beating.Wait()
		if !stop() {
			<-ended
		}
		end()
		close(d.joined)
	}()
}

// liveReader reads with a deadline that every byte puts off, if there is one.
// While nobody reads nothing is overdue.
type liveReader struct {
	*conn
	silence time.Duration
}

func (r liveReader) Read(p []byte) (int, error) {
	var at time.Time
	if r.silence > 0 {
		at = time.Now().Add(r.silence)
	}
	if err := r.SetReadDeadline(at); err != nil {
		return 0, err
	}
	n, err := r.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no byte came for %v, which is %d heartbeats: %w", r.silence, missedBeats, err)
	}
	return n, err
}

func (d *duplex) keepBeating(every time.Duration) {
	frame := wire.AppendFrame(nil, wire.HostFrame{Type: wire.TypeHeartbeat}.Append(nil))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-d.gone:
			return
		case <-tick.C:
		}
		select {
		case d.writing <- struct{}{}:
		default:
			continue // something else is being written, which is as good
		}
		d.limitWrites(true)
		_, err := d.conn.Conn.Write(frame)
		d.limitWrites(false)
		<-d.writing
		if err != nil {
			d.shut(&LostError{Op: d.op, Sent: true, Err: err})
		}
	}
}

// limitWrites keeps the deadline of send away from the heartbeat.
func (d *duplex) limitWrites(beating bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beating = beating
	if beating {
		d.conn.Conn.SetWriteDeadline(time.Time{})
	} else {
		d.conn.Conn.SetWriteDeadline(d.writeBy)
	}
}

// setWriteDeadline is for the writes of send, also those under way.
func (d *duplex) setWriteDeadline(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writeBy = t
	if !d.beating {
		d.conn.Conn.SetWriteDeadline(t)
	}
}

// send writes a frame as a whole. Nothing bounds it but the end of the stream,
// its write deadline and expired, which is to be closed when that passes: a peer
// may take its time. A frame of which only a part was written ends the stream.
func (d *duplex) send(frame []byte, expired <-chan struct{}) error {
	select {
	case <-d.gone:
		return d.reason()
	case <-expired:
		return os.ErrDeadlineExceeded
	default:
	}
	select {
	case d.writing <- struct{}{}:
	case <-d.gone:
		return d.reason()
	case <-expired:
		return os.ErrDeadlineExceeded
	}
	n, err := d.conn.Conn.Write(frame)
	<-d.writing
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if err == nil || late && n == 0 {
		return err
	}
	d.shut(&LostError{Op: d.op, Sent: true, Err: fmt.Errorf("a frame was not sent whole: %w", err)})
	if late {
		return err
	}
	return d.reason()
}

// shut ends the stream.
func (d *duplex) shut(why error) {
	d.mu.Lock()
	first := d.err == nil
	if first {
		d.err = why
		close(d.gone)
	}
	d.mu.Unlock()
	if first {
		d.conn.Conn.Close()
	}
}

// reason is why the stream is over.
func (d *duplex) reason() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// sever is shut by this side, and waits until nothing is left of the stream.
func (d *duplex) sever() {
	d.shut(net.ErrClosed)
	<-d.joined
}
