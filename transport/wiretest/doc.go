// Package wiretest plays a scripted peer of the guest protocol, for the tests
// of whatever dials it.
//
// A script is a list of [Step]s, carried out in order over the connections of
// any net.Listener: [Accept] one, [Expect] a request, [Send] an answer, split
// it, delay it, cut it off. [Seq] makes one step of many, so scripts compose.
// [Start] plays a script beside a test and fails the test when a step fails;
// [Play] returns the failure, which names the step's index and says what was
// wanted and what came.
//
// A step waits for the other side no longer than the script's [Patience]. The
// package waits on channels, timers and connections only and so works in a
// testing/synctest bubble. It imports the codec and the standard library; keep
// it so.
package wiretest
