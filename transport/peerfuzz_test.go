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
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
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

// An asking is one thing that a host asks of a guest. It returns what it was
// given.
type asking struct {
	op string
	do func(ctx context.Context, a *transport.Agent) ([]byte, error)
}

var askings = []asking{
	{wire.OpExecute, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		return a.Command(ctx, "x").Output()
	}},
	{wire.OpExecute, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		c := a.Command(ctx, "x")
		c.Retain()
		return c.Output()
	}},
	{wire.OpAttachExecution, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		var out bytes.Buffer
		at := a.Attach(ctx, id, 0)
		at.Stdout, at.Stderr = &out, &out
		err := at.Run()
		return out.Bytes(), err
	}},
	{wire.OpCancel, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		_, err := a.CancelExecution(ctx, id)
		return nil, err
	}},
	{wire.OpReadFileStream, func(ctx context.Context, a *transport.Agent) ([]byte, error) { return a.ReadFile(ctx, "f") }},
	{wire.OpReadFileStream, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		r, err := a.Open(ctx, "f")
		if err != nil {
			return nil, err
		}
		out, err := io.ReadAll(r)
		return out, errors.Join(err, r.Close())
	}},
	{wire.OpReadFile, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		out, _, err := a.ReadRange(ctx, "f", 0, 10)
		return out, err
	}},
	{wire.OpWriteFile, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		_, err := a.WriteFile(ctx, "f", strings.NewReader("content"))
		return nil, err
	}},
	{wire.OpTerminal, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		return drain(a.OpenTerminal(ctx, transport.TerminalConfig{}))
	}},
	{wire.OpTerminal, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		return drain(a.StartSession(ctx, "web", transport.TerminalConfig{}))
	}},
	{wire.OpAttachSession, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		return drain(a.AttachSession(ctx, "web", 0, 80, 24))
	}},
	{wire.OpAttachSession, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		out, err := a.ReadSession(ctx, "web", 0)
		var all []byte
		for _, p := range out.Pieces {
			all = append(all, p.Text...)
		}
		return all, err
	}},
	{wire.OpStartDetached, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		_, _, err := a.StartDetached(ctx, "web", transport.Detached{Path: "x"})
		return nil, err
	}},
	{wire.OpListSessions, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		_, err := a.Sessions(ctx)
		return nil, err
	}},
	{wire.OpKillSession, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		_, err := a.KillSession(ctx, "web", "")
		return nil, err
	}},
	{wire.OpConnect, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		c, err := a.DialGuest(ctx, 80)
		if err != nil {
			return nil, err
		}
		c.Write([]byte("request"))
		out, err := io.ReadAll(c)
		return out, errors.Join(err, c.Close())
	}},
	{wire.OpQuiesce, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		_, err := a.Quiesce(ctx, 0)
		return nil, err
	}},
	{wire.OpFlush, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		_, err := a.Flush(ctx, 0)
		return nil, err
	}},
	{wire.OpHealth, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		_, err := a.Health(ctx)
		return nil, err
	}},
	{wire.OpReserve, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		return nil, a.Command(ctx, "x").Run()
	}},
	{wire.OpExecute, func(ctx context.Context, a *transport.Agent) ([]byte, error) {
		for _, err := range a.Walk(ctx, ".", transport.WalkOptions{}) {
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	}},
}

// drain reads a terminal to its end, which may be none.
func drain(t *transport.Terminal, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	t.Write([]byte("input"))
	out, err := io.ReadAll(t)
	if err == nil {
		err = t.Wait()
	}
	return out, errors.Join(err, t.Close())
}

// FuzzPeer has a guest answer with arbitrary bytes, or frames of arbitrary
// lines, in pieces of any size, and end as it likes. Everything a host can ask for ends in time, with no goroutine
// left; what succeeds was answered with whole frames and gives no more than was
// sent, and what fails says something, without the token.
func FuzzPeer(f *testing.F) {
	term := func(name byte, end ending, payloads ...string) {
		f.Add(name, byte(end), byte(7), true, []byte(strings.Join(payloads, "\n")))
		f.Add(name, byte(end), byte(7), false, frames(payloads...))
	}
	for i := range askings {
		n := byte(i)
		for _, end := range []ending{closes, halfCloses, resets, hangs} {
			term(n, end)
			term(n, end, `{"ok":false,"error":"unauthorized"}`)
			term(n, end, `{"type":"error","error":"session_exists"}`, "")
		}
	}
	for i, a := range askings {
		n := byte(i)
		switch a.op {
		case wire.OpExecute:
			term(n, closes, `{"type":"stdout_delta","data":"x☕"}`, exit0, "")
			term(n, hangs, `{"type":"stdout_delta","data":"x","offset":0,"nextOffset":1}`, `{"type":"stderr_delta","data":"\ud800"}`)
			term(n, resets, exit0, exit0, "")
		case wire.OpAttachExecution:
			term(n, closes, `{"type":"attached","executionId":"`+id+`","state":"running","fromOffset":0,"droppedBytes":0}`, `{"type":"stdout_delta","data":"x","offset":0,"nextOffset":1}`, `{"type":"attach_result","executionId":"`+id+`","outcome":"completed","started":true,"result":{"exitCode":0,"timedOut":false,"durationMs":1},"nextOffset":1}`, "")
		case wire.OpReadFileStream:
			term(n, closes, `{"type":"meta","sizeBytes":8,"offset":0,"length":8}`, `{"type":"data","data":"AgMEBQYH"}`, `{"type":"data","data":"AgM="}`, `{"type":"end","bytesSent":8}`, "")
		case wire.OpTerminal, wire.OpAttachSession:
			term(n, closes, `{"type":"ready","guestBootId":"b"}`, `{"type":"data","data":"$ "}`, `{"type":"heartbeat"}`, `{"type":"exit","exitCode":3}`)
			term(n, hangs, `{"type":"ready","sessionId":"web","kind":"terminal","state":"running","fromOffset":1,"droppedBytes":1,"nextOffset":2,"heartbeatMs":1000}`, `{"type":"data","data":"x","offset":1,"nextOffset":2}`, `{"type":"detached","reason":"slow_reader"}`, "")
		case wire.OpConnect:
			term(n, halfCloses, `{"type":"ready","heartbeatMs":1000}`, `{"type":"data","data":"cGluZwo="}`, `{"type":"end"}`)
			term(n, hangs, `{"type":"ready"}`, `{"type":"data","data":"cGluZwo"}`)
		}
	}
	f.Fuzz(func(t *testing.T, name, end, chunk byte, framed bool, data []byte) {
		if len(data) > 64<<10 {
			t.Skip()
		}
		if framed {
			data = frames(strings.Split(string(data), "\n")...)
		}
		a := askings[int(name)%len(askings)]
		l := &liar{op: a.op, data: data, chunk: max(1, int(chunk)), end: ending(end) % endings}
		synctest.Test(t, func(t *testing.T) {
			network := &memnet.Network{}
			listener, err := network.Listen("tcp", podIP+":1024")
			if err != nil {
				t.Fatal(err)
			}
			agent, err := transport.New(transport.Config{Host: podIP, Port: 1024, Token: token, DialContext: network.DialContext, Heartbeat: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() { defer close(served); l.serve(listener) }()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			start := time.Now()
			out, err := a.do(ctx, agent)
			if took := time.Since(start); took > 6*time.Minute {
				t.Errorf("%s took %v", a.op, took)
			}
			if len(out) > 3*len(data) {
				t.Errorf("%s gave %d bytes for %d", a.op, len(out), len(data))
			}
			switch {
			case err == nil && !whole(data):
				t.Errorf("%s succeeded with %q", a.op, data)
			case err != nil && (err.Error() == "" || strings.Contains(err.Error(), token)):
				t.Errorf("%s failed with %q", a.op, err)
			}
			if err := agent.Close(); err != nil {
				t.Error(err)
			}
			listener.Close()
			<-served
		})
	})
}

// whole reports whether data begins with a whole frame.
func whole(data []byte) bool {
	_, err := wire.NewFrameReader(bytes.NewReader(data), wire.MaxFrame).Next()
	return err == nil
}
