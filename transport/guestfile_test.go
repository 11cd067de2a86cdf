//go:build linux

package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport"
)

// random is content that does not compress or repeat.
func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

func TestGuestFiles(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	for _, size := range []int{0, 1, 1000, 256 << 10, 256<<10 + 1, 1<<20 + 1, 7 << 20} {
		content := random(size)
		ctx := limited(t)
		n, err := g.WriteFile(ctx, "some/where/f", iotest.HalfReader(bytes.NewReader(content)))
		if n != int64(size) || err != nil {
			t.Fatalf("%d bytes: wrote %d, %v", size, n, err)
		}
		got, err := g.ReadFile(ctx, "some/where/f")
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: read %d, %v", size, len(got), err)
		}
		at, length := int64(size/3), int64(size/2)
		part, whole, err := g.ReadRange(ctx, "some/where/f", at, length)
		if err != nil || whole != int64(size) || !bytes.Equal(part, content[at:at+length]) {
			t.Errorf("%d bytes: read %d from %d of %d, %v", size, len(part), at, whole, err)
		}
		if part, whole, err = g.ReadRange(ctx, "some/where/f", int64(size)+5, 10); err != nil || len(part) != 0 || whole != int64(size) {
			t.Errorf("%d bytes: behind the end are %d of %d, %v", size, len(part), whole, err)
		}
		if left, _ := filepath.Glob(filepath.Join(g.workspace, "some/where/.namzu*")); len(left) > 0 {
			t.Errorf("%d bytes: left behind: %v", size, left)
		}
	}
}

func TestGuestKeepsTheMode(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	name := filepath.Join(g.workspace, "tool")
	if err := os.WriteFile(name, []byte("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{3, 6 << 20} {
		if _, err := g.WriteFile(limited(t), "tool", bytes.NewReader(random(size))); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(name); err != nil || fi.Mode() != 0o755 || fi.Size() != int64(size) {
			t.Errorf("%d bytes: %v, %v", size, fi, err)
		}
	}
}

func TestGuestFilesThatCannotBe(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	if err := os.Symlink("/etc", filepath.Join(g.workspace, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(g.workspace, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	read := func(path string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := g.ReadFile(ctx, path); return err }
	}
	write := func(path string, size int) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := g.WriteFile(ctx, path, bytes.NewReader(make([]byte, size)))
			return err
		}
	}
	for _, tt := range []struct {
		name string
		op   func(context.Context) error
		is   error
		text string
	}{
		{"reading what is missing", read("none"), fs.ErrNotExist, "ENOENT"},
		{"reading a directory", read("dir"), nil, "not_a_regular_file"},
		{"reading above", read("../x"), nil, "path escapes the workspace"},
		{"reading elsewhere", read("/etc/passwd"), nil, "path escapes the workspace"},
		{"reading through a link", read("link/passwd"), nil, "symlink escapes the workspace"},
		{"reading nothing", read(""), nil, "missing_path"},
		{"writing above", write("../x", 1), nil, "path escapes the workspace"},
		{"writing above in parts", write("../x", 6<<20), nil, "path escapes the workspace"},
		{"writing through a link", write("link/x", 1), nil, "symlink escapes the workspace"},
		{"writing to a directory", write("dir", 1), nil, "EISDIR"},
		{"writing nothing", write("", 1), nil, "missing_path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.op(limited(t))
			if errorAs[*transport.FileError](t, err); tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %q in it", err, tt.text)
			}
		})
	}
}

// TestGuestWriteThatBreaksOff leaves the file as it was and nothing beside it.
func TestGuestWriteThatBreaksOff(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	if err := os.WriteFile(filepath.Join(g.workspace, "f"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(name string) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(g.workspace, "f"))
		left, _ := filepath.Glob(filepath.Join(g.workspace, ".namzu*"))
		if string(got) != "old" || err != nil || len(left) > 0 {
			t.Errorf("%s: the file is %.10q, %v, and beside it is %v", name, got, err, left)
		}
	}
	_, err := g.WriteFile(limited(t), "f", io.MultiReader(bytes.NewReader(random(7<<20)), failing{}))
	if !errors.Is(err, errFailing) {
		t.Errorf("got %v", err)
	}
	check("by the reader")
	ctx, cancel := context.WithCancelCause(limited(t))
	sent := 0
	_, err = g.WriteFile(ctx, "f", reader(func(b []byte) (int, error) {
		if sent += len(b); sent > 7<<20 {
			cancel(errCause)
		}
		return len(b), nil
	}))
	if err != errCause {
		t.Errorf("got %v", err)
	}
	check("by the context")
}

func TestGuestManyFilesAtOnce(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			name, content := string(rune('a'+i)), random(100_000+i)
			if _, err := g.WriteFile(limited(t), name, bytes.NewReader(content)); err != nil {
				t.Error(err)
			}
			if got, err := g.ReadFile(limited(t), name); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		})
	}
	wg.Wait()
}

func TestGuestThatDoesNotKnowTheToken(t *testing.T) {
	g := newRealGuest(t, guest.Config{})
	config := transport.Config{Host: "127.0.0.1", Port: g.port, Token: "another-token"}
	use := func(a *transport.Agent) map[string]error {
		_, read := a.ReadFile(limited(t), "f")
		_, small := a.WriteFile(limited(t), "f", strings.NewReader("x"))
		_, large := a.WriteFile(limited(t), "f", bytes.NewReader(make([]byte, 6<<20)))
		return map[string]error{"exec": a.Command(limited(t), "true").Run(), "read": read, "write": small, "write in parts": large}
	}
	a, err := transport.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for name, err := range use(a) {
		if !isUnauthorized(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	config.Refresh = func(context.Context) (transport.Endpoint, error) {
		return transport.Endpoint{Host: "127.0.0.1", Port: g.port, Token: token}, nil
	}
	b, err := transport.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for name, err := range use(b) {
		if err != nil && name != "read" {
			t.Errorf("%s after a refresh: %v", name, err)
		}
	}
	if b.BootID() == "" || a.BootID() != "" {
		t.Errorf("boot ids %q and %q", a.BootID(), b.BootID())
	}
}
