package transport

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

const dialPause = 100 * time.Millisecond

// dialAgain decides on a failed attempt to connect. Only the answer that a name
// does not exist is final at once; a resolver that fails otherwise, and
// whatever a literal address runs into, may be better a moment later.
func dialAgain(err error, host string, elapsed, budget time.Duration) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	if ok && dns.IsNotFound && !literal(host) {
		return false
	}
	return elapsed < budget
}

// unresolved reports whether it is the host's name that the attempt failed at.
func unresolved(err error, host string) bool {
	_, ok := errors.AsType[*net.DNSError](err)
	return ok && !literal(host)
}

func literal(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
