// Package acquire gets an isolated sandbox out of a Kubernetes cluster that
// runs the agent-sandbox controller, and gives it back.
//
// A [Backend] is made once per host and configuration; [Backend.Create] returns
// a [Sandbox] that is bound, verified, deprivileged and kept alive by a lease,
// or an *[Error] that says at which stage it failed, why, and whether trying
// again can help. Whatever a failed create had made is deleted before it
// returns, or reported and deleted in the background.
//
// The rule most often broken: a Sandbox belongs to its owner until Release. It
// is not released when its variable goes out of scope, and it outlives a host
// that dies by at most the TTL.
//
// What is guaranteed, and what is not, is described in docs/guarantees.md.
package acquire
