package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// A liar is a guest that answers one op with whatever bytes, and the rest of
// what a host asks for as it should.
type liar struct {
	op    string
	data  []byte
	chunk int    // bytes written at once
	end   ending // of the connection, after the bytes
}

type ending byte

const (
	closes ending = iota
	halfCloses
	resets
	hangs
	endings
)

// serve answers until the listener is closed.
func (l *liar) serve(listener net.Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		all.Go(func() {
			defer c.Close()
			l.answer(c)
		})
	}
}

func (l *liar) answer(c net.Conn) {
	payload, err := wire.NewFrameReader(c, wire.MaxFrame).Next()
	if err != nil {
		return
	}
	request, _ := wire.ParseEnvelope(payload)
	if request.Op != l.op {
		replies := map[any]string{wire.OpHealth: features, wire.OpReserve: reserved, wire.OpCancel: cancelled}
		c.Write(wire.AppendFrame(nil, []byte(replies[request.Op])))
		return
	}
	for part := range slices.Chunk(l.data, l.chunk) {
		if _, err := c.Write(part); err != nil {
			return
		}
		if l.chunk < 16 { // a reader sees it piece by piece
			time.Sleep(time.Nanosecond)
		}
	}
	switch l.end {
	case halfCloses:
		c.(interface{ CloseWrite() error }).CloseWrite()
		io.Copy(io.Discard, c)
	case resets:
		c.(interface{ Reset() }).Reset()
	case hangs:
		io.Copy(io.Discard, c)
	}
}

// op is what the question's last request is.
func (q question) op() string { return strings.Fields(q.name)[0] }

// furtherQuestions are those whose answers are the same, asked otherwise.
func furtherQuestions() []question {
	return []question{
		{name: "execute what is retained", ask: func(ctx context.Context, p *pod) (string, error) {
			c := p.Command(ctx, "x")
			c.Retain()
			out, err := c.CombinedOutput()
			return string(out), err
		}},
		{name: "execute a walk", ask: func(ctx context.Context, p *pod) (string, error) {
			for _, err := range p.Walk(ctx, ".", transport.WalkOptions{}) {
				if err != nil {
					return "", err
				}
			}
			return "", nil
		}},
		{name: "read-file-stream bit by bit", ask: func(ctx context.Context, p *pod) (string, error) {
			r, err := p.Open(ctx, "f")
			if err != nil {
				return "", err
			}
			out, err := io.ReadAll(iotest.OneByteReader(r))
			return string(out), errors.Join(err, r.Close())
		}},
		{name: "tcp-connect in both directions", ask: func(ctx context.Context, p *pod) (string, error) {
			c, err := p.DialGuest(ctx, 80)
			if err != nil {
				return "", err
			}
			io.WriteString(c, "request")
			out, err := io.ReadAll(c)
			return string(out), errors.Join(err, c.Close())
		}},
		{name: "terminal with input", ask: func(ctx context.Context, p *pod) (string, error) {
			t, err := p.OpenTerminal(ctx, transport.TerminalConfig{})
			if err != nil {
				return "", err
			}
			io.WriteString(t, "input")
			out, err := io.ReadAll(t)
			if err == nil {
				err = t.Wait()
			}
			return string(out), errors.Join(err, t.Close())
		}},
	}
}

// FuzzPeer has a guest answer with arbitrary bytes, or frames of arbitrary
// lines, in pieces of any size, and end as it likes. Everything a host can ask
// for ends in time, with no goroutine left; what succeeds was answered with
// whole frames and gives no more than was sent, and what fails says so with an
// error of this package that one can read, without the token.
func FuzzPeer(f *testing.F) {
	all := append(questions(), furtherQuestions()...)
	for i, q := range all {
		add := func(end ending, payloads ...string) {
			f.Add(byte(i), byte(end), byte(7), true, []byte(strings.Join(payloads, "\n")))
		}
		for end := range endings {
			add(end, `{"ok":false,"error":"unauthorized"}`)
			add(end, `{"type":"error","error":"session_exists"}`, "")
			for _, other := range all {
				if len(other.answer) > 0 && other.op() == q.op() {
					add(end, other.answer...)
				}
			}
		}
		f.Add(byte(i), byte(closes), byte(100), false, frames(features, ""))
	}
	f.Fuzz(func(t *testing.T, which, end, chunk byte, framed bool, data []byte) {
		if len(data) > 64<<10 {
			t.Skip()
		}
		if framed {
			data = frames(strings.Split(string(data), "\n")...)
		}
		q := all[int(which)%len(all)]
		bubble(t, transport.Config{MaxFileBytes: 1 << 20, Heartbeat: time.Second}, nil, func(t *testing.T, p *pod) {
			listener, err := p.net.Listen("tcp", podIP+":1024")
			if err != nil {
				t.Fatal(err)
			}
			l := &liar{op: q.op(), data: data, chunk: max(1, int(chunk)), end: ending(end) % endings}
			served := make(chan struct{})
			go func() { defer close(served); l.serve(listener) }()
			// A terminal or a port may be silent for ever, and no context bounds it.
			closing := time.AfterFunc(5*time.Minute, func() { p.Close() })
			defer closing.Stop()
			got, err := q.ask(endAfter(t, 5*time.Minute), p)
			if took := time.Since(p.start); took > 6*time.Minute {
				t.Errorf("%s took %v", q.name, took)
			}
			if len(got) > 3*len(data) {
				t.Errorf("%s gave %d bytes for %d", q.name, len(got), len(data))
			}
			switch {
			case err == nil && !whole(data):
				t.Errorf("%s succeeded with %q", q.name, data)
			case err != nil && (!typed(err) && !refused(err) || err.Error() == "" || len(err.Error()) > 8<<10 || strings.Contains(err.Error(), token)):
				t.Errorf("%s failed with %T %q", q.name, err, err)
			}
			p.Close()
			listener.Close()
			<-served
		})
	})
}

// refused reports whether err is what an honest guest's refusal can be as well.
func refused(err error) bool {
	return as[*transport.UnauthorizedError](err) || as[*transport.RetiringError](err) || as[*transport.UnsupportedError](err) || as[*transport.UnconfirmedError](err) ||
		as[*transport.DialError](err) || as[*transport.ExitError](err) || as[*transport.TerminalError](err) || as[*transport.WalkError](err)
}

// whole reports whether data begins with a whole frame.
func whole(data []byte) bool {
	_, err := wire.NewFrameReader(bytes.NewReader(data), wire.MaxFrame).Next()
	return err == nil
}
