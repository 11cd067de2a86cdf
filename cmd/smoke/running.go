package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/sandlot-go/sandlot/transport"
)

// maxText bounds what a test program may print. Each prints a few bytes.
const maxText = 4 << 10

// A running is a program of which a line of output has come, and which ends when
// its context does.
type running struct {
	stdout *lineWatch
	stderr bytes.Buffer // to be read once the program has ended
	ended  chan error   // of Wait
}

// start starts a program and returns when its first line has come.
func start(ctx context.Context, cmd *transport.Cmd) (*running, error) {
	r := &running{stdout: newLineWatch(), ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr, cmd.MaxOutput = r.stdout, &r.stderr, maxText
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { r.ended <- cmd.Wait() }()
	select {
	case <-r.stdout.first:
		return r, nil
	case err := <-r.ended:
		if err == nil {
			err = wrong("a program that waits for its output to be seen has ended without it")
		}
		return nil, err
	case <-ctx.Done():
		<-r.ended
		return nil, wrong("a program ran and none of its output arrived: %v", context.Cause(ctx))
	}
}

// A lineWatch keeps what is written and tells when there is a line of it.
type lineWatch struct {
	first chan struct{} // closed then

	mu   sync.Mutex
	seen bool
	data []byte
}

func newLineWatch() *lineWatch { return &lineWatch{first: make(chan struct{})} }

func (w *lineWatch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.data = append(w.data, p...)
	if !w.seen && bytes.IndexByte(w.data, '\n') >= 0 {
		w.seen = true
		close(w.first)
	}
	return len(p), nil
}

func (w *lineWatch) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.data)
}

// clip quotes the begin of a program's output.
func clip[T string | []byte](b T) string {
	const most = 60
	if len(b) > most {
		return fmt.Sprintf("%q… (%d bytes)", b[:most], len(b))
	}
	return fmt.Sprintf("%q", b)
}
