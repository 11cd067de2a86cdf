package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/sandlot-go/sandlot/transport"
)

const (
	treeDir       = "smoke/tree"
	treeFileBytes = 100 << 10 // of the largest file of the tree, at most
)

// A leaf is what there is at a path of a tree.
type leaf struct {
	dir, executable bool
	data            string
}

func (l leaf) String() string {
	switch {
	case l.dir:
		return "a directory"
	case l.executable:
		return fmt.Sprintf("an executable of %d bytes", len(l.data))
	}
	return fmt.Sprintf("a file of %d bytes", len(l.data))
}

// leaves is the tree that is copied there and back: of each kind of thing one.
func (t *trial) leaves() map[string]leaf {
	return map[string]leaf{
		".":                        {dir: true},
		"no bytes":                 {},
		"run.sh":                   {executable: true, data: "#!/bin/sh\nexit 0\n"},
		"nobody here":              {dir: true},
		"deep":                     {dir: true},
		"deep/er":                  {dir: true},
		"deep/er/ünï ☕.txt":        {data: string(t.files.small)},
		"deep/er/some bytes.bin":   {data: string(t.files.large[:min(len(t.files.large), treeFileBytes)])},
		"deep/-n $(false) *":       {data: "a name that no shell must see\n"},
		"deep/er/under/the/ground": {data: "x"},
		"deep/er/under":            {dir: true},
		"deep/er/under/the":        {dir: true},
	}
}

// tree copies a tree into the guest and back, and compares every byte. An image
// that cannot list a directory is read file by file.
func (t *trial) tree(ctx context.Context) (_ string, err error) {
	local, err := os.MkdirTemp("", "smoke-tree-")
	if err != nil {
		return "", &configError{fmt.Errorf("a tree cannot be made on this side; TMPDIR says where: %w", err)}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(local)) }()
	want := t.leaves()
	there, back := filepath.Join(local, "there"), filepath.Join(local, "back")
	if err := errors.Join(plant(there, want), os.Mkdir(back, 0o700)); err != nil {
		return "", &configError{err}
	}
	put, err := t.sandbox.PutTree(ctx, treeDir, os.DirFS(there), transport.TreeOptions{})
	if err != nil {
		return "", err
	}
	if len(put.Skipped) > 0 {
		return "", wrong("of a tree %s was not copied: %s", put.Skipped[0].Path, put.Skipped[0].Reason)
	}
	detail := fmt.Sprintf("%s of %s, put", count(put.Files, "file"), size(int(put.Bytes)))
	_, err = t.sandbox.Command(ctx, "sh", "-c", `find . -maxdepth 0 -printf x && base64 </dev/null`).Output()
	if is[*transport.ExitError](err) {
		return detail + "; the image has no GNU find and base64, so they were fetched one by one", t.readLeaves(ctx, want)
	}
	if err != nil {
		return "", err
	}
	if err := t.list(ctx, want); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(back)
	if err != nil {
		return "", &configError{err}
	}
	defer root.Close()
	if _, err := t.sandbox.GetTree(ctx, root, treeDir, transport.TreeOptions{}); err != nil {
		return "", err
	}
	got, err := harvest(back)
	if err != nil {
		return "", err
	}
	return detail + ", listed, and fetched without a difference", compare("came back as", got, want)
}

// plant makes a tree on this side.
func plant(dir string, leaves map[string]leaf) error {
	for name, l := range leaves {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if l.dir {
			if err := os.MkdirAll(file, 0o700); err != nil {
				return err
			}
			continue
		}
		mode := fs.FileMode(0o600)
		if l.executable {
			mode = 0o700
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(l.data), mode)); err != nil {
			return err
		}
	}
	return nil
}

// harvest is the tree that is below a directory of this side.
func harvest(dir string) (map[string]leaf, error) {
	got := map[string]leaf{}
	tree := os.DirFS(dir)
	return got, fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			got[name] = leaf{dir: true}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		got[name] = leaf{executable: info.Mode()&0o100 != 0, data: string(data)}
		return err
	})
}

// compare names the first difference of two trees; what is how got came to be.
func compare(what string, got, want map[string]leaf) error {
	for name, l := range want {
		if g, there := got[name]; !there {
			return wrong("%q, %v, is missing in what %s a tree", name, l, what)
		} else if g != l {
			return wrong("%q, %v, %s %v and is not the same", name, l, what, g)
		}
	}
	for name, l := range got {
		if _, there := want[name]; !there {
			return wrong("%q, %v, which nobody has put there, %s a part of the tree", name, l, what)
		}
	}
	return nil
}

// list compares the guest's list of the tree, and of its first level.
func (t *trial) list(ctx context.Context, want map[string]leaf) error {
	deep, flat := 0, 0
	for entry, err := range t.sandbox.Walk(ctx, treeDir, transport.WalkOptions{}) {
		if err != nil {
			return err
		}
		l, there := want[entry.Path]
		if !there || l.dir != entry.Mode.IsDir() || !l.dir && entry.Size != int64(len(l.data)) {
			return wrong("the guest lists %q as %v of %d bytes, where %v was put", entry.Path, entry.Mode, entry.Size, l)
		}
		deep++
		if path.Dir(entry.Path) == "." {
			flat++
		}
	}
	for _, err := range t.sandbox.List(ctx, treeDir) {
		if err != nil {
			return err
		}
		flat--
	}
	if deep != len(want)-1 || flat != 0 {
		return wrong("the guest lists %d of the %d things in a tree, and %+d too few in its first level", deep, len(want)-1, flat)
	}
	return nil
}

// readLeaves compares the files one by one.
func (t *trial) readLeaves(ctx context.Context, want map[string]leaf) error {
	for name, l := range want {
		if l.dir {
			continue
		}
		got, err := t.sandbox.ReadFile(ctx, path.Join(treeDir, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, []byte(l.data)) {
			return wrong("%q, %v, came back as %d bytes and is not the same", name, l, len(got))
		}
	}
	return nil
}
