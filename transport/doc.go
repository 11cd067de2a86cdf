// Package transport is a host's session with one guest agent: it runs programs
// in the guest and moves files in and out of it.
//
// An [Agent] stands for the guest and keeps no connection open. A [Cmd] from
// [Agent.Command] is a program to run there, in the shape of os/exec;
// [Agent.ReadFile] and [Agent.WriteFile] move files of any size. A [Config]
// says where the guest is and what token it knows.
//
// The rule most often broken: "it failed" and "we never heard" are different
// things. An *[ExitError] or *[StartError] is the guest's word. A *[LostError]
// or *[CancelError] means that the operation may have happened; [SafeToRetry]
// tells which failures certainly had no effect.
//
// The context is the only budget of a call. Its cause is the error of whatever
// it ended, before anything that came of that; a started Cmd wraps it, because
// there is more to say about a program.
//
// The protocol is described in docs/protocol.md. The package imports
// transport/wire and the standard library; keep it so. What waits for a peer
// has a bound, what a peer sends is checked before it is kept, and every
// goroutine is joined by [Agent.Close].
package transport
