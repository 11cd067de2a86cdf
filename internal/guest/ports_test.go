//go:build linux

package guest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
)

// ports are the servers that recordings connect to. TestMain opens them.
var ports *portServers

// A portServers serves the ports of the recording's machine on others.
type portServers struct {
	listeners map[string]net.Listener // by the recorded address
	accepting sync.WaitGroup
	mu        sync.Mutex
	conns     []net.Conn
}

func openPorts() (*portServers, error) {
	p := &portServers{listeners: map[string]net.Listener{}}
	for _, port := range []struct {
		recorded, local string
		serve           func(*net.TCPConn)
	}{
		{"127.0.0.1:18081", "127.0.0.1:0", echoServer},
		{"127.0.0.1:18083", "127.0.0.1:0", countServer},
		{"127.0.0.1:18084", "127.0.0.1:0", byeServer},
		{"127.0.0.1:18085", "127.0.0.1:0", resetServer},
		{"127.0.0.1:18091", "127.0.0.1:0", echoServer},
		{"[::1]:18087", "127.0.0.1:0", echoServer},
	} {
		l, err := net.Listen("tcp", port.local)
		if err != nil {
			return nil, err
		}
		p.listeners[port.recorded] = l
		p.accepting.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				p.mu.Lock()
				p.conns = append(p.conns, conn)
				p.mu.Unlock()
				p.accepting.Go(func() {
					defer conn.Close()
					port.serve(conn.(*net.TCPConn))
				})
			}
		})
	}
	return p, nil
}

func (p *portServers) close() {
	for _, l := range p.listeners {
		l.Close()
	}
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.accepting.Wait()
}

// dial is the DialContext of guests.
func (p *portServers) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l, ok := p.listeners[address]; ok {
		address = l.Addr().String()
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// echoServer says back what it hears.
func echoServer(c *net.TCPConn) { io.Copy(c, c) }

// countServer hears all there is and says how much that was.
func countServer(c *net.TCPConn) {
	n, _ := io.Copy(io.Discard, c)
	fmt.Fprintf(c, "got %d", n)
}

// byeServer says something, ends its side, and still listens.
func byeServer(c *net.TCPConn) {
	io.WriteString(c, "bye")
	c.CloseWrite()
	io.Copy(io.Discard, c)
}

// resetServer resets the connection when it hears something.
func resetServer(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(fd uintptr) bool {
		n, _, _ := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return n >= 0
	})
	c.SetLinger(0)
}
