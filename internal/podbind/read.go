package podbind

import (
	"context"
	"fmt"

	"github.com/sandlot-go/sandlot/k8s"
)

// A NoPodError reports that no live pod was found behind a Sandbox, or more
// than one.
type NoPodError struct {
	Namespace, Sandbox string
	Problem            string
}

func (e *NoPodError) Error() string {
	return fmt.Sprintf("podbind: could not read a pod uid for Sandbox %s in namespace %s: %s", e.Sandbox, e.Namespace, e.Problem)
}

// Read finds the live pod of a Sandbox: the pod of its name, else the one that
// its selector selects. selector may be empty; the Sandbox is asked for it then.
// A *NoPodError means that there is no such pod now; other errors are the API
// server's, after the retries that reads get.
func Read(ctx context.Context, client *k8s.Client, sandbox, selector string) (Pod, error) {
	fail := func(format string, args ...any) (Pod, error) {
		return Pod{}, noPod(client.Namespace(), sandbox, format, args...)
	}
	o, err := get(ctx, client, k8s.Pods, sandbox)
	switch {
	case err == nil && Live(o) && belongs(o, sandbox):
		return podOf(o), nil
	case err != nil && !k8s.IsNotFound(err):
		return Pod{}, err
	}
	problem := "there is no pod of that name"
	if err == nil {
		problem = notLive(o, sandbox)
	}
	if selector == "" {
		sb, err := get(ctx, client, k8s.Sandboxes, sandbox)
		switch {
		case k8s.IsNotFound(err):
			return fail("%s, and no Sandbox either", problem)
		case err != nil:
			return Pod{}, err
		}
		selector = sb.Text("status", "selector")
	}
	if selector == "" {
		return fail("%s, and the Sandbox has no status.selector", problem)
	}
	list, err := k8s.RetryRead(ctx, k8s.Backoff{}, func(ctx context.Context) (k8s.List, error) {
		return client.List(ctx, k8s.Pods, k8s.ListOptions{LabelSelector: selector})
	})
	if err != nil {
		return Pod{}, err
	}
	var found []Pod
	for _, o := range list.Items {
		if Live(o) && belongs(o, sandbox) {
			found = append(found, podOf(o))
		}
	}
	switch len(found) {
	case 0:
		return fail("%s, and none of the %d that %q selects is live", problem, len(list.Items), selector)
	case 1:
		return found[0], nil
	}
	return fail("%q selects %d live pods, %s and %s among them", selector, len(found), found[0].Name, found[1].Name)
}

// noPod is apart so that it is not in Read five times over.
//
//go:noinline
func noPod(namespace, sandbox, format string, args ...any) error {
	return &NoPodError{Namespace: namespace, Sandbox: sandbox, Problem: fmt.Sprintf(format, args...)}
}

func notLive(pod k8s.Object, sandbox string) string {
	switch {
	case pod.UID() == "":
		return "the pod of that name has no uid"
	case pod.Deleting():
		return "the pod of that name is being deleted"
	case !belongs(pod, sandbox):
		return "the pod of that name belongs to another controller"
	}
	return "the pod of that name has ended in phase " + pod.Text("status", "phase")
}

func get(ctx context.Context, client *k8s.Client, r k8s.Resource, name string) (k8s.Object, error) {
	return k8s.RetryRead(ctx, k8s.Backoff{}, func(ctx context.Context) (k8s.Object, error) {
		return client.Get(ctx, r, name)
	})
}
