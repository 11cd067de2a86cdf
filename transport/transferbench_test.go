//go:build linux

package transport_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkTransfer moves 1 GiB (64 MiB with -short) from a file to a file, to and
// from a guest that is a process of its own; and in turn the same over a
// connection that carries nothing but base64 in frames of JSON, see plainCopy:
// "of-json" is our speed as a part of that of encoding/json from memory to
// nowhere, the best that it can do, "of-json-files" as one of that from file to
// file, and "of-base64-files" as one of that without a JSON parser. The heaps are
// the largest that were seen.
func BenchmarkTransfer(b *testing.B) {
	size := int64(1 << 30)
	if testing.Short() {
		size = 64 << 20
	}
	source := filepath.Join(b.TempDir(), "source")
	if err := fillFile(source, size); err != nil {
		b.Fatal(err)
	}
	b.Run("download", func(b *testing.B) {
		compareTransfers(b, source, size, func(*os.File) error { return nil }, func(d *daemon, from, to *os.File) error {
			_, err := d.ReadFileTo(b.Context(), filepath.Base(from.Name()), to)
			return err
		})
	})
	b.Run("upload", func(b *testing.B) {
		// The guest answers when the file is on its disk.
		compareTransfers(b, source, size, (*os.File).Sync, func(d *daemon, from, to *os.File) error {
			_, err := d.WriteFile(b.Context(), filepath.Base(to.Name()), from)
			return err
		})
	})
}

// compareTransfers is one direction. The files are in the guest's workspace; end
// is what a plain copy does with the new one at last.
func compareTransfers(b *testing.B, source string, size int64, end func(*os.File) error, move func(d *daemon, from, to *os.File) error) {
	d := startGuestd(b)
	from, to := filepath.Join(d.workspace, "from"), filepath.Join(d.workspace, "to")
	if err := os.Link(source, from); err != nil {
		b.Fatal(err)
	}
	files := func(s *samples, f func(from, to *os.File) error) {
		src, err := os.Open(from)
		if err != nil {
			b.Fatal(err)
		}
		defer src.Close()
		dst, err := os.Create(to)
		if err != nil {
			b.Fatal(err)
		}
		defer dst.Close()
		s.add(b, func() error { return f(src, dst) })
		if info, err := os.Stat(to); err != nil || info.Size() != size {
			b.Fatalf("the copy is %v, %v, want %d bytes", info, err, size)
		}
		if err := os.Remove(to); err != nil {
			b.Fatal(err)
		}
	}
	plain := func(codec codec) func(from, to *os.File) error {
		return func(from, to *os.File) error { return errors.Join(plainCopy(to, from, codec), end(to)) }
	}
	var ours, json, jsonFiles, base64Files samples
	var heap float64
	for b.Loop() {
		json.add(b, func() error { return plainCopy(io.Discard, io.LimitReader(zeros{}, size), jsonCodec{}) })
		files(&jsonFiles, plain(jsonCodec{}))
		files(&base64Files, plain(base64Codec{}))
		files(&ours, func(from, to *os.File) (err error) {
			heap = max(heap, peakHeap(func() { err = move(d, from, to) }))
			return err
		})
	}
	speed := func(s samples) float64 { return float64(size) / 1e6 / s.median().Seconds() }
	b.ReportMetric(0, "ns/op") // of all of them
	b.ReportMetric(speed(ours), "MB/s")
	b.ReportMetric(speed(ours)/speed(json), "of-json")
	b.ReportMetric(speed(ours)/speed(jsonFiles), "of-json-files")
	b.ReportMetric(speed(ours)/speed(base64Files), "of-base64-files")
	b.ReportMetric(heap, "host-heap-MiB")
	b.ReportMetric(d.stop(), "guest-heap-MiB")
}

// fillFile makes a file with content that does not repeat.
func fillFile(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, io.LimitReader(rand.NewChaCha8([32]byte{}), size))
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
