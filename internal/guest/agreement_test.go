//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// exceptions are the recordings that this guest does not follow, each with the
// reason. One that it follows after all fails the test.
var exceptions = map[string]string{
	"good-frame-then-garbage-same-segment":                 "the reference guest loses a complete request when bytes that are no header come in the same read; here it is served",
	"unauthorized-then-garbage-same-segment":               "the same with a request that is refused: here the refusal is sent",
	"terminal-program-not-found":                           "the program is started by a shell there, whose words come as output; here the start is refused",
	"terminal-cols-as-string":                              "there the program runs before the terminal has its size",
	"terminal-ctrl-c":                                      "the end by a signal is told as the exit code of a shell there; here it is told as it is",
	"terminal-program-killed-by-signal":                    "the same",
	"terminal-kill-None":                                   "there another program is between, which outlives SIGTERM, talks, and tells exit 0",
	"terminal-kill-SIGTERM":                                "the same",
	"terminal-kill-SIGINT":                                 "the same with SIGINT",
	"terminal-kill-SIGSTOP":                                "the same with SIGTERM, which stands for signals that may not be sent",
	"terminal-kill-SIGUSR1":                                "the same",
	"terminal-kill-9":                                      "the same",
	"terminal-kill-with-unread-input":                      "there the guest dies of EPIPE",
	"terminal-cwd-created":                                 "there the end can come without ready",
	"terminal-both-streams-one-pty":                        "there the end can come without ready",
	"exec-realtime-signal":                                 "an end by a signal without a name is recorded as exit 0; here it is exit -1 and SIG40",
	"exec-open-descriptors":                                "the outputs are sockets there and pipes here",
	"exec-what-the-streams-are":                            "the outputs are sockets there and pipes here",
	"exec-open-dev-stdout-and-stderr":                      "sockets cannot be opened by their path, so /dev/stdout fails there; pipes can",
	"exec-stdin-kind":                                      "stdin is a socket there and a pipe here",
	"write-onto-workspace":                                 "there a temporary file is made beside the workspace before that fails; here nothing is tried",
	"write-name-255-bytes":                                 "the temporary file's name is longer than the target's there, too long for 201 bytes and up; here it is cut",
	"cancel-unconfirmed-member-ignores-term":               "once a leader has ended, what is left of its group is not killed there; here it is, so the cancel is confirmed",
	"cancel-member-ignores-term-output-redirected":         "the same",
	"timeout-unconfirmed":                                  "the same with a timeout",
	"fin-right-after-read-file":                            "an early FIN loses the reply there; here it is sent",
	"fin-right-after-write-file":                           "an early FIN loses the reply there; here it is sent",
	"stdin-larger-than-pipe-to-program-that-does-not-read": "EPIPE on a program's stdin ends the reference guest",
	"stdin-not-read-100-bytes-to-true":                     "the same, in some of the recorded runs",
	"stdin-not-read-100-bytes-to-closed-stdin":             "the same, in some of the recorded runs",
	"stdin-not-read-200KB-to-true":                         "the same, in some of the recorded runs",
	"stdin-not-read-200KB-to-head-c-10":                    "the same, in some of the recorded runs",
}

// rootExceptions are those of a guest that runs as root.
var rootExceptions = map[string]string{
	"write-into-directory-without-permission": "root may write everywhere",
}

// notReplayed are the recordings that are not played, each with the reason.
var notReplayed = map[string]string{
	"preauth-idle-default":                         "takes 10 s; preauth-idle-500ms is the same with a shorter limit",
	"authenticated-stream-outlives-deadline":       "takes 11 s; TestPreauthLimitsEndWithAuthentication is the same with shorter limits",
	"exec-token-readable-from-parent-environ":      "looks into the guest's process, which is the test here",
	"exec-timeoutMs-0.5":                           "a race between the timeout and the end of the program",
	"exec-signal-dispositions":                     "SigCgt shows handlers of grep's own C library",
	"cancel-sent-right-after-execute":              "a race; TestCancelRacesWithExecute accepts both outcomes and no third",
	"cancel-during-timeout-kill":                   "must hit a window of 250 ms; TestCancelDuringATimeout waits for it",
	"stream-file-shrinks":                          "depends on how much fits into socket buffers; TestStreamOfAFileThatShrinks",
	"parts-concurrent-same-temp":                   "a race; TestPartsExcludeEachOther",
	"attach-slow-reader-dropped":                   "depends on how much fits into socket buffers; TestSlowReaderIsDropped",
	"retained-ttl":                                 "must hit a window of 300 ms; TestRetention",
	"tcp-download-64MiB":                           "takes long; TestTunnel carries as much both ways",
	"tcp-download-slow-reader":                     "depends on how much fits into socket buffers; TestTunnelSlowReader",
	"tcp-ipv6-loopback":                            "the host closes while data is under way; TestTunnelEnds",
	"tcp-heartbeat":                                "hosts here are not punctual; TestHeartbeat",
	"tcp-heartbeat-suspended-by-full-upstream":     "hosts here are not punctual; TestHeartbeatIsSuspended",
	"frame-above-preauth-cap-after-authentication": "too long to be recorded whole; TestTerminalKill sends more",
	"terminal-input-before-ready":                  "whether the prompt is there first; TestTerminal",
	"attach-live":                                  "must attach between two lines; TestAttachWhileItRuns",
	"terminal-env":                                 "the order of variables; TestTerminal",
	"terminal-kill-reaches-background-job":         "whether the prompt is there first; TestTerminalKill",
	"terminal-kill-shell-ignoring-term":            "waits for words of a program that is not between here; TestTerminalKill",
	"terminal-large-output":                        "frames that are left out, with escapes; TestTerminalOutput",
	"terminal-slow-reader":                         "depends on how much fits into socket buffers; TestTerminalOutput",
	"heartbeat-100ms":                              "hosts here are not punctual; TestHeartbeat",
	"heartbeat-kept-alive-by-single-bytes":         "hosts here are not punctual; TestHeartbeat",
	"heartbeat-suspended-by-full-stdin":            "hosts here are not punctual; TestHeartbeatIsSuspended",
	"during-quiesce":                               "needs a file and a port of its own; TestDuringQuiesce",
	"quiesce-everything":                           "what a shell says of its end; TestQuiesceEverything",
	"flush-command-fails":                          "needs a command of the operator's for syncing, which is not supported: it is syncfs(2) here",
	"flush-times-out":                              "the same",
	"flush-child-environment":                      "the same",
	"flush-unsupported":                            "the same: syncfs(2) needs no program",
	"file-size-limit-whole":                        "limits the guest's process; a test of guestd",
	"file-size-limit-parts":                        "limits the guest's process; a test of guestd",
	"disk-full-whole":                              "needs a file system of its own; short writes are tested in guestd",
	"disk-full-parts":                              "needs a file system of its own; short writes are tested in guestd",
	"disk-full-already":                            "needs a file system of its own",
	"tcp-keepalive-on-accepted-socket":             "looks at the guest's socket; TestKeepAlive",
	"reply-then-peer-never-closes":                 "takes 10 s; TestPeerThatNeverCloses",
	"reply-then-peer-never-closes-authenticated":   "the reference guest holds the connection without limit; TestPeerThatNeverCloses",
	"agent-as-pid-1-orphan":                        "needs a guest that is PID 1; a test of guestd",
	"agent-as-pid-1-orphan-that-ends-first":        "needs a guest that is PID 1; a test of guestd",
	"probe-setpriv":                                "the text is the machine's; TestConfine reads the lines that count",
	"probe-root":                                   "the text is the machine's; TestConfine reads the lines that count",
}

const replaysAtOnce = 16

// TestRecordings plays the recordings of the reference guest and compares every
// frame and the way every connection ends.
func TestRecordings(t *testing.T) {
	t.Parallel()
	recordings := loadRecordings(t)
	for _, names := range []map[string]string{exceptions, rootExceptions, notReplayed} {
		for name := range names {
			if !slices.ContainsFunc(recordings, func(r *recording) bool { return r.Name == name }) {
				t.Errorf("%s is listed, but there is no such recording", name)
			}
		}
	}
	recordings = slices.DeleteFunc(recordings, func(r *recording) bool {
		return len(r.Lines) == 0 || notReplayed[r.Name] != "" || !asThisUser(r)
	})
	results := make([][]string, len(recordings))
	slots := make(chan struct{}, replaysAtOnce)
	root := folder(t)
	var all sync.WaitGroup
	groups := groupRecordings(recordings)
	slices.SortStableFunc(groups, func(a, b []int) int { return len(b) - len(a) }) // the longest take longest
	for _, group := range groups {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			playGroup(root, recordings, group, results)
		})
	}
	all.Wait()
	for _, group := range groups {
		// Programs of recordings say something every 50 ms, which many guests at
		// once on a busy machine may miss. What differs again differs.
		if slices.ContainsFunc(group, func(i int) bool { return len(results[i]) > 0 && excepted(recordings[i]) == "" }) {
			for _, i := range group {
				results[i] = nil
			}
			playGroup(root, recordings, group, results)
		}
	}
	killDaemons(root) // some recordings start them
	for i, r := range recordings {
		t.Run(r.file+"/"+r.Name, func(t *testing.T) {
			reason, diffs := excepted(r), results[i]
			switch {
			case reason == "" && len(diffs) > 0:
				t.Errorf("%s\n%s", r.Note, strings.Join(diffs, "\n"))
			case reason != "" && len(diffs) == 0:
				t.Errorf("follows the recording, but is listed as an exception: %s", reason)
			}
		})
	}
}

// excepted is why a recording is not followed; empty if it is.
func excepted(r *recording) string {
	if reason := rootExceptions[r.Name]; os.Geteuid() == 0 && reason != "" {
		return reason
	}
	return exceptions[r.Name]
}

// asThisUser reports whether a recording was made as a user like this one. Most
// look the same for all, and root_differs has those that do not.
func asThisUser(r *recording) bool {
	root := os.Geteuid() == 0
	switch {
	case r.Agent.As == "root":
		return root
	case root:
		return !slices.Contains([]string{"read-no-permission", "stream-no-permission"}, r.Name)
	}
	return true
}

// groupRecordings groups the indices of recordings that are played one after the
// other on the same guest.
func groupRecordings(recordings []*recording) [][]int {
	var groups [][]int
	chained := false // the last group goes on
	for i, r := range recordings {
		s := stages[r.file]
		begins := s.chained && (s.from == "" || s.from == r.Name)
		switch {
		case (chained && s.chained || s.shared) && i > 0 && recordings[i-1].file == r.file && same(recordings[i-1].Agent, r.Agent):
			groups[len(groups)-1] = append(groups[len(groups)-1], i)
		default:
			groups = append(groups, []int{i})
			chained = begins
		}
		if s.to == r.Name {
			chained = false
		}
	}
	return groups
}

func playGroup(root string, recordings []*recording, group []int, results [][]string) {
	first := recordings[group[0]]
	fail := func(err error) {
		for _, i := range group {
			results[i] = append(results[i], err.Error())
		}
	}
	outside, err := newFolderIn(root)
	if err != nil {
		fail(err)
		return
	}
	config, err := replayConfig(first.Agent, outside)
	if stages[first.file].prompt {
		config.Environ = append(config.Environ, "PS1=$ ")
	}
	if err == nil {
		config.Workspace, err = newFolderIn(root)
	}
	if setup := stages[first.file].setup; err == nil && setup != nil {
		err = setup(config.Workspace, outside)
	}
	var g *testGuest
	if err == nil {
		g, err = bootGuest(config)
	}
	if err != nil {
		fail(err)
		return
	}
	play := func(i int) {
		b := &binding{
			names: map[string]string{"token": testToken, "workspace": g.workspace, "workspace-name": filepath.Base(g.workspace)},
			swaps: strings.NewReplacer(append([]string{outsidePath, outside}, stretched[recordings[i].Name]...)...),
		}
		p := &replay{r: recordings[i], g: g, b: b, outside: outside}
		results[i] = append(p.play(), p.check()...)
	}
	if stages[first.file].shared {
		var all sync.WaitGroup
		slots := make(chan struct{}, replaysAtOnce)
		for _, i := range group {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				play(i)
			})
		}
		all.Wait()
	} else {
		for _, i := range group {
			play(i)
		}
	}
	if err := g.stop(); err != nil {
		fail(err)
	}
}

// TestStartRefusals follows the recordings of guests that were started with a
// configuration of which nothing good can come, and of some that look odd.
func TestStartRefusals(t *testing.T) {
	base := []string{"NAMZU_AGENT_TCP_PORT=0", "NAMZU_AGENT_BIND_TOKEN=x"}
	environs := map[string][]string{
		"start-no-listener":              {"NAMZU_AGENT_BIND_TOKEN=x"},
		"start-tcp-without-credential":   {"NAMZU_AGENT_TCP_PORT=0"},
		"start-port-70000":               {"NAMZU_AGENT_TCP_PORT=70000", "NAMZU_AGENT_BIND_TOKEN=x"},
		"start-port-abc":                 {"NAMZU_AGENT_TCP_PORT=abc", "NAMZU_AGENT_BIND_TOKEN=x"},
		"start-port-1.5":                 {"NAMZU_AGENT_TCP_PORT=1.5", "NAMZU_AGENT_BIND_TOKEN=x"},
		"start-empty-require-token-only": {"NAMZU_AGENT_TCP_PORT=0"},
	}
	played := 0
	for _, r := range loadRecordings(t) {
		if !strings.HasPrefix(r.Name, "start-") {
			continue
		}
		played++
		environ := base
		if own, ok := environs[r.Name]; ok {
			environ = own
		}
		environ = slices.Clone(environ)
		for name, value := range r.Agent.Env {
			environ = append(environ, name+"="+value)
		}
		config, _, err := guest.ConfigFromEnv(environ)
		if err == nil {
			config.Workspace = testRoot
			var s *guest.Server
			if s, err = guest.New(config); err == nil {
				s.Close()
			}
		}
		if started := err == nil; fmt.Sprint(started) != fmt.Sprint(r.Facts["started"]) {
			t.Errorf("%s: error %v, recorded: %v", r.Name, err, r.Facts)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %v", r.Name, err)
		}
	}
	if played < 14 {
		t.Errorf("%d recordings of starts, want all", played)
	}
}
