// Package sim is a Kubernetes cluster in one process: an API server, the
// agent-sandbox controller with its warm pools, a garbage collector and a
// kubelet whose pods are guest agents that run real programs.
//
// A [Cluster] is an http.Handler ([Cluster.Serve] puts it behind a listener)
// that speaks HTTP and JSON and knows nothing of the clients that talk to it.
// [Config]'s zero value is a full cluster; its hook fields bring faults about;
// [Cluster.Requests] is what was asked. Everything runs on plain timers and
// channels, so a Cluster over package memnet lives in a testing/synctest
// bubble, where every delay is exact.
//
// The rule most often broken: what nobody looked up is answered 501 and listed
// by [Cluster.Unmodelled]; a test that does not ask for that list may pass on
// an answer that no server gives. Programs and TestMains that create a Cluster
// call guest.RunLauncher first.
//
// # What it is held to
//
// The module's testdata/fixtures has what kube-apiserver v1.37.2 and the
// agent-sandbox controller of 2026-08-22 answered. Tests send the same requests and compare;
// they compare the states, too, that claims, Sandboxes and pods went through.
//
// # How long things take
//
// A claim is dealt with [Config].Bind after its creation, as is a Sandbox that
// nobody owns. Every other change is answered by controller and garbage
// collector 10 ms later. A pod has its node after a third of [Config].PodReady
// and is ready after all of it. A claim's end is at its stamp; a bind cuts the
// stamp to whole seconds. A Sandbox looks at its own stamp every two seconds at
// most.
//
// # What it does not model
//
//   - The API server: updates by PUT, server-side apply, strategic merge
//     patches, deletion of collections and of namespaces, creating and patching
//     built-in kinds through the API, managedFields, CEL rules, admission
//     webhooks, protobuf, tables, gzip, priority and fairness, Events,
//     token and access reviews. A watch cache that lags.
//   - Version v1alpha1 of the custom resources. Groups that any cluster serves
//     and this one does not are answered 501, all others 404.
//   - RBAC but for [Config].Allow: one account, whose rights do not depend on the
//     namespace.
//   - The controller: update strategy Recreate, members that stay unready for
//     five minutes, adoption of unowned pods, Services and volume claims,
//     AdoptionConflict and SandboxCreatePending (nothing races here),
//     MultiplePods, metrics and traces.
//   - The node: containers, images, security contexts but for what
//     "sim/privileged" says, volumes but for the folder that a volume claim
//     becomes, limits, probes, restart policies. A guest that ends by itself is
//     not started again.
//   - The network: policies are stored and not enforced.
//
// The package imports the standard library, internal/guest and internal/memnet
// and must not import what talks to it: a fake built on the client agrees with
// the client's bugs.
package sim
