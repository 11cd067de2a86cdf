package transport

import (
	"context"
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
//
// A refusal within another error came to a stream that had begun.
func crowded(err error) bool {
	switch e := err.(type) {
	case *wire.Refusal:
		return slices.Contains(turnedAway, wire.Code(e.Code))
	case *RefusedError:
		return slices.Contains(turnedAway, e.Code)
	}
	return false
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
