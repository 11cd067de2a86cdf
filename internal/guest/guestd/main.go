// Command guestd is the guest agent: what a sandbox's image runs so that hosts
// can run programs and move files in it. It is configured by environment
// variables, the NAMZU_SANDBOX_* and NAMZU_AGENT_* of docs/protocol.md, with
// NAMZU_AGENT_ADDR for the address to listen on and NAMZU_AGENT_TCP_PORT for the
// port. SIGTERM ends its programs and then itself.
//
// It can be PID 1: it reaps what its programs leave behind.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

func main() {
	os.Exit(run(os.Environ(), os.Stderr))
}

// run serves until SIGTERM and returns the exit code.
func run(environ []string, log io.Writer) int {
	terminate := make(chan os.Signal, 8)
	signal.Notify(terminate, terminationSignal)
	catchSignals()
	config, address, err := guest.ConfigFromEnv(environ)
	if err != nil {
		return refuse(log, err)
	}
	config.Log = slog.New(slog.NewTextHandler(log, nil))
	// All that is in the PID namespace of a PID 1 is the guest's.
	config.QuiesceEverything = os.Getpid() == 1 && os.Getenv("NAMZU_AGENT_QUIESCE_SCOPE") != wire.ScopeOwned
	deadline := config.ShutdownDeadline
	if deadline == 0 {
		deadline = defaultDeadline
	}
	server, err := guest.New(config)
	if err != nil {
		return refuse(log, err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return refuse(log, errors.Join(err, server.Close()))
	}
	reaping, stop := context.WithCancel(context.Background())
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		guest.ReapOrphans(reaping)
	}()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	config.Log.Info("guestd: serving", "address", listener.Addr().String(), "workspace", config.Workspace)
	code := wait(server, served, terminate, deadline, config.Log)
	stop()
	<-reaped
	return code
}

// defaultDeadline is that of guest.Config.ShutdownDeadline.
const defaultDeadline = 15 * time.Second

// wait waits for the end, which comes by SIGTERM, and sees to it that it does
// not take longer than the deadline.
func wait(server *guest.Server, served <-chan error, terminate <-chan os.Signal, deadline time.Duration, log *slog.Logger) int {
	select {
	case err := <-served:
		log.Error("guestd: cannot accept connections any more", "error", err)
		server.Close()
		return 1
	case <-terminate:
	}
	// What has not ended a little before the deadline is killed.
	ctx, cancel := context.WithTimeout(context.Background(), deadline-min(deadline/10, time.Second))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Shutdown(ctx) }()
	watchdog := time.After(deadline)
	for {
		select {
		case err := <-ended:
			if err != nil {
				log.Error("guestd: not everything has ended", "error", err)
			}
			return 0
		case <-watchdog:
			log.Error("guestd: not everything has ended, exiting anyway", "deadline", deadline)
			return 0
		case <-terminate:
			log.Warn("guestd: already stopping", "deadline", deadline)
		}
	}
}

// refuse says why the guest does not start.
func refuse(log io.Writer, err error) int {
	fmt.Fprintln(log, "guestd: not started:", err)
	return 1
}
