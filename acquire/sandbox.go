package acquire

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/lease"
	"github.com/sandlot-go/sandlot/policy"
	"github.com/sandlot-go/sandlot/transport"
)

// A Sandbox is held by one owner until Release. It is bound to one pod: when
// that pod, its Sandbox or its claim is replaced, the Sandbox is lost and every
// operation says so; none ever reaches another guest. It is safe for concurrent
// use.
type Sandbox struct {
	backend  *Backend
	resource k8s.Resource
	name     string // of the claim, or of the Sandbox created directly
	uid      string
	sandbox  string
	pod      podbind.Pod
	dir      string
	expiry   time.Time
	agent    *transport.Agent
	endpoint transport.Endpoint
	narrower policy.Narrower // nil unless configured
	lease    *lease.Lease
	report   Report

	mu       sync.Mutex
	ended    error         // *LostError or *ReleasedError once ended
	done     chan struct{} // closed when ended is set
	release  chan struct{} // of the release in flight, closed at its end
	released bool          // the object is deleted
	lastErr  error         // of the last release
	wg       sync.WaitGroup
}

// Name is the name of the Sandbox in the cluster; its pod has the same.
func (s *Sandbox) Name() string { return s.sandbox }

// Report says how the sandbox came to be.
func (s *Sandbox) Report() Report { return s.report }

// Expiry is when the sandbox ends unless its lease is renewed, by the API
// server's clock.
func (s *Sandbox) Expiry() time.Time { return s.lease.Expiry() }

// Done is closed when the sandbox can no longer be used: it was released or
// lost.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Err is nil while the sandbox can be used, then a *LostError or a
// *ReleasedError.
func (s *Sandbox) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// A Status is one word for the state of a Sandbox.
type Status string

// The statuses.
const (
	StatusReady    Status = "ready"
	StatusBusy     Status = "busy" // a command runs
	StatusLost     Status = "lost"
	StatusReleased Status = "released"
)

// Status is what the sandbox is doing now.
func (s *Sandbox) Status() Status {
	err := s.Err()
	if _, ok := errors.AsType[*LostError](err); ok {
		return StatusLost
	}
	if err != nil {
		return StatusReleased
	}
	if s.agent.Running() > 0 {
		return StatusBusy
	}
	return StatusReady
}

// Command returns a command that runs name with args in the sandbox, like
// exec.CommandContext. There is no shell. When ctx ends the program is ended.
func (s *Sandbox) Command(ctx context.Context, name string, args ...string) *transport.Cmd {
	cmd := s.agent.Command(ctx, name, args...)
	cmd.Dir = s.dir
	if err := s.usable("run a command"); err != nil {
		cmd.Err = err
	}
	return cmd
}

// Health asks the guest agent how it is.
func (s *Sandbox) Health(ctx context.Context) (transport.Health, error) {
	return during(s, "ask the guest", func() (transport.Health, error) { return s.agent.Health(ctx) })
}

// Features asks the guest agent what it can do, once.
func (s *Sandbox) Features(ctx context.Context) (transport.Features, error) {
	return during(s, "ask the guest", func() (transport.Features, error) { return s.agent.Features(ctx) })
}

// BootID is that of the guest agent's process, which changes when it is
// restarted; empty if the guest tells none. See Config.OnGuestRestart.
func (s *Sandbox) BootID() string { return s.agent.BootID() }

func (s *Sandbox) restarted(before, after string) {
	if told := s.backend.cfg.OnGuestRestart; told != nil {
		told(s.sandbox, before, after)
	}
}

// Quiesce ends everything that runs in the sandbox, which stays usable; see
// transport.Agent.Quiesce.
func (s *Sandbox) Quiesce(ctx context.Context, grace time.Duration) (transport.Quiescence, error) {
	return during(s, "end what runs", func() (transport.Quiescence, error) { return s.agent.Quiesce(ctx, grace) })
}

// during refuses an operation on a sandbox that has ended, and puts the end
// before the failure of one that it caused.
func during[T any](s *Sandbox, operation string, do func() (T, error)) (T, error) {
	if err := s.usable(operation); err != nil {
		var none T
		return none, err
	}
	result, err := do()
	return result, s.explain(err)
}

// usable refuses an operation on a sandbox that has ended.
func (s *Sandbox) usable(operation string) error {
	switch err := s.Err().(type) {
	case *LostError:
		lost := *err
		lost.Operation = operation
		return &lost
	case *ReleasedError:
		return &ReleasedError{Operation: operation, Sandbox: s.sandbox}
	}
	return nil
}

// explain puts the end of the sandbox before the failure of an operation that
// it caused.
func (s *Sandbox) explain(err error) error {
	if err == nil {
		return nil
	}
	if end := s.Err(); end != nil && !errors.Is(err, end) {
		return errors.Join(end, err)
	}
	return err
}

// end makes the sandbox unusable, once; the first cause stays. It reports
// whether it was the first.
func (s *Sandbox) end(cause error) bool {
	s.mu.Lock()
	first := s.ended == nil
	if first {
		s.ended = cause
		close(s.done)
	}
	s.mu.Unlock()
	return first
}

// lose declares the sandbox lost and ends what runs on it. The object is not
// deleted: if it still exists it is the owner's to release.
func (s *Sandbox) lose(why string, err error) *LostError {
	lost := &LostError{Sandbox: s.sandbox, Why: why, Err: err}
	if s.end(lost) {
		s.agent.Abort(lost)
	}
	return lost
}

// Release gives the sandbox back: it ends the lease and everything that runs,
// and deletes the claim, or the Sandbox that was created directly. It returns
// when the API server has taken the deletion; the pod ends at its own pace. A
// context that has ended leaves it a second for that, and none more than 30.
//
// When the deletion fails, the error says why, the Backend goes on trying, and
// Release may be called again. After a success further calls do nothing.
func (s *Sandbox) Release(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.released {
			s.mu.Unlock()
			return nil
		}
		if s.release == nil {
			s.release = make(chan struct{})
			s.mu.Unlock()
			return s.delete(ctx)
		}
		other := s.release
		s.mu.Unlock()
		select {
		case <-other: // if it failed, this call tries for itself
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

const releaseTimeout = 30 * time.Second

var errReleaseTimeout = errors.New("acquire: it was not deleted within 30s")

func (s *Sandbox) delete(ctx context.Context) error {
	s.end(&ReleasedError{Operation: "work", Sandbox: s.sandbox})
	s.lease.Stop()
	s.wg.Wait()
	s.agent.Close()
	s.closeNarrower()
	ctx, cancel := graced(ctx, cleanupGrace)
	defer cancel()
	ctx, cancelTimeout := context.WithTimeoutCause(ctx, releaseTimeout, errReleaseTimeout)
	defer cancelTimeout()
	o := orphan{resource: s.resource, name: s.name, uid: s.uid, until: s.lease.Expiry()}
	_, err := k8s.RetryRead(ctx, k8s.Backoff{}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, o.delete(ctx, s.backend.client) // deleting by uid is idempotent
	})
	if err != nil {
		s.backend.reaper.add(o, err)
	} else {
		s.backend.forget(s)
	}
	s.mu.Lock()
	s.released, s.lastErr = err == nil, err
	close(s.release)
	s.release = nil
	s.mu.Unlock()
	return err
}

// abandon ends the lease and all that runs without deleting anything: the
// sandbox is left to its expiry.
func (s *Sandbox) abandon() {
	if s.end(&LostError{Sandbox: s.sandbox, Why: "its backend was closed; it ends with its lease", Err: ErrClosed}) {
		s.agent.Abort(ErrClosed)
	}
	s.lease.Stop()
	s.wg.Wait()
	s.agent.Close()
	s.closeNarrower()
	s.backend.forget(s)
}

func (s *Sandbox) closeNarrower() {
	if s.narrower != nil {
		s.narrower.Close()
	}
}
