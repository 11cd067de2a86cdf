package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandlot-go/sandlot/internal/guest"
)

func main() {
	guest.RunLauncher() // returns unless this process is to become a guest's program
	// A pipe that nobody reads is an error of its writer: what runs elsewhere must
	// be ended before this is. Not ignored, which our own programs would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(interruptible(func(ctx context.Context) int {
		return run(ctx, streams{os.Stdin, os.Stdout, os.Stderr, os.Environ()}, os.Args[1:])
	}))
}

// interruptible runs f with a context that ends at the first SIGINT or SIGTERM.
// A second one kills the process, as if nobody had caught it.
func interruptible(f func(context.Context) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return f(ctx)
}
