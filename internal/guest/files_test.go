//go:build linux

package guest_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

func folder(t *testing.T) string {
	t.Helper()
	dir, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func symlink(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestLinksInPaths(t *testing.T) {
	g := newGuest(t, guest.Config{})
	outside := folder(t)
	g.put("a/file", "inside", 0o644)
	if err := os.WriteFile(outside+"/file", []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	symlink(t, g.workspace+"/a", g.workspace+"/absolute")
	symlink(t, "../"+filepath.Base(g.workspace)+"/a", g.workspace+"/roundabout")
	symlink(t, g.workspace, outside+"/back")
	symlink(t, outside+"/back/a", g.workspace+"/throughoutside")
	symlink(t, outside, g.workspace+"/out")
	symlink(t, "out/file", g.workspace+"/twice")
	symlink(t, "/proc/self/root/etc", g.workspace+"/magic")
	for path, want := range map[string]string{
		"absolute/file": "inside", "roundabout/file": "inside", "throughoutside/file": "inside", "out/back/a/file": "inside",
		g.workspace + "/absolute/file": "inside",
		"out/file":                     "symlink escapes the workspace",
		"twice":                        "symlink escapes the workspace",
		"out":                          "symlink escapes the workspace",
		"magic/hostname":               "symlink escapes the workspace",
		outside + "/file":              "path escapes the workspace",
		"a/../../" + filepath.Base(outside) + "/file": "path escapes the workspace",
		"absolute/../absolute/file":                   "inside",
	} {
		r := g.call(wire.OpReadFile, object{"path": path})
		got, _ := r["content"].(string)
		if text, ok := r["error"].(string); ok {
			got = text
		}
		if got != want {
			t.Errorf("read %s: %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"absolute/new/x": "", "out/back/a/y": "", "out/z": "symlink escapes the workspace", "out/made/here/z": "symlink escapes the workspace",
		"twice": "symlink escapes the workspace", outside + "/z": "path escapes the workspace", ".": "EISDIR: illegal operation on a directory, open '" + g.workspace + "'",
	} {
		r := g.call(wire.OpWriteFile, object{"path": path, "content": "new"})
		if got, _ := r["error"].(string); got != want {
			t.Errorf("write %s: %q, want %q", path, got, want)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 2 { // file and back
		t.Errorf("outside there is now %v", entries)
	}
	if entries, _ := filepath.Glob(filepath.Dir(g.workspace) + "/.namzu*"); len(entries) > 0 {
		t.Errorf("beside the workspace there is now %v", entries)
	}
	if got := g.get("a/new/x") + g.get("a/y"); got != "newnew" {
		t.Errorf("written: %q", got)
	}
}

// TestLinksThatChange swaps a folder of the workspace with a link to outside
// while files below it are read and written. Nothing of outside may show, and
// nothing may come to be there.
func TestLinksThatChange(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	outside := folder(t)
	if err := os.WriteFile(outside+"/file", []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	g.put("real/file", "inside", 0o644)
	symlink(t, outside, g.workspace+"/link")
	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			os.Rename(g.workspace+"/real", g.workspace+"/d")
			os.Rename(g.workspace+"/d", g.workspace+"/real")
			os.Rename(g.workspace+"/link", g.workspace+"/d")
			os.Rename(g.workspace+"/d", g.workspace+"/link")
		}
	})
	seen := map[string]int{}
	for i := range 400 {
		if f, err := g.server.OpenInside("d/file"); err != nil {
			seen[wire.Code(err.Error())]++
		} else {
			content, _ := io.ReadAll(f)
			f.Close()
			seen[string(content)]++
			if string(content) != "inside" {
				t.Errorf("read %q", content)
			}
		}
		if i%8 == 0 {
			g.call(wire.OpWriteFile, object{"path": fmt.Sprintf("d/sub%d/new", i), "content": "new"})
		}
	}
	close(done)
	swapping.Wait()
	t.Log(seen)
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("outside there is now %v", entries)
	}
}

func TestRootsBesideTheWorkspace(t *testing.T) {
	readable, writable := folder(t), folder(t)
	g := newGuest(t, guest.Config{ReadRoots: []string{readable, "/no/such/root"}, WriteRoots: []string{writable, readable + "/w"}})
	for _, dir := range []string{readable, writable} {
		if err := os.WriteFile(dir+"/f", []byte("there"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		op, path, want string
	}{
		{wire.OpReadFile, readable + "/f", ""},
		{wire.OpReadFile, writable + "/f", "path escapes the workspace"},
		{wire.OpReadFile, readable + "2/f", "path escapes the workspace"},
		{wire.OpReadFile, "/no/such/root/x", "ENOENT: no such file or directory, realpath '/no/such/root'"},
		{wire.OpWriteFile, writable + "/g", ""},
		{wire.OpWriteFile, readable + "/f", "path escapes the workspace"},
		{wire.OpWriteFile, readable + "/w/g", "ENOENT: no such file or directory, mkdir '" + readable + "/w'"},
	} {
		r := g.call(test.op, object{"path": test.path, "content": "x"})
		if got, _ := r["error"].(string); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.op, test.path, got, test.want)
		}
	}
	// A write in parts may cross from one root to another.
	r := g.call(wire.OpWriteFile, object{"path": ".namzu-write-x.part", "content": "crossing", "part": object{"final": true, "renameTo": writable + "/deep/file"}})
	if r["ok"] != true {
		t.Errorf("%v", r)
	}
	if got, err := os.ReadFile(writable + "/deep/file"); string(got) != "crossing" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhatIsNoFile(t *testing.T) {
	g := newGuest(t, guest.Config{ReadRoots: []string{"/dev", "/proc"}})
	if err := syscall.Mkfifo(g.workspace+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		op   string
		body object
		want string
	}{
		{wire.OpReadFile, object{"path": "fifo"}, "read_file_not_a_regular_file"},
		{wire.OpReadFile, object{"path": "/dev/zero"}, "read_file_not_a_regular_file"},
		{wire.OpReadFile, object{"path": "/dev/zero", "encoding": "base64", "length": 10}, "read_file_not_a_regular_file"},
		{wire.OpReadFileStream, object{"path": "fifo"}, "read_file_stream_not_a_regular_file"},
		{wire.OpReadFileStream, object{"path": "/dev/zero"}, "read_file_stream_not_a_regular_file"},
		{wire.OpReadFile, object{"path": "/proc/self/fd/0"}, "symlink escapes the workspace"},
	} {
		l := g.ask(test.op, test.body)
		if got := parse(t, l.next())["error"]; got != test.want {
			t.Errorf("%s %v: %v, want %s", test.op, test.body, got, test.want)
		}
		l.rest()
	}
}

func TestReadsThatNoReplyHolds(t *testing.T) {
	g := newGuest(t, guest.Config{MaxFrameBytes: 64 << 10})
	g.put("fits", strings.Repeat("x", 60<<10), 0o644)
	g.put("escapes", strings.Repeat("\x00", 20<<10), 0o644)
	g.put("large", strings.Repeat("x", 65<<10), 0o644)
	for _, test := range []struct {
		path, encoding, want string
	}{
		{"fits", "utf8", ""},
		{"fits", "base64", "read_file_too_large"},
		{"escapes", "utf8", "read_file_too_large"},
		{"escapes", "base64", ""},
		{"large", "utf8", "read_file_too_large"},
	} {
		r := g.call(wire.OpReadFile, object{"path": test.path, "encoding": test.encoding})
		if got, _ := r["error"].(string); wire.Code(got) != test.want {
			t.Errorf("%s as %s: %.200v, want %q", test.path, test.encoding, r, test.want)
		}
	}
}

// readStream reads a read-file-stream, and checks its shape.
func (l *line) readStream() (meta object, data []byte, sent float64) {
	l.t.Helper()
	meta = parse(l.t, l.next())
	for {
		o := parse(l.t, l.next())
		if o["type"] == wire.TypeEnd {
			sent, _ = o["bytesSent"].(float64)
			break
		}
		piece, err := base64.StdEncoding.DecodeString(o["data"].(string))
		if err != nil {
			l.t.Fatal(err)
		}
		data = append(data, piece...)
	}
	if l.next() != "" {
		l.t.Error("no terminator")
	}
	l.end()
	return meta, data, sent
}

func TestStreamOfAFileThatShrinks(t *testing.T) {
	g := newGuest(t, guest.Config{})
	path := g.put("f", "", 0o644)
	const size = 64 << 20
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	l := g.ask(wire.OpReadFileStream, object{"path": "f"})
	// The guest is held up by what is not read yet.
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	meta, data, sent := l.readStream()
	if meta["length"] != float64(size) && meta["length"] != float64(1<<20) {
		t.Errorf("meta %v", meta)
	}
	if float64(len(data)) != sent || len(data) >= size {
		t.Errorf("%d bytes came, the end says %v", len(data), sent)
	}
}

func TestStreamPieces(t *testing.T) {
	g := newGuest(t, guest.Config{ReadChunkBytes: 10})
	g.put("f", "0123456789abcdefghijklmno", 0o644)
	l := g.ask(wire.OpReadFileStream, object{"path": "f", "offset": 1})
	var sizes []int
	for _, payload := range l.rest() {
		if strings.Contains(payload, `"data":`) {
			o := parse(t, payload)
			piece, _ := base64.StdEncoding.DecodeString(o["data"].(string))
			sizes = append(sizes, len(piece))
		}
	}
	if fmt.Sprint(sizes) != "[10 10 4]" {
		t.Errorf("pieces of %v bytes, want 10, 10 and 4", sizes)
	}
}

func TestReaderThatLeaves(t *testing.T) {
	g := newGuest(t, guest.Config{})
	path := g.put("big", "", 0o644)
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	l := g.ask(wire.OpReadFileStream, object{"path": "big"})
	l.next()
	l.conn.Close()
	await(t, l.closed, "the guest's close")
	g.server.WaitAnswers(t.Context())
	for fd := range 1000 {
		if target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && target == path {
			t.Errorf("descriptor %d is still open", fd)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
