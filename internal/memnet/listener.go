package memnet

import (
	"net"
	"net/netip"
	"sync"
)

// backlog is how many connections wait to be accepted before more are refused.
const backlog = 1024

// A Listener accepts what is dialled at its address.
type Listener struct {
	network *Network
	at      netip.AddrPort
	queue   chan *Conn
	done    chan struct{}

	mu     sync.Mutex // guards closed, and sending on queue against closing
	closed bool
}

var _ net.Listener = (*Listener)(nil)

func newListener(n *Network, at netip.AddrPort) *Listener {
	return &Listener{network: n, at: at, queue: make(chan *Conn, backlog), done: make(chan struct{})}
}

// offer hands over the server's end; it reports whether the listener took it.
func (l *Listener) offer(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	select {
	case l.queue <- c:
		return true
	default:
		return false
	}
}

// Accept waits for the next connection. After Close it fails with
// net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.done: // also when connections wait: they were reset
	default:
		select {
		case c := <-l.queue:
			return c, nil
		case <-l.done:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
}

// Close frees the address and resets the connections that nobody accepted; those
// that were accepted live on. A second call returns net.ErrClosed.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
	l.closed = true
	close(l.done)
	l.mu.Unlock()
	l.network.forget(l)
	for {
		select {
		case c := <-l.queue:
			c.Reset()
		default:
			return nil
		}
	}
}

// Addr is a *net.TCPAddr with the port that was picked.
func (l *Listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }
