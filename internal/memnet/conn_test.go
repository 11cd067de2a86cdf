package memnet_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
)

func TestBothSidesWriteBeforeReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, &memnet.Network{})
		payload := bytes.Repeat([]byte("x"), 200<<10)
		got := make(chan int, 2)
		for _, c := range []*memnet.Conn{a, b} {
			go func() {
				if _, err := c.Write(payload); err != nil {
					t.Errorf("Write: %v", err)
				}
				c.CloseWrite()
				data, err := io.ReadAll(c)
				if err != nil {
					t.Errorf("ReadAll: %v", err)
				}
				got <- len(data)
			}()
		}
		if x, y := <-got, <-got; x != len(payload) || y != len(payload) {
			t.Errorf("read %d and %d bytes, want %d", x, y, len(payload))
		}
	})
}

func TestWriterWaitsForAReaderWhenTheBufferIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, &memnet.Network{Buffer: 10})
		wrote := make(chan int, 1)
		go func() {
			n, err := a.Write(make([]byte, 25))
			if err != nil {
				t.Errorf("Write: %v", err)
			}
			wrote <- n
		}()
		for _, want := range []int{10, 10, 5} {
			synctest.Wait()
			if n, err := b.Read(make([]byte, 100)); n != want || err != nil {
				t.Errorf("Read = %d, %v, want %d", n, err, want)
			}
		}
		if n := <-wrote; n != 25 {
			t.Errorf("Write = %d, want 25", n)
		}
	})
}

func TestHalfClose(t *testing.T) {
	a, b := pair(t, &memnet.Network{})
	io.WriteString(a, "question")
	a.CloseWrite()
	if got, err := io.ReadAll(b); string(got) != "question" || err != nil {
		t.Fatalf("ReadAll = %q, %v", got, err)
	}
	if _, err := a.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write after CloseWrite = %v, want EPIPE", err)
	}
	io.WriteString(b, "answer")
	b.Close()
	if got, err := io.ReadAll(a); string(got) != "answer" || err != nil {
		t.Errorf("ReadAll = %q, %v", got, err)
	}
	a.Close()
	if err := a.CloseWrite(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CloseWrite after Close = %v, want net.ErrClosed", err)
	}
}

func TestPeerClosed(t *testing.T) {
	a, b := pair(t, &memnet.Network{})
	io.WriteString(b, "last words")
	b.Close()
	if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write to a closed peer = %v, want EPIPE", err)
	}
	if got, err := io.ReadAll(a); string(got) != "last words" || err != nil {
		t.Errorf("ReadAll = %q, %v", got, err)
	}
}

func TestReset(t *testing.T) {
	a, b := pair(t, &memnet.Network{})
	io.WriteString(b, "lost")
	b.Reset()
	b.Reset()
	if n, err := a.Read(make([]byte, 10)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Read = %d, %v, want ECONNRESET", n, err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Write = %v, want ECONNRESET", err)
	}
	if _, err := b.Read(make([]byte, 10)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read on the end that reset = %v, want net.ErrClosed", err)
	}
}

// TestBlockedCallsEnd holds each blocking call and lets each event come.
func TestBlockedCallsEnd(t *testing.T) {
	read := func(c *memnet.Conn) error { _, err := c.Read(make([]byte, 1)); return err }
	write := func(c *memnet.Conn) error { _, err := c.Write(make([]byte, 100)); return err }
	for _, tt := range []struct {
		name string
		call func(*memnet.Conn) error
		when func(self, peer *memnet.Conn)
		want error
	}{
		{"Read, own Close", read, func(self, _ *memnet.Conn) { self.Close() }, net.ErrClosed},
		{"Read, own Reset", read, func(self, _ *memnet.Conn) { self.Reset() }, net.ErrClosed},
		{"Read, peer's Close", read, func(_, peer *memnet.Conn) { peer.Close() }, io.EOF},
		{"Read, peer's CloseWrite", read, func(_, peer *memnet.Conn) { peer.CloseWrite() }, io.EOF},
		{"Read, peer's Reset", read, func(_, peer *memnet.Conn) { peer.Reset() }, syscall.ECONNRESET},
		{"Read, a deadline in the past", read, func(self, _ *memnet.Conn) { self.SetReadDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		{"Read, a deadline to come", read, func(self, _ *memnet.Conn) { self.SetDeadline(time.Now().Add(time.Hour)) }, os.ErrDeadlineExceeded},
		{"Write, own Close", write, func(self, _ *memnet.Conn) { self.Close() }, net.ErrClosed},
		{"Write, own Reset", write, func(self, _ *memnet.Conn) { self.Reset() }, net.ErrClosed},
		{"Write, own CloseWrite", write, func(self, _ *memnet.Conn) { self.CloseWrite() }, syscall.EPIPE},
		{"Write, peer's Close", write, func(_, peer *memnet.Conn) { peer.Close() }, syscall.EPIPE},
		{"Write, peer's Reset", write, func(_, peer *memnet.Conn) { peer.Reset() }, syscall.ECONNRESET},
		{"Write, a deadline to come", write, func(self, _ *memnet.Conn) { self.SetWriteDeadline(time.Now().Add(time.Hour)) }, os.ErrDeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				self, peer := pair(t, &memnet.Network{Buffer: 10})
				done := make(chan error, 1)
				go func() { done <- tt.call(self) }()
				synctest.Wait()
				tt.when(self, peer)
				if err := <-done; !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestDeadlinesAreExactAndCanBeMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, &memnet.Network{})
		start := time.Now()
		a.SetReadDeadline(start.Add(time.Second))
		_, err := a.Read(make([]byte, 1))
		if took := time.Since(start); took != time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v after %v, want a deadline error after 1s", err, took)
		}
		if e, ok := err.(net.Error); !ok || !e.Timeout() {
			t.Errorf("Read = %v, want a timeout", err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read after the deadline = %v, want the same again", err)
		}

		a.SetReadDeadline(time.Time{})
		go func() { time.Sleep(time.Minute); io.WriteString(b, "x") }()
		if _, err := a.Read(make([]byte, 1)); err != nil {
			t.Errorf("Read without a deadline = %v", err)
		}

		// A deadline that was replaced must not fire.
		a.SetReadDeadline(time.Now().Add(time.Second))
		a.SetReadDeadline(time.Now().Add(3 * time.Second))
		start = time.Now()
		a.Read(make([]byte, 1))
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("Read ended after %v, want 3s", took)
		}
		a.Close()
		if err := a.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("SetDeadline after Close = %v, want net.ErrClosed", err)
		}
	})
}

func TestCloseTwice(t *testing.T) {
	a, _ := pair(t, &memnet.Network{})
	if err := a.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := a.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close = %v, want net.ErrClosed", err)
	}
}

func TestEmptyReadAndWrite(t *testing.T) {
	a, _ := pair(t, &memnet.Network{})
	if n, err := a.Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil) = %d, %v", n, err)
	}
	if n, err := a.Write(nil); n != 0 || err != nil {
		t.Errorf("Write(nil) = %d, %v", n, err)
	}
}
