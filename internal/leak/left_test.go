//go:build linux

package leak

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestProcessesAndDescriptors starts a program and does not wait for it.
func TestProcessesAndDescriptors(t *testing.T) {
	dir, err := os.MkdirTemp("", "it (is) 1 S 2 ")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	files, children := Descriptors(""), Children("")
	c := exec.Command("cat")
	c.Dir = dir
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if got := Processes(dir); len(got) != 1 || !strings.HasSuffix(got[0], " cat ") {
		t.Errorf("Processes = %q", got)
	}
	if got := left(0, func() []string { return Children("") }); len(got) != len(children)+1 {
		t.Errorf("Children = %q, and before %q", got, children)
	}
	if now := Descriptors(""); !slices.Contains(now, "pipe") || len(now) <= len(files) {
		t.Errorf("Descriptors = %q, and before %q", now, files)
	}
	in.Close()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	for name, left := range map[string][]string{
		"files":     Left(files, func() []string { return Descriptors("") }),
		"children":  Left(children, func() []string { return Children("") }),
		"processes": Left(nil, func() []string { return Processes(dir) }),
	} {
		if len(left) > 0 {
			t.Errorf("%s are left: %q", name, left)
		}
	}
	if got := Left([]string{"a", "b"}, func() []string { return []string{"b"} }); got != nil {
		t.Errorf("Left = %q of what was there before", got)
	}
}
