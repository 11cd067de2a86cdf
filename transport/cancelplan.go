package transport

import (
	"errors"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	cancelBudget  = 8 * time.Second
	cancelAttempt = 2 * time.Second
	cancelPause   = 50 * time.Millisecond
	closeBudget   = 2 * time.Second // instead of cancelBudget, after Close
)

// A cancelStep is what follows on an attempt to end an execution that failed.
type cancelStep int

const (
	cancelAgain  cancelStep = iota
	cancelAsk               // ask whether the guest has fenced itself
	cancelGiveUp            // nothing is going to change
)

// nextCancel decides after attempts that failed, the last of them with err, and
// after asking or not. A guest that has fenced itself keeps every cancel of the
// execution that it fenced itself for waiting longer than an attempt lasts, so
// the third attempt would tell nothing that its health does not tell better.
func nextCancel(attempts int, asked bool, err error, elapsed, budget time.Duration) cancelStep {
	refusal, refused := errors.AsType[*wire.Refusal](err)
	switch {
	case refused && (refusal.Code == wire.CodeUnknownExecution || refusal.Code == wire.CodeInvalidExecutionID):
		return cancelGiveUp
	case elapsed >= budget:
		return cancelGiveUp
	case !asked && (attempts >= 2 || refused && refusal.Code == wire.CodeCancelUnconfirmed):
		return cancelAsk
	}
	return cancelAgain
}

// restarted reports whether err is the word of another process than the one
// that took the execution.
func restarted(err error, bootID string) bool {
	r, ok := errors.AsType[*wire.Refusal](err)
	return ok && r.Code == wire.CodeUnknownExecution && bootID != "" && r.BootID != "" && r.BootID != bootID
}
