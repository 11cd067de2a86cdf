//go:build linux

package transport_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
)

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
