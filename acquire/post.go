package acquire

import (
	"context"
	"fmt"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
)

// strangePosts is how often a POST is repeated whose answer no API server would
// have given. The object was looked for in between, so it is safe; it is hardly
// useful.
const strangePosts = 2

// post creates the object. A POST is repeated only when it certainly had no
// effect: the server said so, nothing was written, or the object is not there
// afterwards. The name is ours and unique, so looking for it is safe.
func (a *attempt) post(body k8s.Object) (k8s.Object, error) {
	a.enter(StagePost)
	var last error
	for n, strange := 0, 0; ; n++ {
		if a.ctx.Err() != nil { // before anything is sent: nothing to clean up
			return nil, a.timedOut("it was not created", context.Cause(a.ctx), last)
		}
		object, err := a.b.client.Create(a.ctx, a.resource, body)
		a.started = a.started || !notApplied(err)
		if err == nil {
			err = a.ours(object, body)
		}
		if err == nil {
			return object, nil
		}
		if a.ctx.Err() != nil {
			a.ambiguous = true
			return nil, a.timedOut("its creation was not confirmed", context.Cause(a.ctx), last)
		}
		last = err
		switch afterPost(err) {
		case postFatal:
			return nil, err
		case postLook:
			found, lookErr := a.lookFor(body)
			if lookErr == nil {
				return found, nil
			}
			if !k8s.IsNotFound(lookErr) {
				return nil, lookErr
			}
		}
		if !k8s.SafeToRetry(err) {
			if strange++; strange > strangePosts {
				return nil, err
			}
		}
		wait, again := k8s.Backoff{}.Wait(n, err, a.remaining())
		if !again {
			return nil, err
		}
		if err := a.sleep(wait); err != nil {
			return nil, a.timedOut("it was not created", err, last)
		}
	}
}

// lookFor reads the object after a POST whose effect is not known.
func (a *attempt) lookFor(body k8s.Object) (k8s.Object, error) {
	a.ambiguous = true
	found, err := a.get(a.resource, a.name)
	if err != nil {
		return nil, err
	}
	if err := a.ours(found, body); err != nil {
		return nil, err
	}
	a.ambiguous = false
	return found, nil
}

// ours checks that an answer shows the object that was posted, and remembers
// its uid. An object of our name and another's making is never touched.
func (a *attempt) ours(object, body k8s.Object) error {
	if object.Name() != a.name || object.UID() == "" || object.Map("spec") == nil {
		return &answerError{a.resource.Kind, a.name, "is not the object that was asked for"}
	}
	pool, want := object.Text("spec", "warmPoolRef", "name"), body.Text("spec", "warmPoolRef", "name")
	if object.Text("kind") != a.resource.Kind || pool != want {
		a.started = false
		return &foreignError{a.resource.Kind, a.name}
	}
	a.uid = object.UID()
	return nil
}

// An answerError is a success whose body does not fit the question.
type answerError struct{ kind, name, problem string }

func (e *answerError) Error() string {
	return fmt.Sprintf("the API server's answer for %s %s %s", e.kind, e.name, e.problem)
}

// A foreignError is an object of our name that somebody else made.
type foreignError struct{ kind, name string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("a %s named %s exists and is not ours; it was left alone", e.kind, e.name)
}

// sameObject checks that a read shows the object this attempt created.
func (a *attempt) sameObject(o k8s.Object) error {
	switch {
	case o.Name() != a.name || o.UID() == "":
		return &answerError{a.resource.Kind, a.name, "is not the object that was asked for"}
	case o.UID() != a.uid:
		return &goneError{a.resource.Kind, a.name, "another object has its name now"}
	}
	return nil
}

// A goneError is an object that disappeared, or is about to, behind our back.
type goneError struct{ kind, name, how string }

func (e *goneError) Error() string { return fmt.Sprintf("%s %s is gone: %s", e.kind, e.name, e.how) }

func (a *attempt) read(o k8s.Object) podbind.State {
	if a.resource.Kind == k8s.SandboxClaims.Kind {
		return podbind.ClaimState(o)
	}
	return podbind.SandboxState(o)
}
