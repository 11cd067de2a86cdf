package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestReplaceFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "f")
	if err := os.WriteFile(path, []byte("old and longer"), 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(folder, "link")
	if err := os.Symlink("f", link); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{path, link, filepath.Join(folder, "new")} {
		if err := checkDestination(to); err != nil {
			t.Errorf("checkDestination(%s): %v", to, err)
		}
		if err := replaceFile(to, writing(to)); err != nil {
			t.Errorf("replaceFile(%s): %v", to, err)
		}
		if got, err := os.ReadFile(to); string(got) != to || err != nil {
			t.Errorf("%s holds %q, %v", to, got, err)
		}
	}
	if got, err := os.ReadFile(path); string(got) != link || err != nil {
		t.Errorf("the file behind the link holds %q, %v; want what was written through it", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the replaced file's mode is %v, %v; want that of the old one", info.Mode(), err)
	}
	if names := list(t, folder); len(names) != 3 {
		t.Errorf("left beside the files: %q", names)
	}
}

// What is no file must neither be replaced nor have anything read for it.
func TestCheckDestinationRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, path := range []string{folder, os.DevNull, filepath.Join(folder, "missing", "f")} {
		if err := checkDestination(path); err == nil {
			t.Errorf("checkDestination(%s) accepts it", path)
		}
	}
}

func TestReplaceFileThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "d")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(path, writing("x")); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	if names := list(t, folder); len(names) != 1 || names[0] != "d" {
		t.Errorf("the folder holds %q, want d alone", names)
	}
}

func list(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// writing returns a function that writes the text.
func writing(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}
