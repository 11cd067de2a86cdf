package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

const sttyTimeout = 5 * time.Second

// ownTerminal returns standard input if it is a terminal.
func ownTerminal(stdin io.Reader) (*os.File, bool) {
	f, ok := stdin.(*os.File)
	if !ok {
		return nil, false
	}
	info, err := f.Stat()
	return f, err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

// stty runs stty(1) on a terminal, which every system with terminals has.
func stty(ctx context.Context, terminal *os.File, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sttyTimeout, fmt.Errorf("stty has not answered in %v", sttyTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, "stty", args...)
	cmd.Stdin = terminal
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// makeRaw has our own terminal pass on every key as it is, until restore or the
// end of ctx: who has asked for that may not wait for the rest. What is no
// terminal is left alone.
func makeRaw(ctx context.Context, stdin io.Reader) (raw bool, restore func(), err error) {
	terminal, ok := ownTerminal(stdin)
	if !ok {
		return false, func() {}, nil
	}
	saved, err := stty(ctx, terminal, "-g")
	if err != nil {
		return false, func() {}, nil // a character device, and no terminal
	}
	if _, err := stty(ctx, terminal, "raw", "-echo"); err != nil {
		return false, nil, fmt.Errorf("the terminal cannot be made raw: %w", err)
	}
	once := sync.OnceFunc(func() { stty(context.WithoutCancel(ctx), terminal, saved) })
	stop := context.AfterFunc(ctx, once)
	return true, func() {
		stop()
		once()
	}, nil
}

// terminalSize is that of our own terminal; 0 by 0 if there is none.
func terminalSize(ctx context.Context, stdin io.Reader) (cols, rows int) {
	terminal, ok := ownTerminal(stdin)
	if !ok {
		return 0, 0
	}
	size, err := stty(ctx, terminal, "size")
	if n, _ := fmt.Sscan(size, &rows, &cols); err != nil || n != 2 || rows < 1 || cols < 1 {
		return 0, 0
	}
	return cols, rows
}

// followSize keeps the guest's terminal, which has the given size, as large as
// our own until ctx ends.
func followSize(ctx context.Context, stdin io.Reader, guest *transport.Terminal, cols, rows int) {
	changes, stop := sizeChanges()
	defer stop()
	for {
		// The first look is for a change before there was somebody to tell.
		if c, r := terminalSize(ctx, stdin); c > 0 && (c != cols || r != rows) {
			if guest.Resize(c, r) != nil {
				return // it has ended
			}
			cols, rows = c, r
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return
		}
	}
}
