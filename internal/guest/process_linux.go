package guest

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// A process is what /proc tells of one.
type process struct {
	pid     int
	command string // the kernel's short name
	state   byte
	parent  int
	group   int
	session int
	started string // when, in the kernel's own terms: with the pid it is unique
}

func (p *process) ended() bool { return p.state == 'Z' || p.state == 'X' }

// processes lists those that there are.
func processes() ([]process, error) {
	numbers, err := pids()
	if err != nil {
		return nil, err
	}
	var all []process
	for _, pid := range numbers {
		if p, ok := lookAt(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all, nil
}

// lookAt reports false when the process is no more.
func lookAt(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	p, ok := parseProcess(stat)
	return p, ok && p.pid == pid
}

// parseProcess reads /proc/<pid>/stat: "pid (any bytes) state ppid pgrp session",
// and sixteen fields on the time of its start.
func parseProcess(stat []byte) (p process, ok bool) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 1 || end < open {
		return p, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return p, false
	}
	p.command, p.state, p.started = string(stat[open+1:end]), fields[0][0], string(fields[19])
	ok = true
	for _, n := range []struct {
		to   *int
		text []byte
	}{{&p.pid, bytes.TrimSpace(stat[:open])}, {&p.parent, fields[1]}, {&p.group, fields[2]}, {&p.session, fields[3]}} {
		var err error
		*n.to, err = strconv.Atoi(string(n.text))
		ok = ok && err == nil
	}
	return p, ok
}

// signalSession signals the processes of the session that the group's leader
// leads, and of its group, and returns how many.
func (g group) signalSession(sig syscall.Signal) int {
	n := 0
	all, err := processes()
	for _, p := range all {
		if p.session == int(g) && !p.ended() && syscall.Kill(p.pid, sig) == nil {
			n++
		}
	}
	if err != nil { // what can be reached without looking
		g.signal(sig)
	}
	return n
}
