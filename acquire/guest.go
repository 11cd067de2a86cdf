package acquire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/probe"
	"github.com/sandlot-go/sandlot/transport"
)

// dial makes the handle. It sends nothing: the guest is first spoken to by the
// probe.
func (a *attempt) dial(o Options, pod podbind.Pod, host string) (*Sandbox, error) {
	s := &Sandbox{
		backend: a.b, resource: a.resource, name: a.name, uid: a.uid,
		sandbox: a.state.Sandbox, pod: pod, dir: o.Dir, expiry: a.expiry,
		endpoint: transport.Endpoint{Host: host, Port: a.b.cfg.AgentPort, Token: transport.Secret(pod.UID)},
		done:     make(chan struct{}),
	}
	var err error
	if s.narrower, err = a.narrower(); err != nil {
		return nil, err
	}
	agent, err := transport.New(transport.Config{
		Host:        host,
		Port:        a.b.cfg.AgentPort,
		Token:       s.endpoint.Token,
		DialContext: a.b.cfg.DialContext,
		Heartbeat:   a.b.cfg.Heartbeat,
		Restarted:   s.restarted,
		Refresh:     s.refresh,
	})
	if err != nil {
		return nil, err
	}
	s.agent, a.agent = agent, agent
	a.report.Address = net.JoinHostPort(host, strconv.Itoa(a.b.cfg.AgentPort))
	return s, nil
}

// probe asks the guest whether it is deprivileged, before anybody holds it. It
// has a clock of its own: a guest that accepts and never answers must not hold
// a create for as long as a command may run.
func (a *attempt) probe(s *Sandbox) error {
	a.enter(StageProbe)
	ctx, cancel := context.WithTimeout(a.caller, a.b.cfg.probeTimeout())
	defer cancel()
	// The confirmation of an end takes longer than a create may wait for it.
	defer context.AfterFunc(ctx, func() { s.agent.Abort(context.Cause(ctx)) })()
	status, err := probe.Run(ctx, s.sandbox, func(ctx context.Context, name string, args ...string) (probe.Output, error) {
		cmd := s.agent.Command(ctx, name, args...)
		cmd.Timeout = a.b.cfg.probeTimeout()
		cmd.MaxOutput = maxProbeOutput
		out, err := cmd.Output()
		if exit, ok := errors.AsType[*transport.ExitError](err); ok {
			return probe.Output{Stdout: out, Stderr: exit.Stderr, ExitCode: exit.ExitCode}, nil
		}
		return probe.Output{Stdout: out}, err
	})
	a.report.Privileges = status
	return err
}

const maxProbeOutput = 256 << 10

// handOver starts the lease and lets go of the sandbox.
func (a *attempt) handOver(s *Sandbox) (*Sandbox, error) {
	if a.caller.Err() != nil {
		return nil, context.Cause(a.caller)
	}
	a.enter("")
	r := &a.report
	r.Requests, r.Retries = a.counter.totals()
	r.Kind, r.Object, r.ObjectUID, r.Namespace = a.resource.Kind, a.name, a.uid, a.b.client.Namespace()
	r.Sandbox, r.Pod, r.PodUID = a.state.Sandbox, s.pod.Name, s.pod.UID
	r.Warm = a.b.cfg.Pool != "" && a.state.Sandbox != a.name
	r.ClockOffset, _ = a.b.client.ClockOffset()
	s.report = *r
	if err := s.keep(a.expiry); err != nil {
		return nil, fmt.Errorf("acquire: the lease could not be started: %w", err)
	}
	a.b.hold(s)
	return s, nil
}
