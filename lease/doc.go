// Package lease moves an expiry forward while its owner lives and says when it
// is lost.
//
// A sandbox that nobody renews must not outlive its owner for long, so every
// one is created with an absolute time at which the cluster deletes it. [Keep]
// starts the goroutine that asks for a later one every TTL/2; [Lease.Stop] ends
// it and waits for it. A [Lease] is lost, for good, when the API server says
// that the object does not exist, when an answer shows that another sandbox
// has taken the place of this one, or when the last expiry that the server
// acknowledged has passed. Every other failure is reported, and tried again.
//
// Expiries are whole seconds on the server's clock: the controller cuts the
// fraction off, and acts on its own clock and not on that of this process.
// Whoever creates the object takes its first expiry from [Expiry], so that
// both are counted alike.
//
// The decisions (when to renew next, what an answer means) are functions
// without a clock, in schedule.go and verdict.go. Keep them so.
package lease
