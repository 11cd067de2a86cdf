//go:build linux

package guest_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// A stage is how the recordings of a file are played: in the order in which
// they were made, on one guest, if they build on each other; else each on a
// guest of its own, or all on one that they leave as it is.
type stage struct {
	chained bool
	shared  bool
	// from is the first of a chain, and to the last; empty: all of the file.
	from, to string
	setup    func(workspace, outside string) error
	prompt   bool // the shell's prompt is that of no user in particular
}

var stages = map[string]stage{
	"execute":      {setup: setupExecute},
	"terminal":     {prompt: true},
	"sessions":     {prompt: true, setup: setupSessions},
	"races":        {prompt: true},
	"signals":      {prompt: true},
	"quiesce":      {prompt: true, setup: setupQuiesce},
	"framing":      {prompt: true},
	"files_read":   {shared: true, setup: setupRead},
	"root_differs": {setup: setupRead},
	"closing":      {setup: setupClosing},
	"files_write":  {chained: true, setup: setupWrite},
	"retiring":     {chained: true, from: "group-outlives-leader", to: "retiring-is-permanent"},
}

// basis is the recording that another builds on, which is played before it on
// the same guest.
var basis = map[string]string{
	"attach-session-refusals":      "start-detached-exit-code",
	"persistent-terminal-refusals": "start-detached-exit-code",
}

// outsidePath is a folder on the recording's machine that a write root named.
const outsidePath = "/tmp/agent-extra-root"

// stretched are the recordings that depend on what happens while a program
// sleeps, or waits for its end, with times that are long enough on a busy
// machine as well, or with programs that leave no room for chance.
var stretched = map[string][]string{
	"fin-while-execute-runs":           {"sleep 0.5", "sleep 3"},
	"garbage-during-running-execute":   {"sleep 0.6", "sleep 3"},
	"exec-same-id-while-running":       {"sleep 0.5", "sleep 3"},
	"exec-split-character":             {"sleep 0.2", "sleep 2"},
	"exec-timeout-ignoring-sigterm":    {`"timeoutMs":300`, `"timeoutMs":2000`},
	"exec-timeout-exits-on-term":       {`"timeoutMs":300`, `"timeoutMs":2000`},
	"attach-live-with-gap":             {"sleep 0.4", "sleep 3"},
	"attach-extra-frame":               {"sleep 0.8", "sleep 3"},
	"attach-after-lost-connection":     {"sleep 0.2", "sleep 1.2"},
	"attach-not-retained":              {"sleep 0.4", "sleep 3"},
	"heartbeat-asked-250_9":            {`"0.7"`, `"0.4"`},
	"retained-capacity":                {"sleep 0.5", "sleep 3"},
	"cancel-slow-cleanup-within-grace": {"sleep 0.15", "sleep 0.01"},
	"persistent-terminal":              {"sleep 0.5", "sleep 0.2"},
	"start-detached":                   {"echo serving >&2; echo out", "echo serving >&2; sleep 0.2; echo out"},
	"session-capacity":                 {`"sessionId":"three","command":"true"}`, `"sessionId":"three","command":"true","env":{"PATH":"."}}`},
}

// script is a list of steps that ends at the first that fails.
type script struct {
	dir string
	err error
}

func (s *script) file(name, content string, mode os.FileMode) {
	path := filepath.Join(s.dir, name)
	s.do(os.MkdirAll(filepath.Dir(path), 0o755))
	s.do(os.WriteFile(path, []byte(content), 0o644))
	s.do(os.Chmod(path, mode))
}

func (s *script) folder(name string)       { s.do(os.MkdirAll(filepath.Join(s.dir, name), 0o755)) }
func (s *script) link(target, name string) { s.do(os.Symlink(target, filepath.Join(s.dir, name))) }

func (s *script) do(err error) {
	if s.err == nil {
		s.err = err
	}
}

func setupExecute(workspace, _ string) error {
	s := &script{dir: workspace}
	s.link("/etc", "link-out")
	s.file("plain", "", 0o644)
	s.file("noexec.sh", "#!/bin/sh\n", 0o644)
	s.file("script.sh", "#!/bin/sh\necho from script $0\n", 0o755)
	s.file("badshebang.sh", "#!/no/such/interpreter\n", 0o755)
	s.folder("made/by")
	return s.err
}

func setupQuiesce(workspace, _ string) error {
	s := &script{dir: workspace}
	s.file("q.txt", "still readable", 0o644)
	return s.err
}

func setupSessions(workspace, _ string) error {
	s := &script{dir: workspace}
	s.file("true", "#!/bin/sh\nexec /bin/sleep 300\n", 0o755)
	return s.err
}

func setupRead(workspace, _ string) error {
	s := &script{dir: workspace}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	s.file("utf8.txt", "début €\n", 0o644)
	s.file("a.txt", "seven b", 0o644)
	s.file("bin", string(all), 0o644)
	s.file("empty", "", 0o644)
	s.file("secret", "x", 0)
	s.file("dir/inner.txt", "inner", 0o644)
	s.file("two-mib", strings.Repeat("0123456789abcdef", 1<<17), 0o644)
	s.file("big", "", 0o644)
	s.do(os.Truncate(filepath.Join(workspace, "big"), 256<<20))
	s.link("a.txt", "link-in")
	s.link("/etc/hostname", "link-out")
	s.link("nothing", "link-dangling")
	s.link("/no/such/file", "link-dangling-out")
	s.link(filepath.Join(workspace, "dir"), "dirlink")
	s.link("/etc", "dirlink-out")
	s.link("loop", "loop")
	s.do(syscall.Mkfifo(filepath.Join(workspace, "fifo"), 0o644))
	return s.err
}

func setupClosing(workspace, _ string) error {
	s := &script{dir: workspace}
	s.file("f.txt", "a file", 0o644)
	return s.err
}

func setupWrite(workspace, outside string) error {
	s := &script{dir: workspace}
	s.file("exe.sh", "old", 0o755)
	s.file("priv", "old", 0o600)
	s.file("ro", "old", 0o444)
	s.file("hard1", "old", 0o644)
	s.do(os.Link(filepath.Join(workspace, "hard1"), filepath.Join(workspace, "hard2")))
	s.file("target", "old", 0o644)
	s.link("target", "link")
	s.link(filepath.Join(outside, "not-there"), "link-out")
	s.link("/etc/hostname", "link-out2")
	s.link(outside, "dirlink-out")
	s.folder("adir")
	s.folder("rootdir")
	s.do(os.Chmod(filepath.Join(workspace, "rootdir"), 0o555))
	s.folder("data")
	s.file("data/keep.sh", "old", 0o750)
	s.link("../w.txt", "data/.namzu-write-trick.part")
	s.folder("data/.namzu-write-dir.part")
	return s.err
}

// replayEnviron is the environment that the recorded guest had.
func replayEnviron(as string) []string {
	who := []string{"HOME=/tmp/namzu-home-1001", "USER=agent", "LOGNAME=agent"}
	if as == "root" {
		who = []string{"HOME=/root", "USER=root", "LOGNAME=root"}
	}
	return append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}, who...)
}

// replayVariables are the variables that the recorded guest had.
func replayVariables(agent recordedAgent, outside string) []string {
	variables := []string{"NAMZU_AGENT_TCP_PORT=0", "NAMZU_AGENT_REFUSAL_FLUSH_GRACE_MS=300"}
	if agent.Env["NAMZU_AGENT_REQUIRE_TOKEN"] == "" {
		variables = append(variables, "NAMZU_AGENT_BIND_TOKEN="+testToken)
	}
	for name, value := range agent.Env {
		variables = append(variables, name+"="+strings.ReplaceAll(value, outsidePath, outside))
	}
	return variables
}

// bootReplay starts the guest that a recording had, in a process of its own if it
// must be.
func bootReplay(root string, r *recording, outside string) (*testGuest, error) {
	workspace, err := newFolderIn(root)
	if err != nil {
		return nil, err
	}
	if setup := stages[r.file].setup; setup != nil {
		if err := setup(workspace, outside); err != nil {
			return nil, err
		}
	}
	variables, environ := replayVariables(r.Agent, outside), replayEnviron(r.Agent.As)
	if stages[r.file].prompt {
		environ = append(environ, "PS1=$ ")
	}
	if prepare, ok := ownProcess(r); ok {
		return bootDaemon(daemonSpec{workspace: workspace, prepare: prepare, environ: append(environ, variables...)})
	}
	config, _, err := guest.ConfigFromEnv(variables)
	if err != nil {
		return nil, err
	}
	config.Workspace, config.DialContext = workspace, ports.dial
	config.Environ = append(environ, variables...)
	return bootGuest(config)
}

// same reports whether two agents were configured alike.
func same(a, b recordedAgent) bool {
	if a.As != b.As || len(a.Env) != len(b.Env) {
		return false
	}
	for name, value := range a.Env {
		if v, ok := b.Env[name]; !ok || v != value {
			return false
		}
	}
	return true
}
