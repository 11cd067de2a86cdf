//go:build linux

package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

func openRoot(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

// tree is what is in a directory: content, type or link by path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			got[name] = "dir"
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			got[name] = "-> " + link
			return err
		default:
			b, err := os.ReadFile(path)
			info, _ := d.Info()
			got[name] = fmt.Sprintf("%s %v", b, info.Mode()&0o100 != 0)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%q is %.60q, want %.60q", name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q is there as well", name)
		}
	}
}

func TestTreeThereAndBack(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	large := strings.Repeat("0123456789", 300_000)
	from := fstest.MapFS{
		"a.txt": {Data: []byte("a"), Mode: 0o644}, "bin/run": {Data: []byte("#!/bin/sh\necho ran\n"), Mode: 0o755}, "-f": {Mode: 0o600},
		"deep/er/é \n": {Data: []byte("é"), Mode: 0o644}, "empty": {Mode: fs.ModeDir | 0o755}, "large": {Data: []byte(large), Mode: 0o644},
		"link": {Data: []byte("a.txt"), Mode: fs.ModeSymlink | 0o777},
	}
	var progress []transport.Progress
	report, err := g.PutTree(limited(t), "put/here", from, transport.TreeOptions{Progress: func(p transport.Progress) { progress = append(progress, p) }})
	if err != nil {
		t.Fatal(err)
	}
	if bytes := int64(len(large) + 1 + 19 + 2); report.Files != 5 || report.Bytes != bytes || len(progress) != 5 || progress[4].Files != 5 || progress[4].Bytes != bytes {
		t.Errorf("report %+v, progress %+v", report, progress)
	}
	if len(report.Skipped) != 1 || report.Skipped[0].Path != "link" {
		t.Errorf("skipped %+v", report.Skipped)
	}
	want := map[string]string{
		".": "dir", "a.txt": "a false", "bin": "dir", "bin/run": "#!/bin/sh\necho ran\n true", "-f": " false", "deep": "dir", "deep/er": "dir", "deep/er/é \n": "é false", "empty": "dir", "large": large + " false",
	}
	same(t, tree(t, filepath.Join(g.workspace, "put/here")), want)
	if out, err := g.Command(limited(t), "put/here/bin/run").Output(); string(out) != "ran\n" || err != nil {
		t.Errorf("what was executable: %q, %v", out, err)
	}

	root, dir := openRoot(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("untouched"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	here := filepath.Join(g.workspace, "put/here")
	for _, link := range []string{"link", "bin/link"} {
		if err := os.Symlink("/etc", filepath.Join(here, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(here, "no\xfftext"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	report, err = g.GetTree(limited(t), root, "put/here", transport.TreeOptions{})
	if err != nil || report.Files != 5 {
		t.Fatalf("%+v, %v", report, err)
	}
	same(t, tree(t, dir), want)
	if b, err := os.ReadFile(outside); string(b) != "untouched" || err != nil {
		t.Errorf("outside is %q, %v", b, err)
	}
	var skipped []string
	for _, s := range report.Skipped {
		skipped = append(skipped, s.Path)
	}
	slices.Sort(skipped)
	if !slices.Equal(skipped, []string{"bin/link", "link", "no\xfftext"}) {
		t.Errorf("skipped %q", skipped)
	}
}

// TestTreeStaysInside has a link where the tree wants to have a directory.
func TestTreeStaysInside(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	if _, err := g.PutTree(limited(t), "src", fstest.MapFS{"d/f": {Data: []byte("x")}}, transport.TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	root, dir := openRoot(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	_, err := g.GetTree(limited(t), root, "src", transport.TreeOptions{})
	errorAs[*transport.TreeError](t, err)
	if got := tree(t, outside); len(got) != 1 {
		t.Errorf("outside there is %v", got)
	}
	_, err = g.PutTree(limited(t), "../../out", fstest.MapFS{"f": {Data: []byte("x")}}, transport.TreeOptions{})
	if err == nil {
		t.Error("a tree was put outside of the workspace")
	}
}

func TestTreeLimits(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	from := fstest.MapFS{}
	for i := range 20 {
		from[fmt.Sprintf("f%02d", i)] = &fstest.MapFile{Data: bytes.Repeat([]byte("x"), 1000)}
	}
	if _, err := g.PutTree(limited(t), "few", from, transport.TreeOptions{MaxFiles: 19}); err == nil || !strings.Contains(err.Error(), "more than 19 files") {
		t.Errorf("PutTree: %v", err)
	}
	report, err := g.PutTree(limited(t), "small", from, transport.TreeOptions{MaxBytes: 19_999})
	if _, ok := errors.AsType[*transport.TooLargeError](err); !ok || report.Files > 19 || transport.SafeToRetry(err) {
		t.Errorf("PutTree: %+v, %v", report, err)
	}
	if report, err := g.PutTree(limited(t), "all", from, transport.TreeOptions{MaxFiles: 20, MaxBytes: 20_000}); err != nil || report.Files != 20 {
		t.Errorf("PutTree: %+v, %v", report, err)
	}
	root, dir := openRoot(t)
	if _, err := g.GetTree(limited(t), root, "all", transport.TreeOptions{MaxFiles: 19}); err == nil || !strings.Contains(err.Error(), "more than 19 files") {
		t.Errorf("GetTree: %v", err)
	}
	report, err = g.GetTree(limited(t), root, "all", transport.TreeOptions{MaxBytes: 19_999})
	if _, ok := errors.AsType[*transport.TooLargeError](err); !ok || report.Files > 19 {
		t.Errorf("GetTree: %+v, %v", report, err)
	}
	for name, content := range tree(t, dir) {
		if name != "." && content != string(bytes.Repeat([]byte("x"), 1000))+" false" {
			t.Errorf("%s is left in part: %d bytes", name, len(content))
		}
	}
	if report, err := g.GetTree(limited(t), root, "all", transport.TreeOptions{MaxFiles: 20, MaxBytes: 20_000}); err != nil || report.Files != 20 {
		t.Errorf("GetTree: %+v, %v", report, err)
	}
	if _, err := g.GetTree(limited(t), root, "none", transport.TreeOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("GetTree of nothing: %v", err)
	}
}

func TestTreeIsEnded(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	from := fstest.MapFS{}
	for i := range 50 {
		from[fmt.Sprintf("f%02d", i)] = &fstest.MapFile{Data: []byte("x")}
	}
	ctx, cancel := context.WithCancelCause(limited(t))
	report, err := g.PutTree(ctx, "d", from, transport.TreeOptions{Progress: func(p transport.Progress) {
		if p.Files == 10 {
			cancel(errCause)
		}
	}})
	if err != errCause || report.Files < 10 || report.Files > 20 {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := g.PutTree(limited(t), "e", brokenFS{from}, transport.TreeOptions{}); !errors.Is(err, errFailing) || errorAs[*transport.TreeError](t, err).Path == "" {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// TestPutTreeWhereItCannotBe has the guest's program fail, which is to say little.
func TestPutTreeWhereItCannotBe(t *testing.T) {
	from := fstest.MapFS{"sub/f": &fstest.MapFile{Data: []byte("x")}}
	exit1 := `{"type":"result","exitCode":1,"timedOut":false,"durationMs":1}`
	steps := []Step{executing(Field("command", "mkdir"), Field("args", []any{"-p", "--", "d", "d/sub"}), Field("maxOutputBytes", 4096)), stderr("mkdir: d: \x1b no\n"), finish(exit1)}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		_, err := p.PutTree(t.Context(), "d", from, transport.TreeOptions{})
		if text := errorAs[*transport.TreeError](t, err).Error(); !strings.Contains(text, `"mkdir: d: \x1b no\n"`) || transport.SafeToRetry(err) {
			t.Errorf("got %v", err)
		}
	})
}

// brokenFS has files that cannot be read to their end.
type brokenFS struct{ fs.FS }

func (b brokenFS) Open(name string) (fs.File, error) {
	if name == "f25" {
		return nil, errFailing
	}
	return b.FS.Open(name)
}

// TestWalkOfAGuest lists what real programs see.
func TestWalkOfAGuest(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	d := filepath.Join(g.workspace, "d")
	if err := os.MkdirAll(filepath.Join(d, "sub/sub"), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"-n", "new\nline", "no\xfftext", "sub/sub/deep", "done"} {
		if err := os.WriteFile(filepath.Join(d, name), []byte("12345"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("d", filepath.Join(g.workspace, "toD")); err != nil {
		t.Fatal(err)
	}
	names := func(dir string, o transport.WalkOptions) (list []string, err error) {
		for e, err := range g.Walk(limited(t), dir, o) {
			if err != nil {
				return list, err
			}
			list = append(list, e.Path)
			if e.Mode.IsRegular() && (e.Size != 5 || e.Mode.Perm() != 0o640) {
				t.Errorf("%+v", e)
			}
		}
		slices.Sort(list)
		return list, nil
	}
	all := []string{"-n", "done", "new\nline", "no\xfftext", "sub", "sub/sub", "sub/sub/deep"}
	for dir, depth := range map[string]int{"d": 0, d: 0, "./d/": 9, "d/.": 2} {
		want := slices.Clone(all)
		if depth == 2 {
			want = all[:6]
		}
		if got, err := names(dir, transport.WalkOptions{MaxDepth: depth}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s to %d: %q, %v, want %q", dir, depth, got, err, want)
		}
	}
	for dir, text := range map[string]string{"toD": "no directory", "d/done": "no directory", "none": "No such file"} {
		if got, err := names(dir, transport.WalkOptions{}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
	if got, err := names("d", transport.WalkOptions{MaxEntries: 6}); err == nil || len(got) > 6 {
		t.Errorf("more than the limit: %q, %v", got, err)
	}
	for range g.List(limited(t), "d") {
		break
	}
	f, err := g.Open(limited(t), "d/done")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "12345" || err != nil || f.Size() != 5 {
		t.Errorf("Open: %q, %v", b, err)
	}
}
