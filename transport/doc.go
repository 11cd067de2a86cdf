// Package transport is a host's session with one guest agent: it runs programs
// in the guest, moves files in and out of it, and connects to its ports.
//
// An [Agent] stands for the guest. A [Cmd] from [Agent.Command] is a program to
// run there, in the shape of os/exec; with [Cmd.Retain] it outlives its
// connection and [Agent.Attach] follows it from elsewhere. [Agent.ReadFile],
// [Agent.Open] and [Agent.WriteFile] move files of any size, [Agent.PutTree] and
// [Agent.GetTree] whole directories, [Agent.Walk] lists them. A [Terminal] is a
// program on a terminal, or attached to one of the guest's sessions;
// [Agent.DialGuest] gives a net.Conn to a port inside. A [Config] says where the
// guest is and what token it knows.
//
// Output of programs, terminals and sessions crosses the wire as text, so that
// bytes that are no UTF-8 arrive as U+FFFD, and so do those of a character that
// the guest read in two pieces. Have a program write to a file, or through
// base64, where each byte counts: files and ports are exact.
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
