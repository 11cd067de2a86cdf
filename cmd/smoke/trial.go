package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/probe"
	"github.com/sandlot-go/sandlot/transport"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// Budgets of the steps of one sandbox. Those of acquire come from the ready
// timeout.
const (
	probeBudget   = 20 * time.Second
	guestBudget   = 30 * time.Second // of what takes no time but that of the way there
	fileBudget    = 2 * time.Minute
	renewBudget   = time.Minute
	releaseBudget = 30 * time.Second
	acquireSlack  = 20 * time.Second // for a create's own clean-up
)

// A trial is one sandbox from its creation to its release.
type trial struct {
	recorder
	backend *acquire.Backend
	client  *k8s.Client
	options options
	ledger  *ledger

	sandbox *acquire.Sandbox
	files   payload
}

// run goes through the steps until one fails. What was acquired is released in
// any case, also when ctx has ended.
func (t *trial) run(ctx context.Context) {
	if !t.do(ctx, stepAcquire, t.options.readyTimeout+probeMost+acquireSlack, t.acquire) {
		return
	}
	_ = t.do(ctx, stepProbe, probeBudget, t.probe) &&
		t.do(ctx, stepHealth, guestBudget, t.health) &&
		t.do(ctx, stepExec, guestBudget, t.exec) &&
		t.do(ctx, stepStream, guestBudget, t.stream) &&
		t.do(ctx, stepAttach, guestBudget, offered(t.attach)) &&
		t.do(ctx, stepTerminal, guestBudget, t.terminal) &&
		t.do(ctx, stepSession, guestBudget, offered(t.session)) &&
		t.do(ctx, stepWrite, fileBudget, t.write) &&
		t.do(ctx, stepRead, fileBudget, t.read) &&
		t.do(ctx, stepTree, fileBudget, t.tree) &&
		t.do(ctx, stepPort, guestBudget, t.port) &&
		t.do(ctx, stepFlush, fileBudget, offered(t.flush)) &&
		t.do(ctx, stepRenew, renewBudget, t.renew) &&
		t.do(ctx, stepQuiesce, guestBudget, offered(t.quiesce)) // ends what the others have left
	t.do(context.WithoutCancel(ctx), stepRelease, releaseBudget, t.release)
}

// report is that of the create, nil if it failed.
func (t *trial) report() *acquire.Report {
	if t.sandbox == nil {
		return nil
	}
	r := t.sandbox.Report()
	return &r
}

func (t *trial) acquire(ctx context.Context) (string, error) {
	sandbox, err := t.backend.Create(k8s.WithTrace(ctx, t.ledger.trace()), acquire.Options{})
	if e, ok := errors.AsType[*acquire.Error](err); ok {
		t.ledger.addError(e)
	}
	if err != nil {
		return "", err
	}
	t.sandbox = sandbox
	r := sandbox.Report()
	t.ledger.addReport(r)
	how := "started from template " + t.options.template
	switch {
	case r.Warm:
		how = "warm, adopted from pool " + t.options.pool
	case t.options.pool != "":
		how = "cold, pool " + t.options.pool + " had none ready"
	}
	return fmt.Sprintf("Sandbox %s, %s; %s", r.Sandbox, how, count(r.Requests, "API request")), nil
}

// health asks the guest how it is and what it offers.
func (t *trial) health(ctx context.Context) (string, error) {
	h, err := t.sandbox.Health(ctx)
	switch {
	case err != nil:
		return "", err
	case h.Retiring:
		return "", wrong("the guest takes no more work: it could not prove that a program had ended")
	case !h.OK:
		return "", wrong("the guest says that it is not well")
	}
	var missing []string
	for _, feature := range knownFeatures {
		if !h.Features.Has(feature) {
			missing = append(missing, feature)
		}
	}
	text := "well; it offers everything that there is"
	if missing != nil {
		text = "well; it does not offer " + strings.Join(missing, ", ")
	}
	if id := t.sandbox.BootID(); id != "" {
		text += "; its boot id is " + printable(id)
	}
	return text, nil
}

var knownFeatures = []string{
	wire.FeatureWriteParts, wire.FeatureAttach, wire.FeatureHeartbeat, wire.FeatureReadStream, wire.FeatureSessions,
	wire.FeatureQuiesce, wire.FeatureFlush, wire.FeatureBootID, wire.FeatureSafeStdin,
}

// probe asks the guest once more what the create has asked already, over the
// handle that an owner gets.
func (t *trial) probe(ctx context.Context) (string, error) {
	status, err := probe.Run(ctx, t.sandbox.Name(), func(ctx context.Context, name string, args ...string) (probe.Output, error) {
		out, err := t.sandbox.Command(ctx, name, args...).Output()
		if exit, ok := errors.AsType[*transport.ExitError](err); ok {
			return probe.Output{Stdout: out, Stderr: exit.Stderr, ExitCode: exit.ExitCode}, nil
		}
		return probe.Output{Stdout: out}, err
	})
	if err != nil {
		return "", err
	}
	return describePrivileges(status), nil
}

// describePrivileges says what an admitted guest has shown.
func describePrivileges(s probe.Status) string {
	text := "no capability in any set"
	switch {
	case s.NoNewPrivs:
		text += ", no_new_privs set"
	case s.Release != "":
		text += ", gVisor " + s.Release
	}
	if s.UID >= 0 {
		text += fmt.Sprintf(", uid %d", s.UID)
	}
	if s.Seccomp >= 0 {
		text += ", seccomp " + []string{"off", "strict", "filter"}[min(s.Seccomp, 2)]
	}
	return text
}

// renew moves the expiry and looks at the API server whether it has moved.
// Stamps are whole seconds, so it waits until a new one can be later.
func (t *trial) renew(ctx context.Context) (string, error) {
	before := t.sandbox.Expiry()
	offset := t.sandbox.Report().ClockOffset
	if err := t.pause(ctx, untilLater(before, t.options.ttl, time.Now().Add(offset))); err != nil {
		return "", err
	}
	if err := t.sandbox.Renew(ctx); err != nil {
		return "", err
	}
	after := t.sandbox.Expiry()
	if !after.After(before) {
		return "", wrong("the renewal was acknowledged, but the expiry stayed at %s", clock(before))
	}
	resource, path := k8s.SandboxClaims, []string{"spec", "lifecycle", "shutdownTime"}
	if t.options.pool == "" {
		resource, path = k8s.Sandboxes, []string{"spec", "shutdownTime"}
	}
	object, err := k8s.RetryRead(ctx, k8s.Backoff{}, func(ctx context.Context) (k8s.Object, error) {
		return t.client.Get(ctx, resource, t.sandbox.Report().Object)
	})
	if err != nil {
		return "", err
	}
	if stored := object.Text(path...); stored != after.UTC().Format(time.RFC3339) {
		return "", wrong("the handle says that the sandbox expires at %s, the API server stores %q", clock(after), stored)
	}
	return fmt.Sprintf("expires at %s now, %v later than before", clock(after), after.Sub(before)), nil
}

// untilLater is how long to wait so that a stamp made then is later than
// before, which is whole seconds.
func untilLater(before time.Time, ttl time.Duration, now time.Time) time.Duration {
	next := before.Truncate(time.Second).Add(time.Second)
	return max(next.Sub(now.Add(ttl))+tickMargin, 0)
}

const tickMargin = 20 * time.Millisecond

func (t *trial) release(ctx context.Context) (string, error) {
	if err := t.sandbox.Release(ctx); err != nil {
		return "", err
	}
	r := t.sandbox.Report()
	return fmt.Sprintf("%s %s is deleted", r.Kind, r.Object), nil
}

// pause waits on something that is none of the step's work.
func (r *recorder) pause(ctx context.Context, d time.Duration) error {
	start := time.Now()
	defer func() { r.idle += time.Since(start) }()
	return wait(ctx, d)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %s", n, plural(what))
}

func plural(what string) string {
	if strings.HasSuffix(what, "x") {
		return what + "es"
	}
	return what + "s"
}
