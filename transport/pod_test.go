package transport_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const (
	podIP = "10.0.0.7"
	token = "5b0c7f1e-93d4-4e0a-8c55-1f2a6d9e7b31"
	id    = "exec_7e4f2b18-6c3d-4a95-b0e7-28d91f5c6a03"

	features = `{"ok":true,"protocolVersion":2,"features":["write-file-parts","execution-attach","stream-heartbeat","read-file-stream","sessions","quiesce","flush","guest-boot-id"]}`
	reserved = `{"ok":true,"guestBootId":"boot-1","protocolVersion":2,"executionId":"` + id + `","leaseExpiresAt":1790000030000}`
	exit0    = `{"type":"result","exitCode":0,"timedOut":false,"durationMs":18,"stdoutTruncated":false,"stderrTruncated":false}`
	sigterm  = `{"type":"result","exitCode":-1,"timedOut":false,"durationMs":2204,"signal":"SIGTERM","stdoutTruncated":false,"stderrTruncated":false}`

	cancelled    = `{"ok":true,"guestBootId":"boot-1","state":"cancelled","started":true,"result":{"exitCode":-1,"timedOut":false,"durationMs":2204,"signal":"SIGTERM","stdoutTruncated":false,"stderrTruncated":false}}`
	completed    = `{"ok":true,"guestBootId":"boot-1","state":"completed","started":true,"result":{"exitCode":0,"timedOut":false,"durationMs":18,"stdoutTruncated":false,"stderrTruncated":false}}`
	neverStarted = `{"ok":true,"guestBootId":"boot-1","state":"cancelled","started":false,"result":{"exitCode":1,"timedOut":false,"durationMs":0,"stdoutTruncated":false,"stderrTruncated":false}}`
	failedStart  = `{"ok":true,"guestBootId":"boot-1","state":"failed","started":true,"error":"spawn nope ENOENT"}`
)

// A pod is a scripted guest in a bubble and an Agent that speaks to it.
type pod struct {
	*transport.Agent
	net   *memnet.Network
	dials atomic.Int64
	start time.Time // of the bubble
}

// bubble runs f in a bubble of its own, in which a guest plays the steps.
func bubble(t *testing.T, config transport.Config, steps []Step, f func(t *testing.T, p *pod)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPod(t, config)
		if steps != nil {
			p.play(t, podIP, steps...)
		}
		f(t, p)
	})
}

func newPod(t *testing.T, config transport.Config) *pod {
	t.Helper()
	p := &pod{net: &memnet.Network{}, start: time.Now()}
	if config.Host == "" {
		config.Host = podIP
	}
	config.Port, config.Token = 1024, token
	dial := config.DialContext
	if dial == nil {
		dial = p.net.DialContext
	}
	config.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		p.dials.Add(1)
		return dial(ctx, network, address)
	}
	agent, err := transport.New(config)
	if err != nil {
		t.Fatal(err)
	}
	p.Agent = agent
	t.Cleanup(func() { agent.Close() })
	return p
}

// play has a guest at the address play the steps.
func (p *pod) play(t *testing.T, ip string, steps ...Step) *Run {
	t.Helper()
	l, err := p.net.Listen("tcp", ip+":1024")
	if err != nil {
		t.Fatal(err)
	}
	return Start(t, l, steps...)
}

// took fails unless exactly d has passed in the bubble.
func (p *pod) took(t *testing.T, d time.Duration) {
	t.Helper()
	if got := time.Since(p.start); got != d {
		t.Errorf("it took %v, want exactly %v", got, d)
	}
}

// answer sends one frame, and ends the connection as a guest does: it
// half-closes and the host has to close.
func answer(v any) Step { return Seq(Send(v), CloseWrite(), ExpectClose()) }

// serve answers one control request.
func serve(op string, reply any, checks ...Check) Step {
	return Seq(Accept(), Expect(op, append(checks, Token(token))...), answer(reply))
}

// reserve answers the request for an execution id.
func reserve() Step { return serve("reserve-execution", reserved, Body("")) }

// executing takes a program and leaves its stream open as "exec".
func executing(checks ...Check) Step {
	return Seq(reserve(), AcceptAs("exec"), Expect("execute", append(checks, Token(token), Field("executionId", id))...))
}

// finish ends the stream of a program with the result.
func finish(result string) Step {
	return Seq(Send(result), Terminator(), CloseWrite(), ExpectClose())
}

// cancel answers the request to end the program.
func cancel(reply any) Step {
	return serve("cancel-execution", reply, Body(`{"executionId":"`+id+`"}`))
}

func stdout(text string) Step { return Send(`{"type":"stdout_delta","data":` + JSON(text) + `}`) }
func stderr(text string) Step { return Send(`{"type":"stderr_delta","data":` + JSON(text) + `}`) }

// errorAs returns err as a T, or fails.
func errorAs[T error](t *testing.T, err error) T {
	t.Helper()
	got, ok := errors.AsType[T](err)
	if !ok {
		t.Fatalf("got %T %v, want a %T", err, err, got)
	}
	return got
}
