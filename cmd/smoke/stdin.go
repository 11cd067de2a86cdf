package main

import (
	"context"
	"io"
	"os"
)

// heed returns a reader of r whose Read ends with ctx. Standard input cannot be
// told to stop: a Read of r that is under way then goes on in its goroutine
// until r has something, and what it gets is lost.
func heed(ctx context.Context, r io.Reader) io.Reader { return &heedful{ctx: ctx, r: r} }

type heedful struct {
	ctx    context.Context
	r      io.Reader
	buffer []byte // what the goroutine reads into; nobody else's while it reads
}

const heedfulBuffer = 64 << 10

func (h *heedful) Read(p []byte) (int, error) {
	if h.ctx.Err() != nil {
		return 0, context.Cause(h.ctx)
	}
	if h.buffer == nil {
		h.buffer = make([]byte, heedfulBuffer)
	}
	type result struct {
		n   int
		err error
	}
	buffer := h.buffer[:min(len(p), len(h.buffer))]
	done := make(chan result, 1)
	go func() {
		n, err := h.r.Read(buffer)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buffer[:got.n]), got.err
	case <-h.ctx.Done():
		return 0, context.Cause(h.ctx) // for good: the buffer may still be written to
	}
}

// openHeeding is os.Open that ends with ctx. A named pipe that nobody writes to is
// not open before somebody does; what is opened too late is closed again.
func openHeeding(ctx context.Context, path string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result, 1)
	go func() {
		f, err := os.Open(path)
		done <- result{f, err}
	}()
	select {
	case got := <-done:
		return got.f, got.err
	case <-ctx.Done():
		go func() { (<-done).f.Close() }()
		return nil, context.Cause(ctx)
	}
}
