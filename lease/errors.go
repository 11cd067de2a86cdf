package lease

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrStopped is what [Lease.Err] returns after [Lease.Stop].
	ErrStopped = errors.New("lease: stopped by its owner")
	// ErrNoAnswer is wrapped by the failure of a renewal that took too long.
	ErrNoAnswer = errors.New("lease: no answer in time")
)

// Reason says why a lease was lost.
type Reason string

const (
	// ReasonGone: the API server says that the object does not exist.
	ReasonGone Reason = "gone"
	// ReasonExpired: the last acknowledged expiry has passed. The sandbox may
	// still be there, if its controller is late, but nobody holds it.
	ReasonExpired Reason = "expired"
	// ReasonChanged: an answer shows another sandbox in place of this one, or
	// that this one is being deleted.
	ReasonChanged Reason = "changed"
)

// A LostError is the end of a lease.
type LostError struct {
	Object string    // what was leased
	Reason Reason    //
	Gone   bool      // the object certainly does not exist; true for ReasonGone alone
	Expiry time.Time // the last that was acknowledged
	Err    error     // what showed it; with ReasonExpired the last failed renewal, or nil
}

func (e *LostError) Error() string {
	var text string
	switch e.Reason {
	case ReasonGone:
		text = fmt.Sprintf("lease: %s no longer exists on the cluster", e.Object)
	case ReasonExpired:
		text = fmt.Sprintf("lease: %s was renewed until %s, which has passed", e.Object, e.Expiry.Format(time.RFC3339))
	default:
		text = fmt.Sprintf("lease: %s is no longer the sandbox that was leased", e.Object)
	}
	text += "; create another one"
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *LostError) Unwrap() error { return e.Err }

// A RenewError is one failed renewal of a lease that is still held.
type RenewError struct {
	Object   string        // what is leased
	Failures int           // in a row, this one included
	Expiry   time.Time     // the last that was acknowledged; the lease is lost when it has passed
	Retry    time.Duration // until the next attempt
	Err      error
}

func (e *RenewError) Error() string {
	return fmt.Sprintf("lease: could not renew %s (failure %d in a row, held until %s, next attempt in %v): %v",
		e.Object, e.Failures, e.Expiry.Format(time.RFC3339), e.Retry, e.Err)
}

func (e *RenewError) Unwrap() error { return e.Err }

// A StaleError is a renewal that the server accepted without effect: the
// expiry it stores is older than the one that was asked for. Another writer,
// an admission webhook or a race with the expiry itself does that.
type StaleError struct{ Asked, Stored time.Time }

func (e *StaleError) Error() string {
	if e.Stored.IsZero() {
		return fmt.Sprintf("lease: asked for expiry %s, and the answer stores none", e.Asked.Format(time.RFC3339))
	}
	return fmt.Sprintf("lease: asked for expiry %s, and the answer stores the older %s",
		e.Asked.Format(time.RFC3339), e.Stored.Format(time.RFC3339Nano))
}
