package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/lease"
)

const (
	ms = time.Millisecond
	s  = time.Second
	m  = time.Minute
	h  = time.Hour
)

func TestExpiryIsWholeSecondsRoundedDown(t *testing.T) {
	east := time.FixedZone("east", 2*3600)
	for _, c := range []struct {
		now  time.Time
		want string
	}{
		{time.Date(2026, 11, 29, 19, 0, 0, 0, time.UTC), "2026-11-29T20:00:00Z"},
		{time.Date(2026, 11, 29, 19, 0, 0, 999_999_999, time.UTC), "2026-11-29T20:00:00Z"},
		{time.Date(2026, 11, 29, 21, 0, 1, 1, east), "2026-11-29T20:00:01Z"},
	} {
		if got := lease.Expiry(c.now, h).Format(time.RFC3339Nano); got != c.want {
			t.Errorf("Expiry(%v, 1h) = %s, want %s", c.now, got, c.want)
		}
	}
}

func TestFirstDelay(t *testing.T) {
	for _, c := range []struct {
		sentence       string
		ttl, remaining time.Duration
		random         float64
		want           time.Duration
	}{
		{"at once after the create: half the TTL is left to wait", h, h, 0, 30 * m},
		{"spread towards earlier, by up to a tenth of the interval", h, h, 1, 27 * m},
		{"half of the spread", h, h, 0.5, 28*m + 30*s},
		{"the create took 20 minutes of the first half", h, 40 * m, 0, 10 * m},
		{"the create took exactly half the TTL", h, 30 * m, 0, 0},
		{"the create took longer than half the TTL", m, 20 * s, 0, 0},
		{"the spread alone reaches into the past", h, 31 * m, 1, 0},
		{"the expiry has passed", m, -s, 0.5, 0},
	} {
		if got := lease.FirstDelay(c.ttl, c.remaining, c.random); got != c.want {
			t.Errorf("%s: FirstDelay(%v, %v, %v) = %v, want %v", c.sentence, c.ttl, c.remaining, c.random, got, c.want)
		}
	}
}

func TestNextDelay(t *testing.T) {
	for _, c := range []struct {
		sentence       string
		ttl, remaining time.Duration
		random         float64
		want           time.Duration
	}{
		{"half the TTL", h, h, 0.5, 30 * m},
		{"a tenth earlier", h, h, 0, 27 * m},
		{"a tenth later", h, h, 1, 33 * m},
		{"the server stored less than was asked: not into the last quarter", h, 40 * m, 0.5, 25 * m},
		{"next to nothing is left: soon, but not in a hot loop", h, m, 0.5, 3 * m},
		{"the expiry has passed", h, -h, 0.5, 3 * m},
		{"the shortest TTL, most of it cut off with the fraction", 2 * s, 1001 * ms, 0.5, 501 * ms},
		{"somebody else moved the expiry far ahead", h, 100 * h, 0.5, 30 * m},
	} {
		if got := lease.NextDelay(c.ttl, c.remaining, c.random); got != c.want {
			t.Errorf("%s: NextDelay(%v, %v, %v) = %v, want %v", c.sentence, c.ttl, c.remaining, c.random, got, c.want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	for _, c := range []struct {
		sentence       string
		ttl, remaining time.Duration
		n              int
		after          time.Duration
		random         float64
		want           time.Duration
	}{
		{"the first failure", h, 30 * m, 1, 0, 0.5, s},
		{"the second", h, 30 * m, 2, 0, 0.5, 2 * s},
		{"the fifth", h, 30 * m, 5, 0, 0.5, 16 * s},
		{"the sixth reaches the limit", h, 30 * m, 6, 0, 0.5, 30 * s},
		{"a number that no shift could hold", h, 30 * m, math.MaxInt, 0, 0.5, 30 * s},
		{"a short TTL has a lower limit", m, 30 * s, 3, 0, 0.5, 3 * s},
		{"below a second for a TTL below 20 s", 10 * s, 5 * s, 1, 0, 0.5, 500 * ms},
		{"spread like every wait", h, 30 * m, 1, 0, 0, 900 * ms},
		{"and to the other side", h, 30 * m, 6, 0, 1, 33 * s},
		{"Retry-After is waited for", h, 30 * m, 1, 10 * s, 0, 10 * s},
		{"and spread towards later only", h, 30 * m, 1, 10 * s, 1, 11 * s},
		{"a Retry-After below the wait changes nothing", h, 30 * m, 5, s, 0.5, 16 * s},
		{"a Retry-After beyond the expiry gets half of what remains", h, 10 * m, 1, 24 * h, 0.5, 5 * m},
		{"when nothing remains the wait is the usual one", h, -s, 3, 24 * h, 0.5, 4 * s},
	} {
		if got := lease.RetryDelay(c.ttl, c.remaining, c.n, c.after, c.random); got != c.want {
			t.Errorf("%s: RetryDelay(%v, %v, %d, %v, %v) = %v, want %v", c.sentence, c.ttl, c.remaining, c.n, c.after, c.random, got, c.want)
		}
	}
}

func TestAttemptBound(t *testing.T) {
	for _, c := range []struct {
		sentence       string
		ttl, untilLost time.Duration
		want           time.Duration
	}{
		{"30 s at most", h, 30 * m, 30 * s},
		{"an eighth of a short TTL", m, 30 * s, 7500 * ms},
		{"a millisecond at least", 7 * ms, s, ms},
		{"never past the moment when the lease is lost", h, 5 * s, 5 * s},
	} {
		if got := lease.AttemptBound(c.ttl, c.untilLost); got != c.want {
			t.Errorf("%s: AttemptBound(%v, %v) = %v, want %v", c.sentence, c.ttl, c.untilLost, got, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		base   time.Duration
		random float64
		want   time.Duration
	}{
		{s, 0, 900 * ms}, {s, 1, 1100 * ms}, {s, 0.5, s}, {0, 0.5, ms}, {ms, 0, ms},
	} {
		if got := lease.Spread(c.base, c.random); got != c.want {
			t.Errorf("Spread(%v, %v) = %v, want %v", c.base, c.random, got, c.want)
		}
	}
}
