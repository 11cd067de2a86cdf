//go:build linux

package guest_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/jsontree"
)

// FuzzFirstBytes sends anything as the first bytes of a connection that never
// authenticates: it is refused or ended, and the guest goes on.
func FuzzFirstBytes(f *testing.F) {
	for _, seed := range []string{
		"00000010\n{\"op\":\"healthz\"}", "0000001c\n{\"op\":\"healthz\",\"token\":null}", "00000000\n", "zzzzzzzz\n", "ffffffff\n", "00000004\nnull",
		"0000002d\n{\"op\":\"execute\",\"body\":{\"command\":\"true\"}}   ", "0000", "",
	} {
		f.Add([]byte(seed))
	}
	g := newGuest(f, guest.Config{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), testToken) {
			t.Skip("knows the token")
		}
		conn, _, err := g.connect()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		l := newLine(t, conn)
		l.conn.Write(data)
		conn.CloseWrite()
		frames := 0
		for {
			payload, err := l.frames.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
					t.Fatalf("after %d frames: %v", frames, err)
				}
				break
			}
			if frames++; frames > 1 {
				t.Fatalf("a second frame %q", payload)
			}
			var o object
			if json.Unmarshal(payload, &o) != nil || o["ok"] == true && o["features"] == nil || o["ok"] == nil {
				t.Fatalf("%q is no reply to somebody who has not authenticated", payload)
			}
		}
	})
}

// FuzzJail resolves paths in a workspace that has links in all directions.
func FuzzJail(f *testing.F) {
	for _, seed := range []string{"a/file", "../x", "in/file", "out/file", "out/new/x", "loop/x", "back/file", "/etc/passwd", "a//./b/../file", "dangling", "a\x00b", ".", "", "\xff", "proc/self/root/etc/passwd"} {
		f.Add(seed)
	}
	g := newGuest(f, guest.Config{})
	outside, err := newFolder()
	if err != nil {
		f.Fatal(err)
	}
	g.put("a/file", "inside", 0o644)
	os.WriteFile(outside+"/file", []byte("outside"), 0o644)
	for name, target := range map[string]string{
		"in": "a", "out": outside, "loop": "loop", "dangling": outside + "/nothing", "proc": "/proc", "root": "/", "up": "..", "abs": g.workspace + "/a",
	} {
		os.Symlink(target, filepath.Join(g.workspace, name))
	}
	os.Symlink(g.workspace, outside+"/back")
	f.Fuzz(func(t *testing.T, path string) {
		inside := func(p string) bool { return p == g.workspace || strings.HasPrefix(p, g.workspace+"/") }
		if file, err := g.server.OpenInside(path); err == nil {
			real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
			file.Close()
			if err == nil && !inside(real) {
				t.Errorf("reading %q opens %q", path, real)
			}
		}
		if place, err := g.server.PlaceInside(path); err == nil && !inside(place) {
			t.Errorf("writing %q goes to %q", path, place)
		}
		if entries, _ := os.ReadDir(outside); len(entries) != 2 {
			t.Errorf("%q has made %v outside", path, entries)
		}
		for _, dir := range []string{g.workspace} { // made by writing
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if name := e.Name(); name != "a" && e.IsDir() {
					os.RemoveAll(filepath.Join(dir, name))
				}
			}
		}
	})
}

// FuzzOrder checks execute bodies of any shape.
func FuzzOrder(f *testing.F) {
	for _, seed := range []string{
		`{"command":"true"}`, `{"command":5,"args":"x"}`, `{"command":"a","args":[1,null,{"a":[]}],"env":{"A":null,"B":[1,[2]]},"timeoutMs":"0x10","maxOutputBytes":-1e400}`,
		`{"command":"a","cwd":"../x"}`, `{"command":"a","cwd":5}`, `{"command":"a","executionId":null}`, `{"command":"a","timeoutMs":[],"stdin":{}}`,
	} {
		f.Add([]byte(seed))
	}
	g := newGuest(f, guest.Config{})
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := jsontree.ParseObject(data)
		if err != nil {
			return
		}
		if err := g.server.CheckOrder(body); err != nil && !utf8.ValidString(err.Error()) {
			t.Errorf("the refusal is no text: %q", err)
		}
		for _, v := range body {
			text := guest.TextOf(v)
			number := guest.NumberOf(v)
			if _, ok := v.(json.Number); ok && !math.IsNaN(number) && guest.NumberOf(text) != number {
				t.Errorf("number %v reads as %v, its text %q as %v", v, number, text, guest.NumberOf(text))
			}
		}
	})
}

// FuzzText decodes text: what comes out is text, and what was text stays as it is.
func FuzzText(f *testing.F) {
	f.Add([]byte("d\xc3\xa9but"), "aGk=")
	f.Add([]byte("\xf0\x9f\x98"), "a-_/+b=c")
	f.Fuzz(func(t *testing.T, data []byte, encoded string) {
		text := guest.DecodeText(data)
		if !utf8.ValidString(text) || utf8.Valid(data) && text != string(data) {
			t.Errorf("%q becomes %q", data, text)
		}
		if len(guest.DecodeBase64(encoded)) > len(encoded)*3/4+1 {
			t.Errorf("%q decodes to more than it can", encoded)
		}
	})
}

// FuzzProcess reads /proc/<pid>/stat, in which a program has a say: its name can
// be anything. Whatever it is, it changes no number.
func FuzzProcess(f *testing.F) {
	real, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(real, "sleep")
	for _, name := range []string{"", ")", "(", ") Z 1 1 1 (", "a b", "\n", "x) R 0 0 0", "\xff\x00"} {
		f.Add([]byte("12 (sh) S 1 12 12 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 4711 2 3"), name)
	}
	f.Fuzz(func(t *testing.T, stat []byte, name string) {
		if pid, _, _, _, _, state, _, ok := guest.ParseProcess(stat); ok && (len(state) != 1 || strconv.Itoa(pid) == "") {
			t.Errorf("%q: process %d, state %q", stat, pid, state)
		}
		named := "77 (" + name + ") S 2 88 99 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 4711 2 3\n"
		pid, parent, group, session, command, state, started, ok := guest.ParseProcess([]byte(named))
		if !ok || pid != 77 || parent != 2 || group != 88 || session != 99 || command != name || state != "S" || started != "4711" {
			t.Errorf("%q: %d %d %d %d %q %q %q %v", named, pid, parent, group, session, command, state, started, ok)
		}
	})
}
