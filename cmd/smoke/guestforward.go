package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/sandlot-go/sandlot/transport"
)

// maxForwarded is how many connections are passed on at a time; more wait to be
// accepted.
const maxForwarded = 256

// guestForward passes on connections to a port here until it is interrupted,
// which is how it is meant to end.
func guestForward(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	address, port, err := splitForward(o.args[0])
	if err != nil {
		return exitFailed, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return exitFailed, err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	fmt.Fprintf(s.stderr, "smoke: forwarding %v to port %d of the guest\n", l.Addr(), port)

	f := forwarder{agent: agent, port: port, log: &sharedWriter{w: s.stderr}, room: make(chan struct{}, maxForwarded)}
	defer f.wg.Wait()
	for {
		select {
		case f.room <- struct{}{}:
		case <-ctx.Done():
			return exitOK, nil
		}
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return exitOK, nil
		case err != nil:
			return exitFailed, err
		}
		f.wg.Go(func() {
			f.pass(ctx, conn)
			<-f.room
		})
	}
}

// splitForward reads [ADDRESS:]LOCAL:PORT.
func splitForward(text string) (address string, port int, err error) {
	refused := usagef("forward %q is not [ADDRESS:]LOCAL:PORT, such as 8080:80; LOCAL 0 is any free port", text)
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", 0, refused
	}
	address, remote := text[:i], text[i+1:]
	if !strings.Contains(address, ":") {
		address = net.JoinHostPort("127.0.0.1", address)
	}
	host, local, err := net.SplitHostPort(address)
	_, localErr := strconv.ParseUint(local, 10, 16)
	n, remoteErr := strconv.ParseUint(remote, 10, 16)
	if err != nil || host == "" || localErr != nil || remoteErr != nil || n == 0 {
		return "", 0, refused
	}
	return address, int(n), nil
}

// A forwarder passes connections on to a port of the guest.
type forwarder struct {
	agent *transport.Agent
	port  int
	room  chan struct{}
	log   io.Writer
	wg    sync.WaitGroup
}

// pass copies both ways until the guest's side is closed, or one is lost. A
// reset of one becomes the end of the other.
func (f *forwarder) pass(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	guest, err := f.agent.DialGuest(ctx, f.port)
	if err != nil {
		f.tell(ctx, conn, err)
		return
	}
	defer guest.Close()
	defer context.AfterFunc(ctx, func() {
		conn.Close()
		guest.Close()
	})()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if _, err := io.Copy(guest, conn); err != nil {
			guest.Close()
		} else if half, ok := guest.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
	}()
	_, err = io.Copy(conn, guest)
	conn.Close() // the guest takes nothing any more either
	<-sent
	if _, lost := errors.AsType[*transport.LostError](err); lost {
		f.tell(ctx, conn, err)
	}
}

func (f *forwarder) tell(ctx context.Context, conn net.Conn, err error) {
	if ctx.Err() == nil {
		fmt.Fprintf(f.log, "smoke: connection from %v: %v\n", conn.RemoteAddr(), err)
	}
}
