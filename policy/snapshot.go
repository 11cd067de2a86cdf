package policy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// snapshot is everything that was read for the judgements of one moment.
type snapshot struct {
	policies
	unread []Unread
	began  time.Time // before the first request
	keys   labelKeys // that its selectors ask for
	notes  []string

	named        k8s.Object // the named object, when it is read by itself; nil: not there
	ciliumServed bool       // seen with engine core, where nothing of it is judged
	ciliumInUse  bool
}

// collection is one list that is read.
type collection struct {
	resource k8s.Resource
	required bool // a check without it is no check
	list     *[]k8s.Object
	peek     bool // only whether there is anything
}

// reading says what a configuration needs to be read.
type reading struct {
	egressUnion, ingress        bool
	egressEngine, ingressEngine Engine
	named                       string // object to read by itself; "" for none
	namedKind                   k8s.Resource
}

func (r reading) nothing() bool { return !r.egressUnion && !r.ingress && r.named == "" }

func (r reading) cilium() bool {
	return r.egressUnion && r.egressEngine == Cilium || r.ingress && r.ingressEngine == Cilium
}

// collections are the lists to read. The required ones are those of the engine; the others are taken into account where the
// host may read them.
func (r reading) collections(into *policies, peeked *[]k8s.Object) []collection {
	if !r.egressUnion && !r.ingress {
		return nil
	}
	lists := []collection{
		{resource: k8s.NetworkPolicies, required: true, list: &into.core},
		{resource: AdminNetworkPolicies, list: &into.admin},
		{resource: BaselineAdminNetworkPolicies, list: &into.baseline},
	}
	if r.cilium() {
		return append(lists,
			collection{resource: k8s.CiliumNetworkPolicies, required: true, list: &into.cilium},
			collection{resource: k8s.CiliumClusterwideNetworkPolicies, list: &into.clusterwide})
	}
	return append(lists, collection{resource: k8s.CiliumNetworkPolicies, list: peeked, peek: true})
}

// readSnapshot reads everything at once. A collection that the host may not list, or that the cluster does not serve, is
// carried as unread; any other failure fails the whole, because what it hides is not known.
func readSnapshot(ctx context.Context, client *k8s.Client, r reading) (*snapshot, error) {
	s := &snapshot{began: time.Now()}
	var peeked []k8s.Object
	lists := r.collections(&s.policies, &peeked)
	errs := make([]error, len(lists)+1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i, c := range lists {
		wg.Go(func() {
			if errs[i] = c.read(ctx, client); errs[i] != nil && !isUnread(errs[i]) {
				cancel()
			}
		})
	}
	if r.named != "" {
		wg.Go(func() {
			if s.named, errs[len(lists)] = readNamed(ctx, client, r.namedKind, r.named); errs[len(lists)] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	if err := firstFailure(errs); err != nil {
		return nil, err
	}
	for i, c := range lists {
		if errs[i] != nil {
			s.unread = append(s.unread, c.unread(client.Namespace(), errs[i]))
		} else if c.peek {
			s.ciliumServed, s.ciliumInUse = true, len(peeked) > 0
		}
	}
	s.note(r)
	s.keys = s.labelKeys()
	return s, nil
}

// firstFailure returns the failure that made the others stop, if there is one that is more than an unread collection.
func firstFailure(errs []error) error {
	var cancelled error
	for _, err := range errs {
		switch {
		case err == nil || isUnread(err):
		case k8s.KindOf(err) == "":
			cancelled = err
		default:
			return err
		}
	}
	return cancelled
}

// isUnread reports whether a failure says that the collection is not there for this host, rather than that reading went wrong.
func isUnread(err error) bool { return unreadWhy(err) != "" }

func unreadWhy(err error) string {
	switch k8s.KindOf(err) {
	case k8s.NotFound, k8s.NotServed:
		return UnreadAbsent
	case k8s.Unauthorized, k8s.Forbidden:
		return UnreadForbidden
	}
	return ""
}

func (c collection) read(ctx context.Context, client *k8s.Client) error {
	read := func(ctx context.Context) ([]k8s.Object, error) {
		if c.peek {
			return peek(ctx, client, c.resource)
		}
		l, err := client.List(ctx, c.resource, k8s.ListOptions{})
		return l.Items, err
	}
	items, err := k8s.RetryRead(ctx, k8s.Backoff{}, read)
	if err != nil {
		return fmt.Errorf("policy: list %s: %w", c.resource.Plural, err)
	}
	for i, item := range items {
		items[i] = trim(item)
	}
	*c.list = items
	return nil
}

// peek returns the first object of a collection, if there is one.
func peek(ctx context.Context, client *k8s.Client, r k8s.Resource) ([]k8s.Object, error) {
	for item, err := range client.Items(ctx, r, k8s.ListOptions{PageSize: 1}) {
		if err != nil {
			return nil, err
		}
		return []k8s.Object{item}, nil
	}
	return nil, nil
}

// trim keeps what is judged: most of a stored object is the record of who wrote which field.
func trim(item k8s.Object) k8s.Object {
	out := k8s.Object{}
	for _, key := range []string{"kind", "spec", "specs"} {
		if v, ok := item[key]; ok {
			out[key] = v
		}
	}
	metadata, ok := objectOf(item["metadata"])
	if !ok {
		if v, there := item["metadata"]; there {
			out["metadata"] = v
		}
		return out
	}
	kept := map[string]any{}
	for _, key := range []string{"name", "namespace", "deletionTimestamp"} {
		if v, ok := metadata[key]; ok {
			kept[key] = v
		}
	}
	out["metadata"] = kept
	return out
}

func readNamed(ctx context.Context, client *k8s.Client, r k8s.Resource, name string) (k8s.Object, error) {
	o, err := k8s.RetryRead(ctx, k8s.Backoff{}, func(ctx context.Context) (k8s.Object, error) { return client.Get(ctx, r, name) })
	switch k8s.KindOf(err) {
	case k8s.NotFound, k8s.NotServed, k8s.Gone:
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("policy: get %s %s: %w", r.Kind, name, err)
	}
	return o, nil
}

func (c collection) unread(namespace string, err error) Unread {
	path, _ := c.resource.Path(namespace, "")
	return Unread{
		Resource: c.resource.Plural + "." + c.resource.Group,
		Path:     path,
		Why:      unreadWhy(err),
		Reason:   excerpt(err.Error(), 500),
		Rule:     listRule(c.resource, namespace),
		Required: c.required,
	}
}

// listRule is the RBAC rule that lets the host list a resource.
func listRule(r k8s.Resource, namespace string) string {
	if r.ClusterScoped {
		return fmt.Sprintf("grant list on %s of API group %s by a ClusterRole", r.Plural, r.Group)
	}
	return fmt.Sprintf("grant list on %s of API group %s by a Role in namespace %s", r.Plural, r.Group, namespace)
}

// note says what the judgement did not look at.
func (s *snapshot) note(r reading) {
	switch {
	case s.ciliumInUse:
		s.notes = append(s.notes, "the namespace has CiliumNetworkPolicies, and with engine core they are not judged: if the cluster's network plugin is Cilium, set engine to cilium")
	case s.ciliumServed:
		s.notes = append(s.notes, "the cluster serves cilium.io, and with engine core its policies, those of the whole cluster among them, are not judged")
	}
	if !r.nothing() {
		s.notes = append(s.notes, "policies of other APIs, such as those of Calico, Antrea and OVN-Kubernetes, are never read; and what is stored is not proved to be in force")
	}
}

// requiredUnread returns the unread collections that a direction cannot do without.
func (s *snapshot) requiredUnread(engine Engine) []Unread {
	var out []Unread
	for _, u := range s.unread {
		isCilium := u.Resource == k8s.CiliumNetworkPolicies.Plural+"."+k8s.CiliumNetworkPolicies.Group
		if u.Required && (!isCilium || engine == Cilium) {
			out = append(out, u)
		}
	}
	return out
}
