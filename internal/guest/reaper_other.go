//go:build !linux

package guest

import "context"

// ReapOrphans waits until ctx is done: only on Linux does this package know how
// to reap orphans without taking the exit status of its own programs.
func ReapOrphans(ctx context.Context) { <-ctx.Done() }
