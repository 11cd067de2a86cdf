package transport_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const (
	theDir  = "d\x00755\x004096\x001700000000.5\x00\x00\x00"
	theEnd  = "done\x000\x00"
	oneFile = "f\x004755\x007\x001700000000.1234567890\x00\x00a b/\xff\n\x00"
	oneLink = "l\x00777\x003\x001\x00../../etc\x00link\x00"
)

func base64Of(list string) string {
	var b strings.Builder
	text := base64.StdEncoding.EncodeToString([]byte(list))
	for len(text) > 76 {
		fmt.Fprintln(&b, text[:76])
		text = text[76:]
	}
	return b.String() + text + "\n"
}

// walking takes the program that lists, and answers it.
func walking(output string, then ...Step) Step {
	return Seq(executing(Field("command", "/bin/sh")), stdout(output), Seq(then...))
}

func TestWalk(t *testing.T) {
	list := theDir + oneFile + oneLink + theEnd
	script := executing(Field("command", "/bin/sh"), Field("args", []string{"-c", `{ find "$@"; printf 'done\0%d\0' "$?"; } | base64`, "sh", "-P", "./-src", "-maxdepth", "2", "-printf", `%y\0%m\0%s\0%T@\0%l\0%P\0`}))
	for n := range base64Of(list) {
		text := base64Of(list)
		bubble(t, transport.Config{}, []Step{script, stdout(text[:n]), stdout(text[n:]), finish(exit0)}, func(t *testing.T, p *pod) {
			var got []transport.Entry
			for e, err := range p.Walk(t.Context(), "-src", transport.WalkOptions{MaxDepth: 2}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			want := []transport.Entry{
				{Path: "a b/\xff\n", Mode: 0o755 | fs.ModeSetuid, Size: 7, ModTime: time.Unix(1700000000, 123456789)},
				{Path: "link", Mode: 0o777 | fs.ModeSymlink, Size: 3, ModTime: time.Unix(1, 0), Link: "../../etc"},
			}
			if len(got) != 2 || got[0] != want[0] || got[1] != want[1] || got[0].Name() != "\xff\n" {
				t.Errorf("cut at %d: got %+v, want %+v", n, got, want)
			}
		})
	}
}

func TestWalkFails(t *testing.T) {
	failing := `{"type":"result","exitCode":127,"timedOut":false,"durationMs":1}`
	for _, tt := range []struct {
		name  string
		steps []Step
		check func(t *testing.T, err error)
	}{
		{"no directory", []Step{walking(base64Of("done\x001\x00"), stderr("find: './x': No such file or directory\n"), finish(exit0))}, func(t *testing.T, err error) {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v", err)
			}
		}},
		{"part of it", []Step{walking(base64Of(theDir+oneFile+"done\x001\x00"), stderr("find: './x': Permission denied\n"), finish(exit0))}, func(t *testing.T, err error) {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("got %v", err)
			}
		}},
		{"no base64", []Step{walking("", stderr("sh: base64: not found\n"), finish(failing))}, func(t *testing.T, err error) {
			if e := errorAs[*transport.WalkError](t, err); !strings.Contains(e.Error(), "base64: not found") && !strings.Contains(e.Error(), "not whole") {
				t.Errorf("got %v", err)
			}
		}},
		{"no shell", []Step{Seq(reserve(), Accept(), Expect("execute"), answer(`{"type":"error","error":"spawn /bin/sh ENOENT"}`), cancel(failedStart))}, func(t *testing.T, err error) { errorAs[*transport.StartError](t, err) }},
		{"a file", []Step{walking(base64Of(strings.Replace(theDir, "d", "f", 1)+theEnd), finish(exit0))}, func(t *testing.T, err error) {
			if e := errorAs[*transport.WalkError](t, err); !strings.Contains(e.Error(), "no directory") {
				t.Errorf("got %v", err)
			}
		}},
		{"a list without an end", []Step{walking(base64Of(theDir+oneFile), finish(exit0))}, func(t *testing.T, err error) {
			if e := errorAs[*transport.WalkError](t, err); !strings.Contains(e.Error(), "not whole") {
				t.Errorf("got %v", err)
			}
		}},
		{"a stream without an end", []Step{walking(base64Of(theDir+oneFile), Close(), cancel(cancelled))}, func(t *testing.T, err error) { errorAs[*transport.LostError](t, err) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				var last error
				for _, err := range p.Walk(t.Context(), "x", transport.WalkOptions{}) {
					last = err
				}
				tt.check(t, last)
			})
		})
	}
	for name, list := range map[string]string{
		"a path that leads out":        theDir + strings.Replace(oneLink, "link", "../a", 1) + theEnd,
		"an absolute path":             theDir + strings.Replace(oneLink, "link", "/a", 1) + theEnd,
		"a path with a hole":           theDir + strings.Replace(oneLink, "link", "a//b", 1) + theEnd,
		"no directory at first":        oneFile + theEnd,
		"the directory twice":          theDir + theDir + theEnd,
		"deeper than was asked for":    theDir + strings.Replace(oneLink, "link", "a/b/c", 1) + theEnd,
		"more than was asked for":      theDir + strings.Repeat(oneLink, 3) + theEnd,
		"an unknown type":              theDir + strings.Replace(oneLink, "l", "?", 1) + theEnd,
		"a size below nothing":         theDir + strings.Replace(oneLink, "\x003\x00", "\x00-3\x00", 1) + theEnd,
		"permissions that are none":    theDir + strings.Replace(oneLink, "777", "999", 1) + theEnd,
		"a time that is none":          theDir + strings.Replace(oneLink, "\x001\x00", "\x00now\x00", 1) + theEnd,
		"a path without end":           theDir + strings.Replace(oneLink, "link", strings.Repeat("x", 20_000), 1) + theEnd,
		"an end without a status":      theDir + "done\x00well\x00",
		"something behind the end":     theDir + theEnd + "x",
		"a program that goes on after": theDir + theEnd + theEnd,
	} {
		t.Run(name, func(t *testing.T) {
			// The program is ended when it is found out, unless it has ended before.
			bubble(t, transport.Config{}, []Step{walking(base64Of(list), Accept(), Expect("cancel-execution"), answer(cancelled), On("exec"), finish(sigterm))}, func(t *testing.T, p *pod) {
				n := 0
				var last error
				for _, err := range p.Walk(t.Context(), "x", transport.WalkOptions{MaxDepth: 2, MaxEntries: 2}) {
					if last = err; err == nil {
						n++
					}
				}
				if e := errorAs[*transport.WalkError](t, last); n > 2 || e.Root != "x" || e.Err == nil {
					t.Errorf("%d entries and %v", n, last)
				}
			})
		})
	}
	bubble(t, transport.Config{}, []Step{walking(base64Of(theDir+oneLink+oneLink), Accept(), Expect("cancel-execution"), answer(cancelled), On("exec"), finish(sigterm))}, func(t *testing.T, p *pod) {
		n := 0
		for _, err := range p.List(t.Context(), "x") {
			if n++; err != nil {
				t.Errorf("got %v", err)
			}
			break
		}
		if n != 1 {
			t.Errorf("%d entries", n)
		}
	})
	bubble(t, transport.Config{}, []Step{walking(base64Of(theDir+oneFile), Accept(), Expect("cancel-execution"), answer(cancelled), On("exec"), finish(sigterm))}, func(t *testing.T, p *pod) {
		var last error
		for _, err := range p.Walk(endAfter(t, time.Second), "x", transport.WalkOptions{}) {
			last = err
		}
		if !errors.Is(last, errCause) {
			t.Errorf("got %v, want the cause", last)
		}
	})
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		for _, root := range []string{"", "a\x00b"} {
			for _, err := range p.List(t.Context(), root) {
				errorAs[*transport.WalkError](t, err)
			}
		}
	})
}

// TestWalkCutAtEveryByte has a list end early of which the program says that it
// succeeded.
func TestWalkCutAtEveryByte(t *testing.T) {
	list := strings.TrimSpace(base64Of(theDir + oneFile + oneLink + theEnd))
	for n := range list {
		bubble(t, transport.Config{}, []Step{walking(list[:n], finish(exit0))}, func(t *testing.T, p *pod) {
			var last error
			for _, err := range p.Walk(t.Context(), "x", transport.WalkOptions{}) {
				last = err
			}
			if _, ok := errors.AsType[*transport.WalkError](last); !ok {
				t.Errorf("after %d of %d bytes: %v", n, len(list), last)
			}
		})
	}
}
