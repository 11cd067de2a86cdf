package guest

import (
	"bytes"
	"os"
	"strconv"
)

// onlyZombies returns a function that reports whether the group has members, and
// all of them have ended and only wait for their parent, some init, to take
// notice. Not every init is quick about that.
func (g group) onlyZombies() func() bool {
	alive := "" // a member that was, which saves looking at all processes
	return func() bool {
		if alive != "" && g.member(alive) == living {
			return false
		}
		dir, err := os.Open("/proc")
		if err != nil {
			return false
		}
		defer dir.Close()
		names, err := dir.Readdirnames(-1)
		if err != nil {
			return false
		}
		found := false
		for _, name := range names {
			if name[0] < '0' || name[0] > '9' {
				continue
			}
			switch g.member(name) {
			case living:
				alive = name
				return false
			case zombie:
				found = true
			}
		}
		return found
	}
}

type membership int

const (
	stranger membership = iota
	living
	zombie
)

// member says what the process of that pid is to the group.
func (g group) member(pid string) membership {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return stranger // it is no more
	}
	switch state, number := parseStat(stat); {
	case number != int(g):
		return stranger
	case state == 'Z' || state == 'X':
		return zombie
	}
	return living
}

// parseStat reads the state and the process group from /proc/<pid>/stat:
// "pid (any bytes) state ppid pgrp ...".
func parseStat(stat []byte) (state byte, number int) {
	_, rest, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	fields := bytes.Fields(rest)
	if len(fields) < 3 {
		return 0, 0
	}
	number, _ = strconv.Atoi(string(fields[2]))
	return fields[0][0], number
}
