package acquire

import (
	"context"
	"fmt"

	"github.com/sandlot-go/sandlot/internal/podbind"
	"github.com/sandlot-go/sandlot/k8s"
)

// post creates the object. A POST is repeated only when it certainly had no
// effect: the server said so, nothing was written, or the object is not there
// afterwards. The name is ours and unique, so looking for it is safe.
func (a *attempt) post(body k8s.Object) (k8s.Object, error) {
	a.enter(StagePost)
	for n := 1; ; n++ {
		if err := a.ctx.Err(); err != nil {
			return nil, context.Cause(a.ctx) // before anything is sent: nothing to clean up
		}
		a.started = true
		object, err := a.b.client.Create(a.ctx, a.resource, body)
		if err == nil {
			err = a.ours(object, body)
		}
		if err == nil {
			return object, nil
		}
		if a.ctx.Err() != nil {
			a.ambiguous = true
			return nil, context.Cause(a.ctx)
		}
		switch afterPost(err, a.ambiguous) {
		case postFatal:
			return nil, err
		case postAgain:
		case postLook:
			a.ambiguous = true
			found, lookErr := a.get(a.resource, a.name)
			switch {
			case lookErr == nil:
				if err := a.ours(found, body); err != nil {
					return nil, err
				}
				a.ambiguous = false
				return found, nil
			case !k8s.IsNotFound(lookErr):
				return nil, fmt.Errorf("%w; looking for the object afterwards failed too: %w", err, lookErr)
			}
		}
		if err := a.retry(n, err); err != nil {
			return nil, err
		}
	}
}

// ours checks that an answer shows the object that was posted, and remembers
// its uid. An object of our name and another's making is never touched.
func (a *attempt) ours(object, body k8s.Object) error {
	if object.Name() != a.name || object.UID() == "" || object.Map("spec") == nil {
		return &answerError{a.resource.Kind, a.name, "is not the object that was asked for"}
	}
	pool, want := object.Text("spec", "warmPoolRef", "name"), body.Text("spec", "warmPoolRef", "name")
	if object.Kind() != a.resource.Kind || pool != want {
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
