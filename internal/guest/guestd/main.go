// Command guestd is the guest agent: what a sandbox's image runs so that hosts
// can run programs and move files in it. It is configured by environment
// variables, the NAMZU_SANDBOX_* and NAMZU_AGENT_* of docs/protocol.md, with
// NAMZU_AGENT_ADDR for the address to listen on and NAMZU_AGENT_TCP_PORT for the
// port. SIGTERM ends its programs and then itself; SIGUSR1 has it run its reseed
// hook and listen anew.
//
// It can be PID 1: it reaps what its programs leave behind.
package main

import (
	"os"

	"github.com/sandlot-go/sandlot/internal/guest"
)

func main() { os.Exit(guest.Main(os.Environ(), os.Stderr)) }
