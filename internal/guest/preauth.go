package guest

import (
	"fmt"
	"slices"
	"sync"
)

// A preauth keeps the connections that have not authenticated within bounds:
// how many there are and how many bytes they hold together.
type preauth struct {
	maxConns, maxBytes int

	mu    sync.Mutex // guards all below and conn.held
	conns []*conn    // oldest first
	bytes int
}

// enter adds a connection. If there are too many then, the oldest is evicted:
// the newcomer is more likely to be one that will authenticate.
func (p *preauth) enter(c *conn) {
	p.mu.Lock()
	p.conns = append(p.conns, c)
	var oldest *conn
	if len(p.conns) > p.maxConns {
		oldest = p.conns[0]
		oldest.condemn(refusal(fmt.Sprintf("too_many_unauthenticated_connections: limit %d (%s)", p.maxConns, variablePreauthCount)))
		p.removeLocked(oldest)
	}
	p.mu.Unlock()
	if oldest != nil {
		oldest.wake()
	}
}

// leave takes a connection out, because it has authenticated, been refused or
// closed. It reports whether the connection was still in: one that was not has
// been condemned, or closed.
func (p *preauth) leave(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.removeLocked(c)
}

func (p *preauth) removeLocked(c *conn) bool {
	i := slices.Index(p.conns, c)
	if i < 0 {
		return false
	}
	p.conns = slices.Delete(p.conns, i, i+1)
	p.bytes -= c.held
	c.held = 0
	return true
}

// hold counts n more bytes that c keeps in memory and reports whether all
// connections together are still within bounds.
func (p *preauth) hold(c *conn, n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.conns, c) {
		return nil
	}
	c.held += n
	p.bytes += n
	if p.bytes > p.maxBytes {
		return refusal(fmt.Sprintf("preauth_buffer_exhausted: limit %d bytes (%s)", p.maxBytes, variablePreauthBytes))
	}
	return nil
}

// release counts all that c holds as given back.
func (p *preauth) release(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes -= c.held
	c.held = 0
}
