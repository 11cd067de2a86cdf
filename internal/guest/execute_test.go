//go:build linux

package guest_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

func TestFindingTheProgram(t *testing.T) {
	g := newGuest(t, guest.Config{Environ: []string{"PATH=/usr/bin:/bin"}})
	g.put("bin/tool", "#!/bin/sh\necho tool $0 $1\n", 0o755)
	g.put("bin/closed", "#!/bin/sh\n", 0o644)
	g.put("bin/plain", "echo plain $1\n", 0o755)
	g.put("sub/bin/tool", "#!/bin/sh\necho sub\n", 0o755)
	bin := g.workspace + "/bin"
	for _, test := range []struct {
		name string
		body object
		want string // its output, or the error
	}{
		{"a path is relative to the working directory", object{"command": "./bin/tool", "args": []string{"x"}}, "tool ./bin/tool x\n"},
		{"also to one of the request", object{"command": "bin/tool", "cwd": "sub"}, "sub\n"},
		{"PATH is the program's own", object{"command": "tool", "env": object{"PATH": bin}}, "tool " + bin + "/tool\n"},
		{"a relative folder of PATH begins at the working directory", object{"command": "tool", "cwd": "sub", "env": object{"PATH": "bin"}}, "sub\n"},
		{"an empty one is the working directory", object{"command": "tool", "cwd": "bin", "env": object{"PATH": "/nothing:"}}, "tool ./tool\n"},
		{"no PATH at all", object{"command": "no-such-program", "env": object{}}, "spawn no-such-program ENOENT"},
		{"what is in the way but cannot be run is passed over", object{"command": "closed", "env": object{"PATH": bin + ":/usr/bin"}}, "spawn closed EACCES"},
		{"a folder is no program", object{"command": "bin"}, "spawn bin ENOENT"},
		{"a folder by its path neither", object{"command": "./bin"}, "spawn ./bin EACCES"},
		{"below a file", object{"command": "./bin/tool/x"}, "spawn ENOTDIR"},
		{"a script that does not say for what is the shell's", object{"command": "./bin/plain", "args": []string{"x"}}, "plain x\n"},
		{"the interpreter is missing", object{"command": "./bin/closed"}, "spawn ./bin/closed EACCES"},
		{"a null byte in the name", object{"command": "a\x00b"}, `The argument 'file' must be a string without null bytes. Received 'a\x00b'`},
		{"a null byte in a variable", object{"command": "true", "env": object{"A": "\x00"}}, `The property 'options.env['A']' must be a string without null bytes. Received '\x00'`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := g.execute(test.body)
			got := r.stdout
			if text, ok := r.result["error"].(string); ok {
				got = text
			}
			if got != test.want || !r.complete {
				t.Errorf("%q (%+v), want %q", got, r, test.want)
			}
		})
	}
}

func TestEnvironmentIsScrubbed(t *testing.T) {
	g := newGuest(t, guest.Config{Environ: []string{
		"PATH=/usr/bin:/bin", "NAMZU_AGENT_BIND_TOKEN=secret", "NAMZU_SANDBOX_WORKSPACE=/w", "A=1", "no assignment", "A=2", "NAMZU=stays",
	}})
	r := g.execute(object{"command": "env", "env": object{"B": nil, "PATH": "/bin:/usr/bin", "NAMZU_AGENT_X": 1}})
	if want := "PATH=/bin:/usr/bin\nA=2\nNAMZU=stays\nB=null\nNAMZU_AGENT_X=1\n"; r.stdout != want {
		t.Errorf("%q, want %q", r.stdout, want)
	}
}

func TestWorkingDirectory(t *testing.T) {
	g := newGuest(t, guest.Config{})
	outside, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	os.Symlink(outside, g.workspace+"/out")
	os.Symlink("nothing", g.workspace+"/dangling")
	for _, test := range []struct{ name, cwd, want string }{
		{"where a link leads", "out", outside + "\n"},
		{"nothing is made where a link leads outside", "out/made/here", "mkdir_failed: symlink escapes the workspace"},
		{"a link to nothing", "dangling/x", "mkdir_failed: ENOENT: no such file or directory, mkdir '" + g.workspace + "/dangling/x'"},
		{"made inside", "a/b/../c", g.workspace + "/a/c\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := g.execute(object{"command": "pwd", "cwd": test.cwd})
			got := r.stdout
			if text, ok := r.result["error"].(string); ok {
				got = text
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("made outside: %v", entries)
	}
}

// TestTimeoutEndsTheGroup covers programs whose first process is not all of
// them.
func TestTimeoutEndsTheGroup(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		stdout       string
		code         float64
		signal       any
	}{
		{"a shell waits for a child", "echo partial; sleep 600; echo hello", "partial\n", -1, "SIGTERM"},
		{"a child holds the output", "sleep 600 & echo started", "started\n", 0, nil},
		{"it does so immune to SIGTERM", "(trap '' TERM; sleep 600) & echo started", "started\n", 0, nil},
		{"it does so in a session of its own", "setsid sleep 600 & echo started; sleep 600", "started\n", -1, "SIGTERM"},
		{"a child outlives its leader, immune, with its output elsewhere", "(trap '' TERM; sleep 600) >/dev/null 2>&1 & echo started; sleep 600", "started\n", -1, "SIGTERM"},
		{"it is stopped", "echo started; kill -STOP $$", "started\n", -1, "SIGKILL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGuest(t, guest.Config{})
			t.Cleanup(func() { killDaemons(g.workspace) })
			r := g.execute(object{"command": "sh", "args": []string{"-c", test.script}, "timeoutMs": 400})
			if r.stdout != test.stdout || r.result["timedOut"] != true || r.result["exitCode"] != test.code || r.result["signal"] != test.signal || !r.complete {
				t.Errorf("%+v", r)
			}
			if health := g.call(wire.OpHealth, nil); health["ok"] != true {
				t.Errorf("afterwards: %v", health)
			}
		})
	}
}

func TestHungProgramsLeaveRoom(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	var all sync.WaitGroup
	for range 25 {
		all.Go(func() {
			g.runThrough(object{"command": "sleep", "args": []string{"1000"}, "timeoutMs": 300})
		})
	}
	all.Wait()
	if r := g.shell("echo ok"); r.stdout != "ok\n" {
		t.Errorf("%+v", r)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{Environ: []string{"PATH=/usr/bin:/bin"}})
	large := strings.Repeat("0123456789abcdef", 1<<14)
	for _, test := range []struct{ name, script, stdin, want string }{
		{"all of it arrives", "wc -c", large, "262144\n"},
		{"a program that does not read it", "true", large, ""},
		{"one that reads a little", "head -c 4", large, "0123"},
		{"one that closes it and goes on", "exec <&-; echo on", large, "on\n"},
		{"one that leaves it to a process of its own", "sleep 0.1 & echo off", large, "off\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 3 {
				r := g.execute(object{"command": "sh", "args": []string{"-c", test.script}, "stdin": test.stdin})
				if r.stdout != test.want || r.result["exitCode"] != 0.0 || !r.complete {
					t.Fatalf("%+v, want %q", r, test.want)
				}
			}
		})
	}
	if r := g.execute(object{"command": "no-such-program", "stdin": large}); r.result["error"] != "spawn no-such-program ENOENT" {
		t.Errorf("%+v", r)
	}
	if health := g.call(wire.OpHealth, nil); health["ok"] != true {
		t.Errorf("afterwards: %v", health)
	}
}

func TestWrittenAndRunAtOnce(t *testing.T) {
	// A file that a moment ago was open for writing, here and in processes that
	// were just being started, can be run.
	g := newGuest(t, guest.Config{})
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 4 {
		name := "script" + string(rune('a'+i))
		all.Go(func() {
			g.put(name, "", 0o755)
			for range 10 {
				g.call(wire.OpWriteFile, object{"path": name, "content": "#!/bin/sh\necho ran\n"})
				if r := g.execute(object{"command": "./" + name}); r.stdout != "ran\n" {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

func TestTimeoutDoesNotCountASlowPeer(t *testing.T) {
	// The program has ended in time; only its output has not been read yet.
	g := newGuest(t, guest.Config{})
	l := g.ask(wire.OpExecute, object{"command": "sh", "args": []string{"-c", "head -c 3000000 /dev/zero | tr '\\0' z; echo done > done"}, "timeoutMs": 5000})
	r := l.finish()
	if len(r.stdout) != 3000000 || r.result["timedOut"] != false || !r.complete {
		t.Errorf("%d bytes, %v", len(r.stdout), r.result)
	}
}

func TestExecutesAtOnce(t *testing.T) {
	g := newGuest(t, guest.Config{})
	start := time.Now()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			word := strings.Repeat(string(rune('a'+i)), 1000)
			r := g.execute(object{"command": "sh", "args": []string{"-c", "for i in 1 2 3 4 5; do echo $0; echo $0 >&2; done", word}})
			if want := strings.Repeat(word+"\n", 5); r.stdout != want || r.stderr != want {
				t.Errorf("program %d: %d and %d bytes, want its own", i, len(r.stdout), len(r.stderr))
			}
		})
	}
	all.Wait()
	t.Logf("16 programs in %v", time.Since(start))
}
