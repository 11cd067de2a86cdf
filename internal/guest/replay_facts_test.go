//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A fact is what a recording found in the workspace afterwards. Names that begin
// with ../outside/ are in the folder outside that links of the workspace name.
type fact struct {
	name    string
	content string
	mode    os.FileMode // 0: any
	absent  bool
	link    bool // it is a symbolic link
	waits   bool // a program makes it, that still runs
}

// facts are those that matter, by recording. What a write leaves behind beside
// its target is looked for after each.
var facts = map[string][]fact{
	"good-frame-then-garbage-same-segment":  {{name: "garbage-ran", absent: true, waits: true}},
	"garbage-during-running-execute":        {{name: "survived-garbage", waits: true}},
	"unauthorized-execute":                  {{name: "ran-unauthorized", absent: true}},
	"unauthorized-write-file":               {{name: "unauth.txt", absent: true}},
	"exec-same-id-while-running":            {{name: "once.txt", content: "once\n"}},
	"exec-truncated-program-still-finishes": {{name: "finished-after-truncation"}},
	"cancel-reserved":                       {{name: "cancelled-ran", absent: true}},
	"fin-right-after-write-file":            {{name: "w.txt", content: "hello", waits: true}},
	"fin-right-after-execute":               {{name: "fin-exec", waits: true}},
	"fin-while-execute-runs":                {{name: "fin-exec2", waits: true}},
	"reset-while-execute-runs":              {{name: "rst-exec", waits: true}},
	"close-in-the-middle-of-a-frame":        {{name: "half-a-frame", absent: true}},

	"write-utf8":                         {{name: "w.txt", content: "héllo\n", mode: 0o644}},
	"write-base64":                       {{name: "w64.txt", content: "hi there!\n"}},
	"write-base64-lenient":               {{name: "lenient", content: "hi?"}},
	"write-empty-content":                {{name: "e.txt"}},
	"write-content-number":               {{name: "num.txt", content: "42"}},
	"write-content-null":                 {{name: "null.txt", content: "null"}},
	"write-nested-parents":               {{name: "n1/n2/n3.txt", content: "deep"}, {name: "n1/n2", mode: os.ModeDir | 0o755}},
	"write-absolute-inside":              {{name: "abs.txt", content: "x"}},
	"write-keeps-mode-0755":              {{name: "exe.sh", content: "new", mode: 0o755}},
	"write-keeps-mode-0600":              {{name: "priv", content: "new", mode: 0o600}},
	"write-over-read-only-file":          {{name: "ro", content: "new", mode: 0o444}},
	"write-over-hard-link":               {{name: "hard1", content: "new"}, {name: "hard2", content: "old"}},
	"write-through-symlink-inside":       {{name: "target", content: "new"}, {name: "link", content: "new", link: true}},
	"write-through-dangling-symlink-out": {{name: "link-out", content: "new"}, {name: "../outside/not-there", absent: true}},
	"write-below-dirlink-out":            {{name: "../outside/agent-esc", absent: true}},
	"write-below-dirlink-out-new-parent": {{name: "../outside/agent-made-dir", absent: true}}, // the reference guest makes it
	"parts-three":                        {{name: "data/big.bin", content: "first-middle-last", mode: 0o644}},
	"parts-offset-mismatch":              {{name: "data/m.bin", content: "NEW-end"}},
	"parts-single-final-part":            {{name: "data/one.bin", content: "whole"}},
	"parts-default-offset-and-final":     {{name: "data/.namzu-write-dflt.part", content: "abc"}},
	"parts-temp-name-is-free":            {{name: "data/ordinary-name", content: "abc"}},
	"parts-final-without-renameTo":       {{name: bigPart, content: "first-"}},
	"parts-renameTo-outside":             {{name: bigPart, content: "first-"}},
	"parts-renameTo-directory":           {{name: bigPart, absent: true}}, // after the discard
	"parts-renameTo-new-parents":         {{name: "made/for/rename.bin", content: "y"}},
	"parts-keep-mode-0750":               {{name: "data/keep.sh", content: "new-text", mode: 0o750}},
	"parts-shape-null":                   {{name: "data/nullpart.txt", content: "whole"}},
	"parts-final-not-exactly-true":       {{name: "data/f1.bin", absent: true}},
	"discard":                            {{name: bigPart, absent: true}},
	"discard-in-missing-directory":       {{name: "not", absent: true}},
	"discard-ordinary-file":              {{name: "w.txt", content: "héllo\n"}},
	"discard-symlink-named-like-a-temp":  {{name: "data/.namzu-write-trick.part", content: "héllo\n", link: true}},
	"flush-child-environment":            {{name: "flush-env", content: "4\n"}},
	"extra-write-root":                   {{name: "../outside/x.txt", content: "extra"}},
}

// nothingRuns are the recordings after which no program is to be left, whatever
// the reference guest leaves.
var nothingRuns = map[string]bool{
	"fin-right-after-terminal": true, "fin-on-open-terminal": true,
	"close-0ms-after-terminal": true, "close-3ms-after-terminal": true, "close-6ms-after-terminal": true,
	"close-12ms-after-terminal": true, "close-40ms-after-terminal": true, "flush-times-out": true,
}

const bigPart = "data/.namzu-write-0f7c1f52-2b7e-4d0c-9f53-6a1f0de8c4aa-big.bin.part"

// check looks the facts up.
func (p *replay) check() []string {
	var diffs []string
	for _, f := range facts[p.r.Name] {
		if err := p.checkFact(f); err != nil {
			diffs = append(diffs, fmt.Sprintf("[%s] %v", f.name, err))
		}
	}
	if p.g.daemon != nil {
		diffs = append(diffs, p.checkDaemon()...)
	}
	if nothingRuns[p.r.Name] {
		gone := time.Now().Add(replayWait)
		for left := processesIn(p.g.workspace); len(left) > 0; left = processesIn(p.g.workspace) {
			if time.Now().After(gone) {
				diffs = append(diffs, fmt.Sprintf("programs are left: %q", left))
				break
			}
			pause(10)
		}
	}
	temps, _ := filepath.Glob(filepath.Join(p.g.workspace, ".namzu-write-*.*.part"))
	if len(temps) > 0 {
		diffs = append(diffs, fmt.Sprintf("temporary files are left: %q", temps))
	}
	return diffs
}

func (p *replay) checkFact(f fact) error {
	path := filepath.Join(p.g.workspace, f.name)
	if name, ok := strings.CutPrefix(f.name, "../outside/"); ok {
		path = filepath.Join(p.outside, name)
	}
	if f.waits {
		p.g.runThrough(object{
			"command": "sh", "args": []string{"-c", "until [ -e " + f.name + " ]; do sleep 0.01; done"}, "timeoutMs": replayWait.Milliseconds(),
		})
	}
	info, err := os.Lstat(path)
	if f.absent {
		if err == nil {
			return fmt.Errorf("is there")
		}
		return nil
	}
	if err != nil {
		return err
	}
	if link := info.Mode()&os.ModeSymlink != 0; link != f.link {
		return fmt.Errorf("is a symbolic link: %v", link)
	}
	if info, err = os.Stat(path); err != nil {
		return err
	}
	if f.mode != 0 && info.Mode() != f.mode {
		return fmt.Errorf("mode %v, want %v", info.Mode(), f.mode)
	}
	if info.IsDir() {
		return nil
	}
	content, err := os.ReadFile(path)
	if err == nil && string(content) != f.content {
		err = fmt.Errorf("%q, want %q", content, f.content)
	}
	return err
}
