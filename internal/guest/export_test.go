//go:build linux

package guest

import (
	"context"
	"os"
)

// ParseLarge decodes a request as that of a large one.
var ParseLarge = parseLarge

// HeldBytes is how many bytes connections hold that have not authenticated.
func (s *Server) HeldBytes() int {
	s.preauth.mu.Lock()
	defer s.preauth.mu.Unlock()
	return s.preauth.bytes
}

// HoldPart makes the guest believe that a part is being written to path, until
// the returned function is called.
func (s *Server) HoldPart(path string) (release func()) {
	s.parts.enter(path)
	return func() { s.parts.leave(path) }
}

// OpenInside opens a path for reading as read-file does.
func (s *Server) OpenInside(path string) (*os.File, error) { return s.jail.open(path) }

// PlaceInside finds the place of a path that is to be written, as write-file
// does, and returns its path.
func (s *Server) PlaceInside(path string) (string, error) {
	p, err := s.jail.place(path)
	if err != nil {
		return "", err
	}
	defer p.close()
	return p.path, nil
}

// CheckOrder checks the body of an execute request without executing it.
func (s *Server) CheckOrder(body map[string]any) error {
	c := &call{server: s, body: body}
	_, err := c.order()
	return err
}

// The two sides of the end of an output.
var (
	ReadPipe = readPipe
	CutOff   = cutOff
)

// Coercions of values.
var (
	TextOf       = textOf
	NumberOf     = numberOf
	DecodeText   = decodeText
	DecodeBase64 = decodeBase64
)

// WhenDone is what an answer has called when nobody reads it any more.
var WhenDone = whenDone

// WaitAnswers waits for the requests that are being answered, for a moment.
func (s *Server) WaitAnswers(ctx context.Context) { s.drain(ctx) }

// InChargeOf reports whether a process is in charge of its PID namespace.
var InChargeOf = inChargeOf

// RealUser is the real user that /proc/<pid>/status names.
var RealUser = realUser

// ParseProcess reads /proc/<pid>/stat.
func ParseProcess(stat []byte) (pid, parent, group, session int, command, state, started string, ok bool) {
	p, ok := parseProcess(stat)
	return p.pid, p.parent, p.group, p.session, p.command, string([]byte{p.state}), p.started, ok
}
