package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/sandlot-go/sandlot/transport"
)

// Each verb explains itself, before it needs an address, and the others not.
func TestGuestHelp(t *testing.T) {
	t.Parallel()
	all := smoke(t, "guest", "-h")
	all.expect(t, exitOK, "Exit codes")
	for _, v := range guestVerbs() {
		lines := strings.TrimPrefix(v.usage, "\n")
		if !strings.Contains(all.stdout, lines) {
			t.Errorf("smoke guest -h does not explain %s", v.name)
		}
		for _, args := range [][]string{{v.name, "-h"}, {"help", v.name}, {"-addr", "a:1", v.name, "--help"}} {
			r := smoke(t, append([]string{"guest"}, args...)...)
			r.expect(t, exitOK, lines, "Exit codes")
			if strings.Contains(r.stdout, "health ") != (v.name == "health") || r.stderr != "" {
				t.Errorf("the help of %s is not that alone\n%v", v.name, r)
			}
		}
	}
	if got := smoke(t, "guest", "help"); got.stdout != all.stdout || got.code != exitOK {
		t.Errorf("smoke guest help is not smoke guest -h\n%v", got)
	}
}

// A failure that does not say by itself what to do is followed by that.
func TestAdvised(t *testing.T) {
	for _, c := range []struct {
		err  error
		next string // "" for none
	}{
		{&transport.UnauthorizedError{}, "uid"},
		{&transport.DialError{Err: syscall.ECONNREFUSED}, "-addr"},
		{&transport.ProtocolError{Err: errors.New("no frame")}, "-addr"},
		{&transport.StartError{Name: "x", Code: "spawn x ENOENT", Text: "spawn x ENOENT"}, "PATH"},
		{&transport.StartError{Name: "x", Code: "invalid_cwd"}, "workspace"},
		{&transport.FileError{Code: "path escapes the workspace"}, "workspace"},
		{&transport.FileError{Code: "EISDIR"}, "tree put"},
		{&transport.FileError{Code: "read_file_stream_not_a_regular_file"}, "tree get"},
		{&transport.FileError{Code: "ENOENT"}, ""},
		{&transport.NotAttachableError{Reason: "unknown_execution"}, "-retain"},
		{&transport.SessionError{Reason: "unknown_session"}, "smoke guest sessions"},
		{fmt.Errorf("listen: %w", syscall.EADDRINUSE), "LOCAL"},
		{errors.New("odd"), ""},
	} {
		err := advised(c.err)
		next := strings.TrimPrefix(err.Error(), c.err.Error())
		if !errors.Is(err, c.err) || (next == "") != (c.next == "") || !strings.Contains(next, c.next) {
			t.Errorf("%v is followed by %q, want %q in it", c.err, next, c.next)
		}
	}
}
