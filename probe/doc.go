// Package probe decides from /proc/self/status whether the guest is
// deprivileged.
//
// [Run] has the sandbox print the status of a process that it started the way
// it starts every program, and admits the sandbox only if that process holds no
// capability in any set and can gain none: CapInh, CapPrm, CapEff and CapBnd
// are zero, so is CapAmb where the kernel prints it, and NoNewPrivs is 1.
// Looking at CapEff alone would prove nothing: it is zero for every process
// that is not root, however full its bounding set is. [Parse] is the decision
// on its own, without a guest. A gVisor kernel that prints no NoNewPrivs line
// is asked what it is, and accepted only if it says so.
//
// The answer comes from the guest. It finds a template that forgot its
// securityContext, a runtime that ignored it or a webhook that undid it; it
// does not find an image that lies about itself.
//
// The package imports nothing but the standard library, and opens no
// connection: it is handed a function that runs a program. Keep it so.
package probe
