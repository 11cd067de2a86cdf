package acquire_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/transport"
)

// liveSandbox is a sandbox of the rig's pool that is given back after the test.
func liveSandbox(t *testing.T) *acquire.Sandbox {
	t.Helper()
	sb, err := liveBackend(t, nil).Create(t.Context(), acquire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return sb // its backend ends it
}

// A tree of thousands of files comes back from a real pod as it went: empty
// files and directories, executables, names that a shell would trip over.
func TestLiveTree(t *testing.T) {
	const files = 5000
	there, back := t.TempDir(), t.TempDir()
	source := rand.NewChaCha8([32]byte{5})
	var bytes int64
	for i := range files {
		dir := []string{"plain", "with spaces", "ünïcode ☕/日本", "-n $(false) *", "a/b/c/d"}[i%5]
		file := filepath.Join(there, filepath.FromSlash(dir), fmt.Sprintf("%02d", i/100), fmt.Sprintf("file %d.é", i))
		data := make([]byte, []int{0, 1, 100, 4096, 20_000}[i%7%5])
		source.Read(data)
		mode := fs.FileMode(0o600)
		if i%11 == 0 {
			mode = 0o700
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, mode); err != nil {
			t.Fatal(err)
		}
		bytes += int64(len(data))
	}
	for _, dir := range []string{"nobody here", "plain/nor here/nor below"} {
		if err := os.MkdirAll(filepath.Join(there, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sb := liveSandbox(t)
	begin := time.Now()
	put, err := sb.PutTree(t.Context(), "tree", os.DirFS(there), transport.TreeOptions{})
	if err != nil || put.Files != files || put.Bytes != bytes || len(put.Skipped) > 0 {
		t.Fatalf("put %+v, %v; want %d files, %d bytes", put, err, files, bytes)
	}
	t.Logf("%d files, %d bytes put in %v", files, bytes, time.Since(begin))

	root, err := os.OpenRoot(back)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	begin = time.Now()
	got, err := sb.GetTree(t.Context(), root, "tree", transport.TreeOptions{})
	if err != nil || got.Files != files || got.Bytes != bytes || len(got.Skipped) > 0 {
		t.Fatalf("got %+v, %v; want %d files, %d bytes", got, err, files, bytes)
	}
	t.Logf("fetched in %v", time.Since(begin))
	want, have := summary(t, there), summary(t, back)
	if !maps.Equal(want, have) {
		differ := 0
		for name, sum := range want {
			if have[name] != sum {
				if differ++; differ <= 5 {
					t.Errorf("%q came back as %q, want %q", name, have[name], sum)
				}
			}
		}
		t.Errorf("%d of %d differ; %d came back", differ, len(want), len(have))
	}

	begin = time.Now()
	listed := 0
	for entry, err := range sb.Walk(t.Context(), "tree", transport.WalkOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, there := want[entry.Path]; !there || path.Clean(entry.Path) != entry.Path {
			t.Errorf("%q is listed and nobody has put it there", entry.Path)
		}
		listed++
	}
	if listed != len(want)-1 {
		t.Errorf("%d entries are listed, want %d", listed, len(want)-1)
	}
	t.Logf("%d entries listed in %v", listed, time.Since(begin))
}

// summary is what each thing below a directory is, and its bytes' sum.
func summary(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	tree := os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			all[name] = "directory"
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		all[name] = fmt.Sprintf("executable %t, %d bytes, %x", info.Mode()&0o100 != 0, len(data), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
