// Package memnet is a TCP network inside one process, for tests and for the
// simulated cluster.
//
// A [Network] has listeners, addresses and names; [Network.DialContext] has the
// shape of net.Dialer's method and gives a [Conn]. Everything waits on
// channels, sync.Cond and timers only, so a server and its clients can live in
// a testing/synctest bubble: create the listener and dial inside the bubble,
// and time advances as soon as all of them wait. A connection is buffered in
// both directions, so two peers that both write before they read make progress
// as they do over a socket and as they do not over net.Pipe.
//
// What differs from a real network: data is never lost or late; Close with
// unread data does not reset the connection; an unspecified listening address
// accepts what is dialled at a loopback address and nothing else; a full
// backlog refuses. Imports nothing but the standard library; keep it so.
package memnet
