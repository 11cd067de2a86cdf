package guest

import (
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
	self, _ := lookAt(os.Getpid())
	var found []process
	for _, p := range all {
		switch {
		case p.pid <= 1 || p.pid == self.pid || p.ended() || p.session == self.session:
		case !q.server.config.QuiesceEverything && !q.owned[p.session] && !q.owned[p.group]:
		case q.server.config.QuiesceEverything && !ofOurUser(p.pid):
		default:
			found = append(found, p)
		}
	}
	return found, nil
}

func ofOurUser(pid int) bool {
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// runs reports whether the process has not ended. Another one that has got its
// pid since then is not it.
func (p process) runs() bool {
	now, ok := lookAt(p.pid)
	return ok && !now.ended() && now.started == p.started
}

func (p process) signal(name string) { syscall.Kill(p.pid, killSignals[name]) }
