//go:build linux

package transport_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// BenchmarkExec is the time of a program that does nothing, over loopback. Two
// exchanges over connections of their own are the least that the protocol
// takes for it; BenchmarkTwoRoundTrips is what they cost.
func BenchmarkExec(b *testing.B) {
	g := newRealGuest(b, guest.Config{})
	for b.Loop() {
		if err := g.Command(b.Context(), "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTwoRoundTrips(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.ReadFull(c, make([]byte, 100))
			c.Write(make([]byte, 100))
			c.Close()
		}
	}()
	for b.Loop() {
		for range 2 {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			c.Write(make([]byte, 100))
			if _, err := io.ReadAll(c); err != nil {
				b.Fatal(err)
			}
			c.Close()
		}
	}
	l.Close()
	<-done
}

func BenchmarkOutput(b *testing.B) {
	g := newRealGuest(b, guest.Config{})
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		var n counter
		c := sh(g, b.Context(), "head -c 67108864 /dev/zero | tr '\\0' z")
		c.Stdout = &n
		if err := c.Run(); err != nil || n != size {
			b.Fatal(n, err)
		}
	}
}

type counter int64

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

func BenchmarkWriteFile(b *testing.B) {
	for _, size := range []int{5, 5 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			g := newRealGuest(b, guest.Config{})
			content := random(size)
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := g.WriteFile(b.Context(), "f", bytes.NewReader(content)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadFile(b *testing.B) {
	for _, size := range []int{5, 64 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			g := newRealGuest(b, guest.Config{})
			if _, err := g.WriteFile(b.Context(), "f", bytes.NewReader(random(size))); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				if n, err := g.ReadFileTo(b.Context(), "f", io.Discard); err != nil || n != int64(size) {
					b.Fatal(n, err)
				}
			}
		})
	}
}
