package guest

import (
	"context"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// flush answers flush: what was written to the workspace is on its disk.
func (s *Server) flush(c *call) {
	timeout, ok := c.wholeMillis("timeoutMs", s.config.FlushTimeout, maxSetting*time.Millisecond)
	if !ok {
		c.reply(&wire.Refusal{Code: wire.CodeFlushTimeout, Message: "timeoutMs must be a positive integer, got " + textOf(c.body["timeoutMs"])})
		return
	}
	began := realTime()
	switch err := s.syncWorkspace(timeout); {
	case err == errFlush:
		c.reply(&wire.Refusal{Code: wire.CodeFlushUnsupported, Message: err.Error()})
	case err != nil:
		c.reply(&wire.Refusal{Code: wire.CodeFlushUnconfirmed, Message: err.Error()})
	default:
		c.reply(&wire.FlushReply{OK: true, DurationMs: (realTime() - began).Milliseconds(), Workspace: s.jail.workspace.path})
	}
}

// syncWorkspace has the workspace's file system written to its disk. A disk that
// does not answer cannot be given up: what goes on waiting for it is one
// goroutine, however often it is tried.
func (s *Server) syncWorkspace(timeout time.Duration) error {
	late := fmt.Errorf("flush did not finish within %dms; the workspace filesystem may still hold unwritten pages", timeout.Milliseconds())
	ctx, cancel := context.WithTimeout(s.life, timeout)
	defer cancel()
	select {
	case s.flushing <- struct{}{}:
	case <-ctx.Done():
		return late
	}
	dir := s.jail.workspace.reach(s.jail.workspace.path)
	if s.config.FlushCommand != "" {
		defer func() { <-s.flushing }()
		switch err := runCommand(ctx, s.config.FlushCommand, dir, s.config.Environ); {
		case err == errLate:
			return late
		case err != nil:
			return fmt.Errorf("flush %w", err)
		}
		return nil
	}
	synced := make(chan error, 1)
	go func() {
		defer func() { <-s.flushing }()
		synced <- syncFileSystem(dir)
	}()
	select {
	case err := <-synced:
		return err
	case <-ctx.Done():
		return late
	}
}
