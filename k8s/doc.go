// Package k8s is a client of one Kubernetes API server: bearer tokens that are
// asked for on every request, the files of a pod or a kubeconfig, a handful of
// verbs over plain JSON objects, and typed errors.
//
// A [Config] says where the server is and how it is trusted, [New] makes a
// [Client] of it without any I/O, and every failure of a request is an
// [*APIError] whose [Kind] says what may be concluded from it. Objects are
// unstructured: an [Object] is the decoded JSON with small accessors.
//
// The rule most often broken: an object is gone only if [IsNotFound] says so. A
// 404 that does not name the object comes from a cluster without the resource,
// a missing namespace or a proxy, and proves nothing.
//
// The second rule: a context that ends belongs to the caller. Every method then
// returns [context.Cause] of it, bare, whatever else has happened.
//
// What is decided from bytes (objects, paths, error kinds, events, retries) is
// in files of its own that do no I/O. The package imports nothing but the
// standard library and internal/jsontree; keep it so.
package k8s
