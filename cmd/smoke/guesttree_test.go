package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGuestTree(t *testing.T) {
	t.Parallel()
	at, workspace := startGuest(t)
	local := t.TempDir()
	files := map[string]string{"a": "first", "deep/er/b": "second", "c d\n": "a name with a newline"}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(local, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(local, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	onGuest(t, nil, at, "tree", "put", local, "in").expect(t, 0, "copied 3 files")
	if err := os.Symlink("/etc/passwd", filepath.Join(workspace, "in", "link")); err != nil {
		t.Fatal(err)
	}

	listed := onGuest(t, nil, at, "ls", "in")
	listed.expect(t, 0, " a\n", "link -> /etc/passwd", " deep\n")
	if strings.Contains(listed.stdout, "er/b") || strings.Contains(listed.stdout, "c d\n") {
		t.Errorf("the directory alone was asked for, and no name may break the line\n%v", listed)
	}
	onGuest(t, nil, at, "ls", "-r", "in").expect(t, 0, "deep/er/b")
	if a, deep := strings.Index(listed.stdout, " a\n"), strings.Index(listed.stdout, " deep\n"); a > deep {
		t.Errorf("the names are in no order\n%v", listed)
	}
	onGuest(t, nil, at, "ls", "none").expect(t, exitFailed, "none")

	back := filepath.Join(t.TempDir(), "back")
	onGuest(t, nil, at, "tree", "get", "in", back).expect(t, 0, "copied 3 files", "left out link")
	for name, text := range files {
		if got, err := os.ReadFile(filepath.Join(back, name)); err != nil || string(got) != text {
			t.Errorf("%q came back as %q, %v", name, got, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(back, "link")); err == nil {
		t.Error("a symbolic link of the guest's came through")
	}
	onGuest(t, nil, at, "tree", "get", "none", back).expect(t, exitFailed, "none")
	empty := filepath.Join(t.TempDir(), "empty")
	if r := onGuest(t, nil, at, "tree", "get", "none", empty); r.code != exitFailed || strings.Contains(r.stderr, "copied") {
		t.Errorf("nothing was copied, and that is no news: %v", r)
	}
	if _, err := os.Lstat(empty); err == nil {
		t.Error("a copy of nothing left a directory")
	}
	onGuest(t, nil, at, "tree", "move", "a", "b").expect(t, exitUsage, "put or get")
}
