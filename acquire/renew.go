package acquire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/lease"
	"github.com/sandlot-go/sandlot/transport"
)

// keep starts the lease from the stamp that was sent.
func (s *Sandbox) keep(sent time.Time) error {
	l, err := lease.Keep(lease.Config{
		Object: s.resource.Kind + " " + s.name,
		TTL:    s.backend.cfg.TTL,
		Sent:   sent,
		Renew: func(ctx context.Context, expiry time.Time) (lease.Renewed, error) {
			return s.patch(ctx, expiry)
		},
		Offset: func() time.Duration {
			offset, _ := s.backend.client.ClockOffset()
			return offset
		},
		OnError: func(err error) {
			if f := s.backend.cfg.OnRenewalError; f != nil {
				f(s.sandbox, err)
			}
		},
	})
	if err != nil {
		return err
	}
	s.lease = l
	s.wg.Go(func() {
		<-l.Done()
		if lost, ok := errors.AsType[*lease.LostError](l.Err()); ok {
			s.lose("its lease is lost", lost)
		}
	})
	return nil
}

// Renew moves the expiry to a TTL from now, as the lease does by itself at half
// of the TTL. A *LostError means that the answer showed the sandbox gone.
func (s *Sandbox) Renew(ctx context.Context) error {
	if err := s.usable("renew the lease"); err != nil {
		return err
	}
	err := s.lease.Renew(ctx)
	if _, ok := errors.AsType[*lease.LostError](err); ok {
		return s.lose("its lease is lost", err)
	}
	return s.explain(err)
}

// patch renews the expiry and reads the answer as the health check it is.
func (s *Sandbox) patch(ctx context.Context, expiry time.Time) (lease.Renewed, error) {
	patch := k8s.Object{"spec": map[string]any{"shutdownTime": podbind.Stamp(expiry)}}
	path := []string{"spec", "shutdownTime"}
	if s.resource.Kind == k8s.SandboxClaims.Kind {
		patch = k8s.Object{"spec": map[string]any{"lifecycle": map[string]any{"shutdownTime": podbind.Stamp(expiry)}}}
		path = []string{"spec", "lifecycle", "shutdownTime"}
	}
	object, err := s.backend.client.MergePatch(ctx, s.resource, s.name, patch)
	if err != nil {
		return lease.Renewed{}, err
	}
	if object.Name() != s.name || object.UID() == "" {
		return lease.Renewed{}, &answerError{s.resource.Kind, s.name, "is not the object that was renewed"}
	}
	if why := s.differs(object); why != "" {
		return lease.Renewed{Lost: &goneError{s.resource.Kind, s.name, why}}, nil
	}
	stored, err := time.Parse(time.RFC3339, object.Text(path...))
	if err != nil {
		return lease.Renewed{}, &answerError{s.resource.Kind, s.name, "stores no expiry"}
	}
	return lease.Renewed{Expiry: stored, Lost: s.replaced(ctx)}, nil
}

// differs says what of an answer shows that the object is no longer the one, or
// no longer bound to the sandbox, that this handle stands for.
func (s *Sandbox) differs(object k8s.Object) string {
	if object.UID() != s.uid {
		return "another object has its name now"
	}
	state := podbind.SandboxState(object)
	if s.resource.Kind == k8s.SandboxClaims.Kind {
		state = podbind.ClaimState(object)
	}
	switch {
	case state.Phase == podbind.Ended || state.Phase == podbind.Failed:
		return "its status says " + state.Reason
	case state.Sandbox != "" && state.Sandbox != s.sandbox:
		return fmt.Sprintf("it is bound to Sandbox %s now", state.Sandbox)
	}
	return ""
}

// replaced looks whether the pod is still the one that was verified. That it
// could not be read proves nothing.
func (s *Sandbox) replaced(ctx context.Context) error {
	pod, err := podbind.Read(ctx, s.backend.client, s.sandbox, "")
	if none, ok := errors.AsType[*podbind.NoPodError](err); ok {
		return none
	}
	if err == nil && pod.UID != s.pod.UID {
		return fmt.Errorf("pod %s was replaced: its uid is %s, it was %s", pod.Name, pod.UID, s.pod.UID)
	}
	return nil
}

// refresh is asked after a guest could not be reached or did not know the
// token. The same pod at another address is followed; another pod is another
// guest, which nobody has probed.
func (s *Sandbox) refresh(ctx context.Context) (transport.Endpoint, error) {
	pod, err := podbind.Read(ctx, s.backend.client, s.sandbox, "")
	if none, ok := errors.AsType[*podbind.NoPodError](err); ok {
		return transport.Endpoint{}, s.lose("its pod is gone", none)
	}
	if err != nil {
		return transport.Endpoint{}, err
	}
	if pod.UID != s.pod.UID {
		return transport.Endpoint{}, s.lose("its pod was replaced by another one", fmt.Errorf("uid %s, it was %s", pod.UID, s.pod.UID))
	}
	e := s.endpoint
	if s.backend.cfg.AgentAddress == ByPodIP && pod.IP != "" {
		e.Host = pod.IP
	}
	return e, nil
}
