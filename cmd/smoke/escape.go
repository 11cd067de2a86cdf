package main

import (
	"errors"
	"io"
)

// errLeft is the cause of a shell that somebody has left by the escape.
var errLeft = errors.New("left from the keyboard")

// An escaping reads keys of a terminal, of which none but these can be meant for
// us: as for ssh, ~ and a dot at the beginning of a line leave, and ~~ is ~.
type escaping struct {
	r    io.Reader
	keys []byte // that were read and are to be handed out
	mid  bool   // a line has begun
	held bool   // a ~ that is not handed out before the next key is known
	left bool
	err  error // of the reader, once keys are handed out
}

// Read implements io.Reader. Its error is errLeft when the keys were typed.
func (e *escaping) Read(p []byte) (int, error) {
	for len(e.keys) == 0 {
		switch {
		case e.left:
			return 0, errLeft
		case e.err != nil:
			return 0, e.err
		}
		piece := make([]byte, len(p))
		n, err := e.r.Read(piece)
		e.err = err
		e.take(piece[:n])
		if err != nil && e.held && !e.left {
			e.keys, e.held = append(e.keys, '~'), false
		}
	}
	n := copy(p, e.keys)
	e.keys = e.keys[n:]
	return n, nil
}

func (e *escaping) take(keys []byte) {
	for _, key := range keys {
		switch {
		case e.held && key == '.':
			e.left = true
			return
		case !e.held && !e.mid && key == '~':
			e.held = true
			continue
		case e.held && key != '~':
			e.keys = append(e.keys, '~')
		}
		e.held = false
		e.keys = append(e.keys, key)
		e.mid = key != '\r' && key != '\n'
	}
}
