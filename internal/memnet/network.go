package memnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// silentDialTimeout is what a dial to a black hole takes without a context that
// ends earlier: the time in which Linux gives up with its default of six SYN
// retries.
const silentDialTimeout = 127 * time.Second

// firstEphemeral is where ports that nobody asked for begin (RFC 6335 6).
const firstEphemeral = 49152

// A Network is a set of listeners, names and black holes. The zero value is an
// empty network, ready for use.
type Network struct {
	// Buffer is how many bytes one direction of a connection holds before a
	// writer waits for the reader; 0 means 256 KiB. It is read at each dial.
	Buffer int

	mu        sync.Mutex // guards the rest
	listeners map[netip.AddrPort]*Listener
	hosts     map[string][]netip.Addr
	silent    map[netip.Addr]bool
	lastPort  uint16
}

// AddHost makes name resolve to the addresses, tried in that order, in place of
// what it resolved to before. It panics when one is no IP address.
func (n *Network) AddHost(name string, ips ...string) {
	addrs := make([]netip.Addr, 0, len(ips))
	for _, ip := range ips {
		addrs = append(addrs, netip.MustParseAddr(ip).Unmap())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = make(map[string][]netip.Addr)
	}
	n.hosts[canonical(name)] = addrs
}

// RemoveHost makes name unknown again.
func (n *Network) RemoveHost(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.hosts, canonical(name))
}

// Silence makes the address a black hole: a dial to it waits until its context
// ends. Connections that exist are left alone. It panics when ip is no IP
// address.
func (n *Network) Silence(ip string) {
	addr := netip.MustParseAddr(ip).Unmap()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silent == nil {
		n.silent = make(map[netip.Addr]bool)
	}
	n.silent[addr] = true
}

// Unsilence takes back what Silence did.
func (n *Network) Unsilence(ip string) {
	addr := netip.MustParseAddr(ip).Unmap()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.silent, addr)
}

// Listen announces at a TCP address. An empty host or an unspecified address
// stands for the loopback addresses; port 0 is replaced by a free one.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	fail := func(err error) error { return &net.OpError{Op: "listen", Net: network, Err: err} }
	host, port, err := split(network, address)
	if err != nil {
		return nil, fail(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	addr := netip.IPv4Unspecified()
	if network == "tcp6" {
		addr = netip.IPv6Unspecified()
	}
	if host != "" {
		addrs, err := n.resolveLocked(network, host)
		if err != nil {
			return nil, fail(err)
		}
		addr = addrs[0]
	}
	at := netip.AddrPortFrom(addr, port)
	if port == 0 {
		at, err = n.freeLocked(addr)
		if err != nil {
			return nil, fail(err)
		}
	}
	if _, taken := n.listeners[at]; taken {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: net.TCPAddrFromAddrPort(at), Err: syscall.EADDRINUSE}
	}
	l := newListener(n, at)
	if n.listeners == nil {
		n.listeners = make(map[netip.AddrPort]*Listener)
	}
	n.listeners[at] = l
	return l, nil
}

// DialContext connects to a TCP address. It fails as net.Dialer does: with
// ECONNREFUSED where nobody listens, with a *net.DNSError whose IsNotFound is
// set for a name nobody added, with the context's error when that ends first;
// all of them in a *net.OpError.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	fail := func(addr net.Addr, err error) error {
		return &net.OpError{Op: "dial", Net: network, Addr: addr, Err: err}
	}
	host, port, err := split(network, address)
	if err != nil {
		return nil, fail(nil, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fail(nil, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	n.mu.Lock()
	addrs, err := n.resolveLocked(network, host)
	n.mu.Unlock()
	if err != nil {
		return nil, fail(nil, err)
	}
	var first error
	for _, addr := range addrs {
		at := netip.AddrPortFrom(addr, port)
		conn, err := n.dial(ctx, at)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = fail(net.TCPAddrFromAddrPort(at), err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

func (n *Network) dial(ctx context.Context, at netip.AddrPort) (*Conn, error) {
	n.mu.Lock()
	silent := n.silent[at.Addr()]
	l := n.listeners[at]
	if l == nil && at.Addr().IsLoopback() {
		unspecified := netip.IPv4Unspecified()
		l = n.listeners[netip.AddrPortFrom(unspecified, at.Port())]
		if l == nil {
			l = n.listeners[netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())]
		}
	}
	from := n.localLocked(at.Addr())
	buffer := n.Buffer
	n.mu.Unlock()
	if silent {
		timer := time.NewTimer(silentDialTimeout)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			return nil, syscall.ETIMEDOUT
		}
	}
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	client, server := newPair(net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(at), buffer)
	if !l.offer(server) {
		return nil, syscall.ECONNREFUSED
	}
	return client, nil
}

// localLocked is the address and port that a dialler to addr gets.
func (n *Network) localLocked(addr netip.Addr) netip.AddrPort {
	from := netip.AddrFrom4([4]byte{192, 0, 2, 1}) // RFC 5737
	switch {
	case addr.IsLoopback():
		from = addr
	case addr.Is6():
		from = netip.MustParseAddr("2001:db8::1") // RFC 3849
	}
	return netip.AddrPortFrom(from, n.portLocked())
}

func (n *Network) portLocked() uint16 {
	if n.lastPort < firstEphemeral || n.lastPort == 65535 {
		n.lastPort = firstEphemeral - 1
	}
	n.lastPort++
	return n.lastPort
}

func (n *Network) freeLocked(addr netip.Addr) (netip.AddrPort, error) {
	for range 65536 - firstEphemeral {
		at := netip.AddrPortFrom(addr, n.portLocked())
		if _, taken := n.listeners[at]; !taken {
			return at, nil
		}
	}
	return netip.AddrPort{}, syscall.EADDRINUSE
}

// resolveLocked never returns an empty list without an error.
func (n *Network) resolveLocked(network, host string) ([]netip.Addr, error) {
	addrs, known := n.hosts[canonical(host)]
	if literal, err := netip.ParseAddr(host); err == nil {
		addrs, known = []netip.Addr{literal.WithZone("").Unmap()}, true
	}
	if !known && canonical(host) == "localhost" {
		addrs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	addrs = slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool {
		return network == "tcp4" && !a.Is4() || network == "tcp6" && !a.Is6()
	})
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// forget takes the listener out of the network.
func (n *Network) forget(l *Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[l.at] == l {
		delete(n.listeners, l.at)
	}
}

func split(network, address string) (host string, port uint16, err error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return "", 0, net.UnknownNetworkError(network)
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, &net.AddrError{Err: fmt.Sprintf("invalid port %q", text), Addr: address}
	}
	return host, uint16(number), nil
}

func canonical(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}
