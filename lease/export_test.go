package lease

import "time"

// KeepWith is Keep with a source of random numbers from 0 to 1.
func KeepWith(c Config, random func() float64) (*Lease, error) { return keep(c, random) }

var (
	FirstDelay   = firstDelay
	NextDelay    = nextDelay
	RetryDelay   = retryDelay
	AttemptBound = attemptBound
	Spread       = spread
)

// Judge returns the parts of a verdict.
func Judge(asked time.Time, r Renewed, err error) (lost Reason, stored time.Time, failure error) {
	v := judge(asked, r, err)
	return v.lost, v.expiry, v.err
}
