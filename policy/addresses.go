package policy

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// addrRange is a run of addresses of one family, both ends included.
type addrRange struct{ from, to netip.Addr }

// addrSet is a set of addresses: sorted, disjoint, not adjacent ranges. IPv4 sorts before IPv6, and the two never mix.
type addrSet []addrRange

// parseCIDR reads a prefix and masks its host bits. An IPv4-mapped prefix stays IPv6.
func parseCIDR(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

func prefixRange(p netip.Prefix) addrRange {
	from := p.Masked().Addr()
	raw := from.AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 0x80 >> (bit % 8)
	}
	to, _ := netip.AddrFromSlice(raw)
	return addrRange{from, to}
}

func setOf(prefixes ...netip.Prefix) addrSet {
	ranges := make(addrSet, 0, len(prefixes))
	for _, p := range prefixes {
		ranges = append(ranges, prefixRange(p))
	}
	return ranges.normal()
}

// blockSet is what a block with holes admits. An IPv4-mapped block is judged as the IPv4 addresses as well: the net package
// that plugins are written with matches them. Its holes count there only if they are mapped too.
func blockSet(block netip.Prefix, holes []netip.Prefix) addrSet {
	set := setOf(block).minus(setOf(holes...))
	v4, ok := unmapped(block)
	if !ok {
		return set
	}
	var v4Holes []netip.Prefix
	for _, hole := range holes {
		if p, ok := unmapped(hole); ok {
			v4Holes = append(v4Holes, p)
		}
	}
	return set.plus(setOf(v4).minus(setOf(v4Holes...)))
}

func unmapped(p netip.Prefix) (netip.Prefix, bool) {
	if !p.Addr().Is4In6() || p.Bits() < 96 {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), true
}

func (s addrSet) Len() int           { return len(s) }
func (s addrSet) Less(i, j int) bool { return s[i].from.Less(s[j].from) }
func (s addrSet) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// normal sorts the ranges and merges those that overlap or touch. The receiver is consumed.
func (s addrSet) normal() addrSet {
	sort.Sort(s)
	var out addrSet
	for _, r := range s {
		out = out.extend(r)
	}
	return out
}

// extend adds a range that begins no earlier than the last one.
func (s addrSet) extend(r addrRange) addrSet {
	last := len(s) - 1
	if last < 0 || s[last].to.BitLen() != r.from.BitLen() {
		return append(s, r)
	}
	if next := s[last].to.Next(); next.IsValid() && r.from.Compare(next) > 0 {
		return append(s, r)
	}
	if r.to.Compare(s[last].to) > 0 {
		s[last].to = r.to
	}
	return s
}

// plus takes time in proportion to the ranges of both sets.
func (s addrSet) plus(other addrSet) addrSet {
	out := make(addrSet, 0, len(s)+len(other))
	for len(s) > 0 && len(other) > 0 {
		if other[0].from.Less(s[0].from) {
			s, other = other, s
		}
		out, s = out.extend(s[0]), s[1:]
	}
	for _, r := range slices.Concat(s, other) {
		out = out.extend(r)
	}
	return out
}

func (s addrSet) minus(other addrSet) addrSet {
	var out addrSet
	i := 0
	for _, r := range s {
		for i < len(other) && other[i].to.Compare(r.from) < 0 {
			i++
		}
		from, exhausted := r.from, false
		for j := i; j < len(other) && other[j].from.Compare(r.to) <= 0; j++ {
			if other[j].from.Compare(from) > 0 {
				out = append(out, addrRange{from, other[j].from.Prev()})
			}
			if other[j].to.Compare(r.to) >= 0 {
				exhausted = true
				break
			}
			from = other[j].to.Next()
		}
		if !exhausted {
			out = append(out, addrRange{from, r.to})
		}
	}
	return out
}

func (s addrSet) both(other addrSet) addrSet { return s.minus(s.minus(other)) }

func (s addrSet) contains(a netip.Addr) bool {
	for _, r := range s {
		if r.from.BitLen() == a.BitLen() && r.from.Compare(a) <= 0 && a.Compare(r.to) <= 0 {
			return true
		}
	}
	return false
}

// The share of an address family from which a set of sources counts as open to everyone: more than an IPv4 /8, or more than
// an IPv6 /16. No host's own network is that large, and it does not matter how the set is spelled.
const (
	wideIPv4 = 1 << 24
	wideIPv6 = 1 << 48 // in networks of 64 bits
)

// wide reports whether the set is open to everyone.
func (s addrSet) wide() bool {
	var v4, v6 uint64
	for _, r := range s {
		if r.from.Is4() {
			from, to := r.from.As4(), r.to.As4()
			v4 += uint64(binary.BigEndian.Uint32(to[:])) - uint64(binary.BigEndian.Uint32(from[:])) + 1
			continue
		}
		from, to := r.from.As16(), r.to.As16()
		// One less than the count, so that the whole space fits.
		v6 += (binary.BigEndian.Uint64(to[:8]) - binary.BigEndian.Uint64(from[:8])) >> 1
	}
	return v4 > wideIPv4 || v6 >= wideIPv6>>1
}

// landmarks are the addresses that a message names first when a set reaches them.
var landmarks = []struct{ addr, name string }{
	{"169.254.169.254", "cloud metadata"},
	{"fd00:ec2::254", "cloud metadata over IPv6"},
	{"fd20:ce::254", "cloud metadata over IPv6"},
	{"168.63.129.16", "a cloud's host agent"},
	{"100.100.100.200", "cloud metadata"},
	{"192.0.0.192", "cloud metadata"},
	{"10.0.0.1", "private addresses"},
	{"172.16.0.1", "private addresses"},
	{"192.168.0.1", "private addresses"},
	{"100.64.0.1", "shared address space"},
	{"fc00::1", "private IPv6 addresses"},
	{"127.0.0.1", "loopback"},
	{"::1", "loopback"},
	{"1.1.1.1", "the internet"},
	{"2606:4700:4700::1111", "the IPv6 internet"},
}

// example names an address of the set, one that means something if there is such.
func (s addrSet) example() string {
	for _, l := range landmarks {
		if s.contains(netip.MustParseAddr(l.addr)) {
			return l.addr + " (" + l.name + ")"
		}
	}
	if len(s) == 0 {
		return "nothing"
	}
	return s[0].from.String()
}

// blockText writes a block as in the policy.
func blockText(cidr string, except []string) string {
	if len(except) == 0 {
		return cidr
	}
	return cidr + " except " + strings.Join(except, ", ")
}
