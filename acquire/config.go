package acquire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// The address modes: where the guest of a sandbox is dialled.
const (
	// ByService dials the Service of the Sandbox by the name in the claim's
	// status, or the first pod address in the status where it has no name. The
	// name is resolved at every dial.
	ByService = podbind.ByService
	// ByPodIP dials the address of the pod whose uid was read.
	ByPodIP = podbind.ByPodIP
)

// AddressMode is ByService or ByPodIP.
type AddressMode = podbind.AddressMode

// Defaults and limits of Config.
const (
	DefaultAgentPort    = 1024
	DefaultReadyTimeout = time.Minute
	DefaultPollInterval = 50 * time.Millisecond
	DefaultTTL          = time.Hour
	MaxTTL              = 7 * 24 * time.Hour
	DefaultHeartbeat    = 15 * time.Second

	maxProbeTimeout = 15 * time.Second
	cleanupGrace    = time.Second // for what is to be deleted when the caller's time is up
	diagnosisGrace  = time.Second // for the look at a pod that did not become ready
	ttlMargin       = 5 * time.Second
)

// A Config says what sandboxes a Backend creates. It is copied by New.
type Config struct {
	// Template is the SandboxTemplate, required. With a Pool it is not read, but
	// it is the value of the label by which network policies select the pods.
	Template string

	// Pool is the SandboxWarmPool that claims are made on. Empty: no claim, a
	// Sandbox is created directly as a copy of the template.
	Pool string

	// RuntimeClass replaces the template's runtimeClassName. It cannot go with a
	// Pool, whose pods run already.
	RuntimeClass string

	AgentPort    int           // where the guest listens; 0 means 1024
	AgentAddress AddressMode   // "" means ByService
	ReadyTimeout time.Duration // for everything from the first request to the verified pod; 0 means 1 min
	PollInterval time.Duration // the longest pause between two looks at a claim; 0 means 50 ms

	// TTL is how long a sandbox outlives a host that no longer renews it. 0 means
	// 1 h. It must leave room for the ready timeout, the probe and a margin of
	// 5 s, or a sandbox could expire while it is being created; 7 days at most.
	TTL time.Duration

	// ClaimLabels are labels of the claim itself, for ReleaseSelected; not of the
	// pod, and without effect on a Sandbox created directly.
	ClaimLabels map[string]string

	// PodLabels are labels that the pod must carry before anybody holds it. The
	// controller takes them only from the domains that its ConfigMap
	// agent-sandbox-config allows, sandbox.users.io by default.
	PodLabels map[string]string

	// Egress says what may leave the pod: a *policy.Egress. A sandbox is handed
	// over only if the network policies that select its pod let out nothing more.
	// Nil asks for no egress boundary, and none is verified.
	Egress policy.Boundary

	// Ingress says how the guest's port is verified to be closed to all but the
	// peers that a policy names. Zero verifies it.
	Ingress policy.Ingress

	// PolicyMaxAge is how long it is remembered that the policies of pods like this
	// one were found right, counted from when they were read. 0 means 5 min.
	PolicyMaxAge time.Duration

	// Watch waits for a claim with a watch instead of polling, where the account
	// may watch; a slow poll runs beside it.
	Watch bool

	// Heartbeat is how often terminals, attached sessions and connections to ports
	// say that they are there; a guest that is silent for three times as long is
	// given up. 0 means 15 s, less is never.
	Heartbeat time.Duration

	// DialContext reaches guests; nil is a net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// OnRenewalError is told of each renewal that failed and will be repeated.
	// It is called from a goroutine of the sandbox's own and must not call Release.
	OnRenewalError func(sandbox string, err error)

	// OnGuestRestart is told of a guest that is another process than before, by
	// their boot ids: the pod's container was restarted, and what ran in it is
	// gone, as is what its image does not keep on a volume. The sandbox stays
	// usable. It is called by the operation that has noticed.
	OnGuestRestart func(sandbox, before, after string)

	// OnLeak is told of each object whose deletion failed, and again of how that
	// ended. It is called from a goroutine of the Backend's own.
	OnLeak func(Leak)
}

func (c Config) withDefaults() Config {
	if c.AgentPort == 0 {
		c.AgentPort = DefaultAgentPort
	}
	if c.AgentAddress == "" {
		c.AgentAddress = ByService
	}
	if c.ReadyTimeout == 0 {
		c.ReadyTimeout = DefaultReadyTimeout
	}
	if c.PollInterval == 0 {
		c.PollInterval = DefaultPollInterval
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	c.Heartbeat = max(c.Heartbeat, 0)
	c.ClaimLabels = maps.Clone(c.ClaimLabels)
	c.PodLabels = maps.Clone(c.PodLabels)
	return c
}

func (c Config) probeTimeout() time.Duration { return min(c.ReadyTimeout, maxProbeTimeout) }

// check refuses all that needs no cluster to be refused, all at once. c has its
// defaults.
func (c Config) check() error {
	var r refusals
	refuse := r.add
	for _, f := range []struct{ field, name string }{{"Template", c.Template}, {"Pool", c.Pool}, {"RuntimeClass", c.RuntimeClass}} {
		if err := k8s.CheckName(f.name); f.name != "" && err != nil {
			refuse("Config.%s: %w", f.field, err)
		}
	}
	if c.Template == "" {
		refuse("Config.Template is empty")
	}
	if err := k8s.CheckLabelValue(c.Template); err != nil {
		refuse("Config.Template becomes the value of the label %s: %w", podbind.TemplateLabel, err)
	}
	if c.RuntimeClass != "" && c.Pool != "" {
		refuse("Config.RuntimeClass %q cannot be set together with Config.Pool %q, whose pods run already: set runtimeClassName in the SandboxTemplate's podTemplate", c.RuntimeClass, c.Pool)
	}
	if c.AgentPort < 1 || c.AgentPort > 65535 {
		refuse("Config.AgentPort is %d, want 1 to 65535", c.AgentPort)
	}
	if c.AgentAddress != ByService && c.AgentAddress != ByPodIP {
		refuse("Config.AgentAddress is %q, want %q or %q", c.AgentAddress, ByService, ByPodIP)
	}
	if c.ReadyTimeout < time.Millisecond {
		refuse("Config.ReadyTimeout is %v, want at least 1ms", c.ReadyTimeout)
	}
	if c.PollInterval < time.Millisecond {
		refuse("Config.PollInterval is %v, want at least 1ms", c.PollInterval)
	}
	switch least := c.ReadyTimeout + c.probeTimeout() + ttlMargin; {
	case c.TTL < least:
		refuse("Config.TTL is %v; with a ReadyTimeout of %v it must be at least %v, or a sandbox could expire while it is created", c.TTL, c.ReadyTimeout, least)
	case c.TTL > MaxTTL:
		refuse("Config.TTL is %v, at most %v", c.TTL, MaxTTL)
	}
	for field, labels := range map[string]map[string]string{"ClaimLabels": c.ClaimLabels, "PodLabels": c.PodLabels} {
		for key, value := range labels {
			if err := k8s.CheckLabel(key, value); err != nil {
				refuse("Config.%s: %w", field, err)
			}
		}
	}
	if _, taken := c.PodLabels[podbind.TemplateLabel]; taken {
		refuse("Config.PodLabels cannot set %s, which names the template", podbind.TemplateLabel)
	}
	return errors.Join(r...)
}

// refusals collects what is wrong with a configuration.
type refusals []error

func (r *refusals) add(format string, args ...any) {
	*r = append(*r, fmt.Errorf("acquire: "+format, args...))
}
