package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// reading is one thing that is read from a cluster beside the others.
type reading struct {
	resource k8s.Resource
	name     string // "": the whole collection
	required bool   // nothing can be said without it

	objects []k8s.Object
	err     error
}

// readCluster reads the pod and everything that may be a policy for it. A
// collection that is not served, or that the account may not list, is said to be
// unread; any other failure fails the whole.
func (o *explainOptions) readCluster(ctx context.Context, s streams) (evidence, error) {
	c, err := o.target.open(ctx, s, o.namespace)
	if err != nil {
		return evidence{}, err
	}
	defer c.close()
	var warnings notes
	c.config.Warning = func(w k8s.Warning) { warnings.add("the API server warns: " + w.Text) }
	client, err := k8s.New(c.config)
	if err != nil {
		return evidence{}, err
	}
	defer client.CloseIdleConnections()

	var e evidence
	if o.pod != "" {
		pod, err := readObject(ctx, client, k8s.Pods, o.pod)
		if err != nil {
			return evidence{}, podError(err, client.Namespace(), o.pod)
		}
		if err := e.setPod(pod, o.labels); err != nil {
			return evidence{}, err
		}
	} else if err := e.setPod(nil, o.labels); err != nil {
		return evidence{}, err
	}
	e.pod.Namespace = client.Namespace()

	readings := o.readings(client.Namespace())
	var wg sync.WaitGroup
	for _, r := range readings {
		wg.Go(func() { r.read(ctx, client) })
	}
	wg.Wait()
	for _, r := range readings {
		switch why := r.unread(); {
		case r.err != nil && why == "":
			return evidence{}, clusterError(r.err)
		case why != "" && r.resource == k8s.Namespaces:
			e.notes = append(e.notes, "the account may not read the namespace: of its labels only the name is known")
		case why != "":
			e.unread = append(e.unread, r.missing(client.Namespace(), why))
		case r.resource == k8s.Namespaces:
			e.pod.NamespaceLabels = labelsOf(r.objects[0])
		default:
			e.policies = append(e.policies, withKind(r.objects, r.resource)...)
		}
	}
	e.notes = append(e.notes, warnings.all()...)
	return e, nil
}

// readings are what there is to read. With engine core Cilium's policies are
// read to say that they are there.
func (o *explainOptions) readings(namespace string) []*reading {
	cilium := o.engine == policy.Cilium
	list := []*reading{
		{resource: k8s.NetworkPolicies, required: true},
		{resource: k8s.CiliumNetworkPolicies, required: cilium},
		{resource: policy.AdminNetworkPolicies},
		{resource: policy.BaselineAdminNetworkPolicies},
		{resource: k8s.Namespaces, name: namespace},
	}
	if cilium {
		list = append(list, &reading{resource: k8s.CiliumClusterwideNetworkPolicies})
	}
	return list
}

func (r *reading) read(ctx context.Context, client *k8s.Client) {
	if r.name != "" {
		var o k8s.Object
		o, r.err = readObject(ctx, client, r.resource, r.name)
		r.objects = []k8s.Object{o}
		return
	}
	r.objects, r.err = thrice(ctx, func() ([]k8s.Object, error) {
		l, err := client.List(ctx, r.resource, k8s.ListOptions{})
		return l.Items, err
	})
}

func readObject(ctx context.Context, client *k8s.Client, r k8s.Resource, name string) (k8s.Object, error) {
	return thrice(ctx, func() (k8s.Object, error) { return client.Get(ctx, r, name) })
}

const (
	explainTries = 3 // a person waits for the answer and can ask again
	explainPause = 200 * time.Millisecond
)

// thrice repeats a read that may go well the next time.
func thrice[T any](ctx context.Context, read func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := read()
		if err == nil || try == explainTries || !k8s.SafeToRetry(err) {
			return v, err
		}
		pause := explainPause
		if e, ok := errors.AsType[*k8s.APIError](err); ok {
			pause = max(pause, e.RetryAfter)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return v, err
		}
	}
}

// unread says why there is nothing to read, "" when that is not the reason.
func (r *reading) unread() string {
	switch k8s.KindOf(r.err) {
	case k8s.NotFound, k8s.NotServed:
		return policy.UnreadAbsent
	case k8s.Unauthorized, k8s.Forbidden:
		return policy.UnreadForbidden
	}
	return ""
}

func (r *reading) missing(namespace, why string) policy.Unread {
	path, _ := r.resource.Path(namespace, "")
	u := policy.Unread{Resource: r.resource.Plural + "." + r.resource.Group, Path: path, Why: why, Reason: oneLine(r.err.Error()), Required: r.required}
	switch {
	case why == policy.UnreadForbidden && r.resource.ClusterScoped:
		u.Rule = fmt.Sprintf("grant list on %s by a ClusterRole", u.Resource)
	case why == policy.UnreadForbidden:
		u.Rule = fmt.Sprintf("grant list on %s by a Role in namespace %s", u.Resource, namespace)
	case r.resource == k8s.CiliumNetworkPolicies:
		u.Rule = "the cluster does not serve it: leave out -engine cilium"
	default:
		u.Rule = "the cluster does not serve it"
	}
	return u
}

// withKind gives the items of a list the kind that a server leaves out.
func withKind(items []k8s.Object, r k8s.Resource) []k8s.Object {
	for _, item := range items {
		if item["kind"] == nil {
			item["kind"] = r.Kind
		}
	}
	return items
}

// podError says what to do when the pod cannot be read.
func podError(err error, namespace, pod string) error {
	switch k8s.KindOf(err) {
	case k8s.NotFound:
		return fmt.Errorf("there is no pod %s in namespace %s: name another one with -pod or -namespace, or give labels with -labels alone", pod, namespace)
	case k8s.Forbidden:
		return fmt.Errorf("%w; the account may not read pods in namespace %s: name another one with -namespace, grant get on pods, or give labels with -labels alone", err, namespace)
	}
	return clusterError(err)
}

func clusterError(err error) error {
	if advice := connectAdvice[k8s.KindOf(err)]; advice != "" {
		return fmt.Errorf("%w. %s", err, advice)
	}
	return err
}
