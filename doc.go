// Package sandlot holds no code: it is the root of a module that gets isolated
// sandbox pods out of a Kubernetes cluster that runs the agent-sandbox
// controller, and its front door is
// [github.com/sandlot-go/sandlot/acquire].
//
// Below it, bottom-up: [github.com/sandlot-go/sandlot/k8s] speaks to the API
// server, [github.com/sandlot-go/sandlot/transport] to the agent in the
// sandbox, [github.com/sandlot-go/sandlot/probe] decides whether a guest is
// deprivileged, [github.com/sandlot-go/sandlot/lease] keeps a sandbox alive and
// [github.com/sandlot-go/sandlot/policy] says what may leave and enter it.
package sandlot
