package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEscaping(t *testing.T) {
	for _, c := range []struct {
		typed, passed string
		left          bool
	}{
		{"ls\r", "ls\r", false},
		{"~.never", "", true},
		{"ls\r~.never", "ls\r", true},
		{"ls\n~.", "ls\n", true},
		{"cd ~.\r", "cd ~.\r", false},
		{"~/bin/x\r", "~/bin/x\r", false},
		{"~~.\r", "~.\r", false},
		{"~\r~.", "~\r", true},
		{"~", "~", false},
		{"", "", false},
	} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(c.typed), "key by key": iotest.OneByteReader(strings.NewReader(c.typed))} {
			got, err := io.ReadAll(&escaping{r: r})
			if string(got) != c.passed || errors.Is(err, errLeft) != c.left || err != nil && !c.left {
				t.Errorf("%q typed %s passes on %q, %v; want %q, left %t", c.typed, name, got, err, c.passed, c.left)
			}
		}
	}
}
