package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// The two files of the write and read steps. What does not fit into one request
// of the guest protocol, with its base64, goes in parts.
const (
	smallFile = "smoke/a small file.txt"
	largeFile = "smoke/large.bin"
	rangeSize = 64 << 10
	inOnePart = wire.MaxFirstFrame / 4 * 3
)

// A payload is what was written and must come back.
type payload struct {
	small []byte
	large []byte
}

// newPayload makes contents that no other run has.
func newPayload(size int) payload {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	source := rand.NewChaCha8(seed)
	p := payload{large: make([]byte, size)}
	source.Read(p.large)
	p.small = fmt.Appendf(nil, "smoke ☕ %x\n", p.large[:8])
	return p
}

func (t *trial) write(ctx context.Context) (string, error) {
	t.files = newPayload(t.options.fileBytes)
	for _, f := range []struct {
		path string
		data []byte
	}{{smallFile, t.files.small}, {largeFile, t.files.large}} {
		n, err := t.sandbox.WriteFile(ctx, f.path, bytes.NewReader(f.data))
		if err != nil {
			return "", err
		}
		if n != int64(len(f.data)) {
			return "", wrong("%s: %d of %d bytes are said to have been written", f.path, n, len(f.data))
		}
	}
	detail := fmt.Sprintf("a file of %s and one of %s", size(len(t.files.small)), size(len(t.files.large)))
	if len(t.files.large) > inOnePart {
		detail += ", which goes in parts"
	}
	return detail, nil
}

// read reads both files back, whole and in ranges, and has a program look at
// one, which must see what was written.
func (t *trial) read(ctx context.Context) (string, error) {
	all := int64(len(t.files.large))
	large, err := t.sandbox.ReadFile(ctx, largeFile)
	if err != nil {
		return "", err
	}
	if got, want := sha256.Sum256(large), sha256.Sum256(t.files.large); got != want {
		return "", wrong("%s came back as %d bytes with sha256 %x, %d bytes with %x were written", largeFile, len(large), got, all, want)
	}
	for _, r := range ranges(all) {
		data, total, err := t.sandbox.ReadRange(ctx, largeFile, r.offset, r.length)
		if err != nil {
			return "", err
		}
		want := t.files.large[r.offset:min(r.offset+r.length, all)]
		if !bytes.Equal(data, want) || total != all {
			return "", wrong("%d bytes of %s from %d came back as %d bytes of a file of %d, and not as they were written", r.length, largeFile, r.offset, len(data), total)
		}
	}
	out, err := t.sandbox.Command(ctx, "cat", smallFile).Output()
	if err != nil {
		return "", err
	}
	if !bytes.Equal(out, t.files.small) {
		return "", wrong("a program saw %s in %s, where %s was written", clip(out), smallFile, clip(t.files.small))
	}
	return fmt.Sprintf("whole with the same sha256, %s, and through a program", count(len(ranges(all)), "range")), nil
}

type byteRange struct{ offset, length int64 }

// ranges are a begin, a middle and an end that reaches beyond the file.
func ranges(size int64) []byteRange {
	return []byteRange{{0, rangeSize}, {size/2 + 1, rangeSize}, {size - 10, rangeSize}}
}

func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
