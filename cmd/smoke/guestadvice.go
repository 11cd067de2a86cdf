package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/sandlot-go/sandlot/transport"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// advised adds to the failure of a verb what to do next, where its own words do
// not say it.
func advised(err error) error {
	for _, c := range []struct {
		is   bool
		next string
	}{
		{is[*transport.UnauthorizedError](err), "the token is the pod's uid: kubectl get pod NAME -o jsonpath={.metadata.uid}"},
		{is[*transport.DialError](err), "check -addr, and that the pod runs and can be reached from here"},
		{is[*transport.ProtocolError](err), "check -addr: is it a guest agent that listens there?"},
		{refusedFor(err, wire.CodeUnknownExecution), "a guest remembers what was started with -retain, until it is restarted and for 10 minutes after its end by default"},
		{refusedFor(err, wire.CodeUnknownSession), `"smoke guest sessions" lists those that there are`},
		{refusedFor(err, "path escapes the workspace", "symlink escapes the workspace", "invalid_cwd"), "paths are relative to the guest's workspace, or absolute inside it"},
		{refusedFor(err, "EISDIR"), "it is a directory: name a file in it, or use tree put"},
		{refusedFor(err, "read_file_stream_not_a_regular_file"), "tree get copies a directory"},
		{is[*transport.StartError](err) && errors.Is(err, fs.ErrNotExist), "the guest has no such program in its PATH"},
		{errors.Is(err, syscall.EADDRINUSE), "choose another LOCAL, or 0 for any free port"},
	} {
		if c.is {
			return fmt.Errorf("%w; %s", err, c.next)
		}
	}
	return err
}

// refusedFor reports whether the guest refused something with one of the codes.
func refusedFor(err error, codes ...string) bool {
	var said string
	if e, ok := errors.AsType[*transport.FileError](err); ok {
		said = e.Code
	} else if e, ok := errors.AsType[*transport.StartError](err); ok {
		said = e.Code
	} else if e, ok := errors.AsType[*transport.NotAttachableError](err); ok {
		said = e.Reason
	} else if e, ok := errors.AsType[*transport.SessionError](err); ok {
		said = e.Reason
	}
	for _, code := range codes {
		if said == code {
			return true
		}
	}
	return false
}
