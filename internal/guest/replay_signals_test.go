//go:build linux

package guest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Recordings of signals to the guest, and of what a user without privileges can
// do, are replayed by a guest that is a process of its own.

// told are the signals of which a recording does not say when they came.
var told = map[string]action{
	"sigusr1-idle":             {ms: 6, signal: syscall.SIGUSR1},
	"sigusr1-with-open-stream": {ms: 100, signal: syscall.SIGUSR1},
	"sigkill-of-agent":         {ms: 20, signal: syscall.SIGKILL},
}

// signals are those that the recorded guest got.
func (r *recording) signals() []action {
	var all []action
	for _, fact := range []string{"sigtermAtMs", "secondSigtermAtMs"} {
		if at, ok := r.Facts[fact].(json.Number); ok {
			ms, _ := at.Float64()
			all = append(all, action{ms: ms, signal: syscall.SIGTERM})
		}
	}
	if a, ok := told[r.Name]; ok {
		all = append(all, a)
	}
	return all
}

// ownProcess reports whether a recording needs a guest that is a process of its
// own, and what comes before that.
func ownProcess(r *recording) (prepare string, ok bool) {
	switch {
	case r.file == "signals":
		return "", true
	case unprivileged[r.Name]:
		return `chown -R 1001:1001 .; exec setpriv --reuid=1001 --regid=1001 --groups=1001 --bounding-set=-all --inh-caps=-all --no-new-privs "$0";`, true
	}
	return "", false
}

// unprivileged are the recordings that show what the user of the recorded guest
// was and could do.
var unprivileged = map[string]bool{"id-setpriv": true, "terminal-setpriv": true, "write-outside-by-command-setpriv": true}

// canDrop reports whether a guest can be started as that user.
func canDrop() bool {
	_, err := exec.LookPath("setpriv")
	return err == nil && os.Geteuid() == 0
}

// tell sends a signal to the guest and waits for what must come of it: after
// SIGKILL another guest is started in the place of the first.
func (g *testGuest) tell(sig syscall.Signal) error {
	g.daemon.signal(sig)
	switch sig {
	case syscall.SIGUSR1:
		return g.awaitServing()
	case syscall.SIGKILL:
		g.daemon.end()
		again, err := bootDaemon(g.daemon.spec)
		if err != nil {
			return err
		}
		g.daemon, g.address = again.daemon, again.address
	}
	return nil
}

// checkDaemon looks up what became of the guest itself.
func (p *replay) checkDaemon() (diffs []string) {
	d, facts := p.g.daemon, p.r.Facts
	fact := func(name string, got int) {
		if want, ok := facts[name]; ok && fmt.Sprint(want) != fmt.Sprint(got) {
			diffs = append(diffs, fmt.Sprintf("[%s] %d, want %v", name, got, want))
		}
	}
	if _, ok := facts["agentExitCode"]; ok {
		fact("agentExitCode", d.end())
		if want, got := facts["stderr"].([]any), d.complaints(); len(want) != len(got) {
			diffs = append(diffs, fmt.Sprintf("[stderr] %q, want %q", got, want))
		}
		fact("sleepAlive", len(processesIn(p.g.workspace)))
	}
	reseeded, _ := os.ReadFile(filepath.Join(p.g.workspace, "reseeded"))
	fact("hookRunsAfter", strings.Count(string(reseeded), "\n"))
	if _, ok := facts["listens"]; ok {
		p.g.stop()
		fact("listens", strings.Count(d.log.String(), "guestd: serving"))
	}
	return diffs
}
