package transport

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	// maxGreetings is how many connections to a guest are at a time between
	// their being made and their request being sent. A guest evicts those that
	// have not shown their token, by default when there are more than 64.
	maxGreetings = 32

	crowdPause = 100 * time.Millisecond
)

// crowded reports whether the guest has turned a connection away, before it had
// read the request, because there were too many.
func crowded(err error) bool {
	r, ok := errors.AsType[*wire.Refusal](err)
	return ok && slices.Contains(turnedAway, wire.Code(r.Code))
}

var turnedAway = []string{wire.CodeTooManyConnections, wire.CodePreauthBuffer}

// uncrowd calls try until the guest does not turn it away, for as long as
// connecting may take, and after pauses.
func (a *Agent) uncrowd(ctx context.Context, try func() error) error {
	start := time.Now()
	for {
		err := try()
		if !crowded(err) || time.Since(start)+crowdPause > a.config.DialBudget || sleep(ctx, crowdPause) != nil {
			return err
		}
	}
}
