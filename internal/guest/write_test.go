//go:build linux

package guest_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

func TestWriteLongNames(t *testing.T) {
	g := newGuest(t, guest.Config{})
	for name, want := range map[string]string{
		strings.Repeat("n", 255):                    "",
		strings.Repeat("é", 127):                    "", // cut between characters
		strings.Repeat("\xff", 201):                 "", // in JSON: as many U+FFFD, of three bytes each
		strings.Repeat("n", 256):                    "ENAMETOOLONG",
		strings.Repeat("d", 255) + "/" + "f":        "",
		strings.Repeat("d/", 10) + "/" + "deep.txt": "",
	} {
		if strings.Contains(name, "\xff") {
			want = "ENAMETOOLONG"
		}
		r := g.call(wire.OpWriteFile, object{"path": name, "content": "x"})
		if got, _ := r["error"].(string); wire.Code(got) != want {
			t.Errorf("%.20s… of %d bytes: %.200v, want %q", name, len(name), r, want)
		}
	}
	if left, _ := filepath.Glob(g.workspace + "/.namzu*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestPartsExcludeEachOther(t *testing.T) {
	g := newGuest(t, guest.Config{})
	const temp = ".namzu-write-x.part"
	part := object{"path": temp, "content": "abc", "part": object{"offset": 0}}
	release := g.server.HoldPart(filepath.Join(g.workspace, temp))
	if r := g.call(wire.OpWriteFile, part); r["error"] != "write_part_in_flight" {
		t.Errorf("%v", r)
	}
	if _, err := os.Stat(filepath.Join(g.workspace, temp)); err == nil {
		t.Error("written all the same")
	}
	release()
	if r := g.call(wire.OpWriteFile, part); r["sizeBytes"] != 3.0 {
		t.Errorf("%v", r)
	}
}

func TestPartsMakeALargeFile(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	g.put("target", "old", 0o640)
	content := make([]byte, 3<<20)
	for i := range content {
		content[i] = byte(i >> 8 * i)
	}
	const temp, step = ".namzu-write-x.part", 1_000_000
	for at := 0; at < len(content); at += step {
		piece := content[at:min(at+step, len(content))]
		part := object{"offset": at}
		if at+step >= len(content) {
			part["final"], part["renameTo"] = true, "target"
		}
		r := g.call(wire.OpWriteFile, object{"path": temp, "content": base64.StdEncoding.EncodeToString(piece), "encoding": "base64", "part": part})
		if r["sizeBytes"] != float64(at+len(piece)) || r["bytesWritten"] != float64(len(piece)) {
			t.Fatalf("part at %d: %v", at, r)
		}
		if got, _ := os.ReadFile(g.workspace + "/target"); at+step < len(content) && string(got) != "old" {
			t.Errorf("the target has changed after the part at %d", at)
		}
	}
	got, err := os.ReadFile(g.workspace + "/target")
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes that differ, error %v", len(got), err)
	}
	if info, _ := os.Stat(g.workspace + "/target"); info.Mode() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}
	if _, data, _ := g.ask(wire.OpReadFileStream, object{"path": "target"}).readStream(); !bytes.Equal(data, content) {
		t.Error("read back it differs")
	}
}

// TestWritesAreWhole reads a file while it is written: it is one or the other.
func TestWritesAreWhole(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	versions := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 200_000)}
	g.call(wire.OpWriteFile, object{"path": "f", "content": versions[0]})
	var writing sync.WaitGroup
	for i := range 2 {
		writing.Go(func() {
			for range 10 {
				if r := g.call(wire.OpWriteFile, object{"path": "f", "content": versions[i]}); r["ok"] != true {
					t.Errorf("%v", r)
				}
			}
		})
	}
	for range 50 {
		if got := g.get("f"); got != versions[0] && got != versions[1] {
			t.Errorf("%d bytes %.10q…, neither of both", len(got), got)
		}
	}
	writing.Wait()
	if left, _ := filepath.Glob(g.workspace + "/.namzu*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestPartsThroughLinks(t *testing.T) {
	g := newGuest(t, guest.Config{})
	outside := folder(t)
	symlink(t, outside+"/made", g.workspace+"/.namzu-write-out.part")
	symlink(t, "made", g.workspace+"/.namzu-write-in.part")
	for _, temp := range []string{".namzu-write-out.part", ".namzu-write-in.part"} {
		r := g.call(wire.OpWriteFile, object{"path": temp, "content": "x", "part": object{"offset": 0}})
		if got, _ := r["error"].(string); wire.Code(got) != "ELOOP" {
			t.Errorf("%s, a link to nothing: %v", temp, r)
		}
	}
	for _, path := range []string{outside + "/made", g.workspace + "/made"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was made", path)
		}
	}
}

func TestWriteRefusals(t *testing.T) {
	g := newGuest(t, guest.Config{})
	for _, test := range []struct {
		name string
		body object
		want string
	}{
		{"a path that is no text", object{"path": true, "content": "x"}, `The "path" argument must be of type string. Received type boolean (true)`},
		{"a path that is a list", object{"path": []string{"x"}, "content": "x"}, `The "path" argument must be of type string. Received an instance of Array`},
		{"zero is no path", object{"path": 0, "content": "x"}, "missing_path_or_content"},
		{"a null byte", object{"path": "a\x00b", "content": "x"}, `The argument 'path' must be a string, Uint8Array, or URL without null bytes. Received '` + g.workspace + `/a\x00b'`},
		{"an offset that is a list", object{"path": "t", "content": "x", "part": object{"offset": []int{1}}}, "write_part_invalid_offset: [1]"},
		{"a target that is no text", object{"path": "t", "content": "x", "part": object{"final": true, "renameTo": 5}}, "write_part_missing_rename_target"},
		{"the workspace as temporary file", object{"path": ".", "content": "x", "part": object{}}, "EISDIR: illegal operation on a directory, open '" + g.workspace + "'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if r := g.call(wire.OpWriteFile, test.body); r["error"] != test.want {
				t.Errorf("%v, want %q", r, test.want)
			}
		})
	}
	if entries, _ := os.ReadDir(g.workspace); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
}
