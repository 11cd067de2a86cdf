package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/sandlot-go/sandlot/transport"
)

const (
	nobodysPort = 1 // nothing listens there
	portBytes   = 256 << 10
)

// portProgram listens at a free port of 127.0.0.1, says which one, and sends the
// first to connect back what it sends, with the first tool that there is.
const portProgram = `perl -MIO::Socket::INET -e '$|=1; $l=IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1") or die;
print "port ",$l->sockport,"\n"; $c=$l->accept; print $c $b while sysread $c,$b,65536' ||
python3 -c 'import socket
l=socket.socket(); l.bind(("127.0.0.1",0)); l.listen(1)
print("port",l.getsockname()[1],flush=True)
c=l.accept()[0]
for b in iter(lambda:c.recv(65536),b""): c.sendall(b)' ||
node -e 'require("net").createServer({allowHalfOpen:true},c=>{c.pipe(c);c.on("close",()=>process.exit())})
.listen(0,"127.0.0.1",function(){console.log("port",this.address().port)})' ||
echo nothing to serve with`

// port connects to a port where nobody listens, which the guest must say, and to
// one of a program. An image that has nothing to make such a program of has at
// least its agent.
func (t *trial) port(ctx context.Context) (string, error) {
	conn, err := t.sandbox.DialGuest(ctx, nobodysPort)
	if err == nil {
		conn.Close()
		return "", wrong("a connection to port %d was made, where nobody is to listen", nobodysPort)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return "", err
	}
	const refused = "a port where nobody listens is refused"
	ctx, cancel := context.WithCancel(ctx)
	program, err := start(ctx, t.sandbox.Command(ctx, "sh", "-c", portProgram))
	if err != nil {
		cancel()
		return "", err
	}
	defer func() {
		cancel()
		<-program.ended
	}()
	var port int
	if _, err := fmt.Sscanf(program.stdout.text(), "port %d", &port); err != nil {
		detail, err := t.agentPort(ctx)
		return refused + "; the image has no perl, python3 or node to serve with, " + detail, err
	}
	if err := t.echo(ctx, port); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s; %s went to a program's port and back", refused, size(portBytes)), nil
}

// echo sends to a port and has it sent back.
func (t *trial) echo(ctx context.Context, port int) error {
	conn, err := t.sandbox.DialGuest(ctx, port)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	want := bytes.Repeat(t.files.small, portBytes/len(t.files.small)+1)[:portBytes]
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(want)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		}
		sent <- err
	}()
	got, err := io.ReadAll(io.LimitReader(conn, portBytes+1))
	conn.Close()
	if err = errors.Join(err, <-sent); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	if !bytes.Equal(got, want) {
		return wrong("%d bytes went to a port and back and came as %d others", len(want), len(got))
	}
	return nil
}

// agentPort speaks to the guest's agent by its own port, if it listens at that of
// the loopback interface too.
func (t *trial) agentPort(ctx context.Context) (string, error) {
	conn, err := t.sandbox.DialGuest(ctx, t.options.port)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "and nothing else was there to connect to", nil
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	agent, err := transport.New(transport.Config{Host: "127.0.0.1", Port: t.options.port,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }})
	if err != nil {
		return "", err
	}
	defer agent.Close()
	_, err = agent.Health(ctx)
	return "but its agent answers at its own port", err
}
