// Package policy says what may leave and enter a sandbox pod, and proves from the policies of a cluster that nothing more does.
//
// An [Egress] names one of six kinds of [Policy]. A [Verifier] translates it to the one object an operator applies, reads
// every policy that could select the pod, and judges their union: Kubernetes adds policies up, so that the named object is
// right proves nothing as long as another one opens more. Every question is answered yes, no or unknown, and unknown is
// refused with the object, the rule and the peer that could not be read. The package writes nothing itself except the
// policy of a single sandbox, through a [Narrower].
//
// The rule users break: a policy that is stored is not a policy that is enforced. What passes here is what the API server
// holds; whether the network plugin acts on it has to be probed from inside the pod.
//
// The decisions are pure functions over [k8s.Object]; snapshot.go, flight.go, verifier.go and narrower.go are the only files
// that talk to a server. The package imports the standard library and k8s; keep it so. docs/policy.md has the semantics.
package policy
