package lease

import (
	"errors"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// Renewed is what the answer to a renewal shows.
type Renewed struct {
	// Expiry is the expiry that the server stores now. Zero if it stores none.
	Expiry time.Time
	// Lost, when set, says in what way the object that was renewed is no
	// longer the one that was leased: bound to another sandbox, or being
	// deleted. The lease is lost at once.
	Lost error
}

// A verdict is what became of the lease in one renewal.
type verdict struct {
	lost   Reason    // "" while the lease is held
	err    error     // why it is lost or was not renewed; nil when it was
	expiry time.Time // what the server stores now; zero if it did not say
}

// judge reads the answer to a renewal that asked for an expiry.
//
// Gone is a claim about the object itself, so only two answers make it: a 404
// whose body is a Status that names the object, and 410. A 404 in plain text
// is a server that does not serve the resource, as during an upgrade of the
// CRDs, and 403 is what every account gets from an API server that has just
// started and not yet read its roles.
func judge(asked time.Time, r Renewed, err error) verdict {
	switch {
	case err != nil && (k8s.IsNotFound(err) || k8s.KindOf(err) == k8s.Gone):
		return verdict{lost: ReasonGone, err: err}
	case err != nil:
		return verdict{err: err}
	case r.Lost != nil:
		return verdict{lost: ReasonChanged, err: r.Lost}
	case r.Expiry.Before(asked.Truncate(time.Second)):
		return verdict{err: &StaleError{Asked: asked, Stored: r.Expiry}, expiry: r.Expiry}
	}
	return verdict{expiry: r.Expiry}
}

// retryAfter is how long the server asked to be left alone.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*k8s.APIError](err); ok {
		return e.RetryAfter
	}
	return 0
}
