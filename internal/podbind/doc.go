// Package podbind is what acquiring a sandbox and opening a workspace share:
// when an object counts as ready, which pod is behind it, where that pod is
// reached, and how a Sandbox is copied from a template.
//
// [ClaimState] and [SandboxState] read an object's status, [Read] finds the one
// live pod, [Diagnose] says what keeps a pod from starting, [SandboxBody]
// copies a template. All but Read are pure.
//
// The rule most often broken: Ready alone proves nothing. A condition counts
// only at the object's own generation, and a pod only while it is not being
// deleted.
//
// What the cluster answers is described in docs/cluster.md.
package podbind
