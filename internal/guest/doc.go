// Package guest is the guest side of the wire protocol: the agent that runs
// inside a sandbox, starts programs there and moves files.
//
// A [Server] answers on every listener given to [Server.Serve], one request a
// connection: healthz, reserve-execution, execute, cancel-execution, read-file
// (whole and ranged), read-file-stream, write-file (whole, in parts, and the
// discarding of parts), attach-execution, tcp-connect, terminal (of a connection
// or of a session), attach-session, start-detached, list-sessions, kill-session,
// quiesce and flush. Programs are real processes, each in a session of its own,
// and terminals are real ones. [Main] is all of a process that is a guest, and
// command guestd in the folder below is that process, which a guest image runs;
// the simulated cluster embeds the server.
//
// The rule most often broken: a guest that cannot prove that a process group of
// its own is gone fences itself for good and answers agent_retiring from then
// on. Nothing but a new process (a new Server) clears that.
//
// The protocol is described in docs/protocol.md. An operation is an entry of
// the table in operation.go; one that is not there is answered unknown_op. The
// package imports transport/wire and the standard library, and must not import
// the host's side: a guest built on the client agrees with the client's bugs.
package guest
