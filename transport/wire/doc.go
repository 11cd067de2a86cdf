// Package wire holds the bytes of the guest protocol: frames and messages, in
// both directions, over io.Reader and byte slices.
//
// A [FrameReader] cuts a byte stream into payloads and [AppendFrame] makes one.
// The host writes a [Request] and parses what comes back with the Parse
// functions, which accept only the documented shapes; the guest parses an
// [Envelope], in which nothing is trusted yet, and writes replies and events.
//
// The rule most often broken: a zero-length payload is the stream terminator,
// not an empty message.
//
// The protocol is described in docs/protocol.md. The package knows no socket,
// goroutine, clock or logger and imports nothing but the standard library's
// byte and JSON packages; keep it so.
package wire
