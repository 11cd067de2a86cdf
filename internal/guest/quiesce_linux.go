package guest

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

var errProcesses = errors.New("guest: the processes of this platform cannot be listed")

// targets lists what runs and is to be ended, by pid. It is not the guest
// itself, nor what is in its own session, init, or another user's.
func (q *quiescence) targets() ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	if own, err := os.Readlink("/proc/self"); err != nil || own != strconv.Itoa(os.Getpid()) {
		return nil, errProcesses // these are numbers of another PID namespace
	}
	self, ok := lookAt(os.Getpid())
	if !ok {
		return nil, errProcesses
	}
	var found []process
	for _, p := range all {
		switch {
		case p.pid <= 1 || p.pid == self.pid || p.ended() || p.session == self.session:
		case !q.server.config.QuiesceEverything && !q.owned[p.session] && !q.owned[p.group]:
		case !ofOurUser(p.pid):
		default:
			found = append(found, p)
		}
	}
	return found, nil
}

// ofOurUser asks for the real user: who a process belongs to in other respects
// it can change.
func ofOurUser(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err == nil && realUser(status) == os.Getuid()
}

// realUser reads /proc/<pid>/status, where a line has four users: real,
// effective, saved, of file systems. It returns -1 if there is none.
func realUser(status []byte) int {
	for line := range bytes.Lines(status) {
		if users, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			if fields := bytes.Fields(users); len(fields) == 4 {
				if n, err := strconv.Atoi(string(fields[0])); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// runs reports whether the process has not ended. Another one that has got its
// pid since then is not it.
func (p process) runs() bool {
	now, ok := lookAt(p.pid)
	return ok && !now.ended() && now.started == p.started
}

func (p process) signal(name string) { syscall.Kill(p.pid, killSignals[name]) }
