package transport

import (
	"bytes"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// FuzzReadEntry reads lists as a guest may send them: it ends, and every path
// stays below what was walked.
func FuzzReadEntry(f *testing.F) {
	for _, seed := range []string{
		"d\x00755\x004096\x001700000000.5\x00\x00\x00f\x00644\x007\x001700000000.1234567890\x00\x00a/b\nc\xff\x00done\x000\x00",
		"l\x00777\x001\x001\x00../../etc\x00link\x00done\x001\x00", "done\x00256\x00", "done\x000\x00x", "f\x00644\x00-1\x001\x00\x00a\x00", "f\x0099\x001\x001\x00\x00../a\x00", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			e, status, err := readEntry(r)
			if err == io.EOF {
				if r.Len() > 0 || status < 0 || status > 255 || !bytes.Contains(data, []byte(entriesDone)) {
					t.Fatalf("%q ends with %d and %d bytes left", data, status, r.Len())
				}
				return
			}
			if err != nil {
				return
			}
			if e.Size < 0 || e.Mode&fs.ModeType&^(fs.ModeDir|fs.ModeSymlink|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice|fs.ModeCharDevice|fs.ModeIrregular) != 0 || strings.ContainsRune(e.Path, 0) {
				t.Fatalf("%q has %+v", data, e)
			}
			if slashed := strings.ToValidUTF8(e.Path, "?"); !fs.ValidPath(slashed) {
				t.Fatalf("%q has the path %q", data, e.Path)
			}
		}
	})
}
