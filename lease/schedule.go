package lease

import (
	"math"
	"time"
)

const (
	// MinTTL is the shortest TTL that can be kept: expiries are whole seconds,
	// rounded down, so a shorter one may have passed when it is stored.
	MinTTL = 2 * time.Second

	// skewMargin is how long after its expiry a lease counts as held. The
	// server's clock is known through a header of whole seconds, so an earlier
	// verdict could be wrong about a sandbox that is alive.
	skewMargin = 2 * time.Second

	maxAttempt = 30 * time.Second // one renewal
	maxBackoff = 30 * time.Second // between failed renewals
)

// Expiry is the expiry to ask for at a moment of the server's clock.
func Expiry(now time.Time, ttl time.Duration) time.Time {
	return now.Add(ttl).UTC().Truncate(time.Second)
}

// firstDelay is the wait before the first renewal, for an expiry that is
// remaining away. The spread goes towards earlier only: how long the create
// took is already lost.
func firstDelay(ttl, remaining time.Duration, random float64) time.Duration {
	return max(0, remaining-ttl/2-time.Duration(random*float64(ttl/20)))
}

// nextDelay is the wait after a renewal: TTL/2 give or take a tenth, so that
// leases of one burst drift apart, but never into the last quarter of the TTL.
func nextDelay(ttl, remaining time.Duration, random float64) time.Duration {
	safe := max(remaining-ttl/4, ttl/20)
	return min(spread(ttl/2, random), safe)
}

// retryDelay is the wait after the n-th failure in a row: 1 s, 2 s, 4 s and so
// on, up to a twentieth of the TTL and 30 s. What the server asks for with
// Retry-After is honoured up to half of what remains, so that a lease is never
// given up for politeness.
func retryDelay(ttl, remaining time.Duration, n int, retryAfter time.Duration, random float64) time.Duration {
	limit := max(time.Millisecond, min(maxBackoff, ttl/20))
	backoff := limit
	if n <= 5 { // 2^5 s is above every limit
		backoff = min(limit, time.Second<<(n-1))
	}
	delay := spread(backoff, random)
	if retryAfter > delay {
		later := retryAfter + time.Duration(random*float64(retryAfter/10))
		delay = max(delay, min(later, remaining/2))
	}
	return delay
}

// attemptBound is how long one renewal may take when the lease is lost in
// untilLost.
func attemptBound(ttl, untilLost time.Duration) time.Duration {
	bound := max(time.Millisecond, min(maxAttempt, (ttl/8).Round(time.Millisecond)))
	return min(bound, untilLost)
}

// spread returns base times a factor from 0.9 to 1.1, in whole milliseconds, at
// least one.
func spread(base time.Duration, random float64) time.Duration {
	factor := 0.9 + 0.2*random
	return max(time.Millisecond, time.Duration(math.Round(float64(base)*factor)).Round(time.Millisecond))
}
