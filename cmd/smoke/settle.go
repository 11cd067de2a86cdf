package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

// flushMost is long: the disk may be another's too, who writes much. It must be
// less than the minute without a byte after which a guest counts as lost.
const flushMost = 50 * time.Second

func (t *trial) flush(ctx context.Context) (string, error) {
	d, err := t.sandbox.Flush(ctx, flushMost)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("what was written is on the guest's disk, after %s", took(d)), nil
}

// quiesce ends all that runs in the guest, which goes on: a program that would
// run for long, and whatever else there is. It comes last, so that a guest that
// cannot do it is given back at once.
func (t *trial) quiesce(ctx context.Context) (string, error) {
	id := "smoke-" + strings.ToLower(rand.Text()[:8])
	_, _, err := t.sandbox.StartDetached(ctx, id, transport.Detached{Path: "sh", Args: []string{"-c", "exec sleep 3600"}})
	if err != nil {
		return "", err
	}
	q, err := t.sandbox.Quiesce(ctx, 0)
	if err != nil {
		return "", err
	}
	one, err := t.find(ctx, id)
	switch {
	case err != nil:
		return "", err
	case one.Running || len(q.Stopped) == 0:
		return "", wrong("everything was ended, %d processes are said to have been, and a program is said to run on: %t", len(q.Stopped), one.Running)
	}
	if _, err := t.sandbox.Command(ctx, "true").Output(); err != nil {
		return "", fmt.Errorf("after everything was ended no program runs any more: %w", err)
	}
	return count(len(q.Stopped), "program") + " that ran ended; the guest serves on", nil
}
