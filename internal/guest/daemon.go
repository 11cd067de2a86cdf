package guest

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

	"github.com/sandlot-go/sandlot/transport/wire"
)

// hookTimeout bounds a reseed hook. The guest serves without it if need be.
const hookTimeout = 10 * time.Second

// A daemon is a guest that has the process to itself.
type daemon struct {
	config   Config
	hook     string // of the operator's, run before each listening; "" for none
	server   *Server
	listener net.Listener
	served   chan error // of the listener
}

// Main is all of a process that is a guest: its environment configures it, it
// reaps what its programs leave behind, serves until SIGTERM and returns the exit
// code.
func Main(environ []string, log io.Writer) int {
	terminate, reseed := make(chan os.Signal, 8), make(chan os.Signal, 1)
	signal.Notify(terminate, terminationSignal)
	notifyReseed(reseed)
	takeSignals()
	keepInherited()
	config, address, err := ConfigFromEnv(environ)
	if err != nil {
		return refuse(log, err)
	}
	config.Log = slog.New(slog.NewTextHandler(log, nil))
	scope, _ := lookup(environ, "NAMZU_AGENT_QUIESCE_SCOPE")
	config.QuiesceEverything = scope != wire.ScopeOwned && inCharge()
	orDefault(&config.ShutdownDeadline, defaultShutdownDeadline)
	d := &daemon{config: config}
	d.hook, _ = lookup(environ, "NAMZU_AGENT_RESEED_HOOK")
	if d.server, err = New(config); err != nil {
		return refuse(log, err)
	}
	reaping, stop := context.WithCancel(context.Background())
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		ReapOrphans(reaping)
	}()
	defer func() {
		stop()
		<-reaped
	}()
	d.runHook()
	if err := d.listen(address); err != nil {
		return refuse(log, errors.Join(err, d.server.Close()))
	}
	for {
		select {
		case err := <-d.served:
			config.Log.Error("guestd: cannot accept connections any more", "error", err)
			d.server.Close()
			return 1
		case <-reseed:
			if err := d.reseed(); err != nil {
				config.Log.Error("guestd: cannot listen again", "error", err)
				d.server.Close()
				return 1
			}
		case <-terminate:
			d.shutDown(terminate)
			return 0
		}
	}
}

// listen begins to serve.
func (d *daemon) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(listener) }()
	d.listener, d.served = listener, served
	d.config.Log.Info("guestd: serving", "address", listener.Addr().String(), "workspace", d.config.Workspace)
	return nil
}

// reseed runs the hook and listens anew, on the same port: the machine may be
// another since then, of which this one was the snapshot. Connections that are
// open stay.
func (d *daemon) reseed() error {
	d.runHook()
	d.listener.Close()
	<-d.served
	return d.listen(d.listener.Addr().String())
}

func (d *daemon) runHook() {
	if d.hook == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hookTimeout)
	defer cancel()
	if err := runCommand(ctx, d.hook, d.config.Workspace, d.config.Environ); err != nil {
		d.config.Log.Error("guestd: the reseed hook failed", "error", err)
	}
}

// shutDown ends the server, and sees to it that it does not take longer than the
// deadline.
func (d *daemon) shutDown(terminate <-chan os.Signal) {
	deadline, log := d.config.ShutdownDeadline, d.config.Log
	// What has not ended a little before the deadline is killed.
	ctx, cancel := context.WithTimeout(context.Background(), deadline-min(deadline/10, time.Second))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.server.Shutdown(ctx) }()
	watchdog := time.After(deadline)
	for {
		select {
		case err := <-ended:
			if err != nil {
				log.Error("guestd: not everything has ended", "error", err)
			}
			return
		case <-watchdog:
			log.Error("guestd: not everything has ended, exiting anyway", "deadline", deadline)
			return
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
