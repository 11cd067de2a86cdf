package policy

import (
	"context"
	"slices"
)

// Kind names a kind of policy as it appears in reports and refusals.
type Kind string

// The six kinds.
const (
	KindDenyAll        Kind = "deny-all"
	KindAllowAll       Kind = "allow-all"
	KindStatic         Kind = "static"
	KindResolver       Kind = "resolver"
	KindNoNetwork      Kind = "no-network"
	KindPublicInternet Kind = "public-internet"
)

// A Policy is one of [DenyAll], [AllowAll], [Static], [Resolver], [NoNetwork] and [PublicInternet].
type Policy interface {
	Kind() Kind
	clone() Policy
}

// DenyAll lets nothing out but lookups at the cluster's DNS. A resolver that forwards outside names is still a way out for
// whoever can make lookups; [NoNetwork] closes that too.
type DenyAll struct{}

// AllowAll is no boundary: nodes, the API server, services and other pods are all reachable.
type AllowAll struct{}

// Static lets out to a list of host names and needs [Cilium]. An entry is a name, or a name with a leading dot, which means
// the name and one level below it.
type Static struct{ AllowedHosts []string }

// Resolver is [Static] with a list that the host looks up. Resolve is called once and its answer kept until
// [Verifier.Invalidate]; a failed call is forgotten.
type Resolver struct {
	Resolve func(ctx context.Context) ([]string, error)
}

// NoNetwork lets nothing out, not even DNS.
type NoNetwork struct{}

// PublicInternet lets out to everything but private, shared, link-local and loopback ranges, and to the cluster's DNS.
// ExceptCIDRs are taken out as well; see [SpecialRanges] for the ones worth adding.
type PublicInternet struct{ ExceptCIDRs []string }

// Kind reports [KindDenyAll].
func (DenyAll) Kind() Kind { return KindDenyAll }

// Kind reports [KindAllowAll].
func (AllowAll) Kind() Kind { return KindAllowAll }

// Kind reports [KindStatic].
func (Static) Kind() Kind { return KindStatic }

// Kind reports [KindResolver].
func (Resolver) Kind() Kind { return KindResolver }

// Kind reports [KindNoNetwork].
func (NoNetwork) Kind() Kind { return KindNoNetwork }

// Kind reports [KindPublicInternet].
func (PublicInternet) Kind() Kind { return KindPublicInternet }

func (p DenyAll) clone() Policy   { return p }
func (p AllowAll) clone() Policy  { return p }
func (p Resolver) clone() Policy  { return p }
func (p NoNetwork) clone() Policy { return p }
func (p Static) clone() Policy    { return Static{AllowedHosts: slices.Clone(p.AllowedHosts)} }
func (p PublicInternet) clone() Policy {
	return PublicInternet{ExceptCIDRs: slices.Clone(p.ExceptCIDRs)}
}

// named reports whether the kind is a list of host names, which only Cilium can enforce.
func (k Kind) named() bool { return k == KindStatic || k == KindResolver }

// SpecialRanges are ranges that [PublicInternet] leaves open although nothing public lives there or something private may be
// reached through them: translation prefixes that lead back to IPv4 (RFC 6052, RFC 3056), protocol assignments with a
// cloud's metadata service among them, benchmarking, multicast and reserved space. They are not part of the translation,
// because that would change the object that operators have applied; put them in ExceptCIDRs of new policies.
func SpecialRanges() []string {
	return []string{
		"0.0.0.0/8", "192.0.0.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
		"::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "ff00::/8",
	}
}
