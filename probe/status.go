package probe

import (
	"fmt"
	"strconv"
	"strings"
)

// maxStatus bounds the text that is parsed. A kernel prints about 1.5 KiB.
const maxStatus = 64 << 10

// A Status is what /proc/self/status says about privileges.
// See proc_pid_status(5).
type Status struct {
	Inheritable, Permitted, Effective, Bounding uint64 // capability masks

	Ambient    uint64
	HasAmbient bool // the kernel prints CapAmb (Linux 4.3, gVisor since 2026)

	NoNewPrivs    bool
	HasNoNewPrivs bool // the kernel prints NoNewPrivs (Linux 4.10, gVisor since 2026)

	// Release is the release of a gVisor kernel that prints no NoNewPrivs
	// line, which is accepted from it. Empty in every other case.
	Release string

	Seccomp int // 0 off, 1 strict, 2 filter; -1 unknown. Reported, not judged
	UID     int // effective; -1 unknown. Reported, not judged
}

// Privileged lists what makes the process privileged, each as Name=value:
// masks in lower case hexadecimal without leading zeros. Empty means that it is
// deprivileged.
func (s Status) Privileged() []string {
	offenders := s.heldCapabilities()
	switch {
	case s.NoNewPrivs, !s.HasNoNewPrivs && isGVisor(s.Release):
	case s.HasNoNewPrivs:
		offenders = append(offenders, "NoNewPrivs=0")
	default:
		offenders = append(offenders, "NoNewPrivs=absent")
	}
	return offenders
}

func (s Status) heldCapabilities() []string {
	var held []string
	for _, set := range []struct {
		name string
		mask uint64
	}{
		{"CapInh", s.Inheritable}, {"CapPrm", s.Permitted}, {"CapEff", s.Effective},
		{"CapBnd", s.Bounding}, {"CapAmb", s.Ambient},
	} {
		if set.mask != 0 {
			held = append(held, fmt.Sprintf("%s=%x", set.name, set.mask))
		}
	}
	return held
}

// Parse reads the text of /proc/<pid>/status. The four masks that every kernel
// prints must be there. No line that it reads may be there twice: a second one
// is what an output with something pasted into it looks like, and then neither
// can be believed. An error is an [*Error] with [ReasonUnreadable].
func Parse(text string) (Status, error) {
	if len(text) > maxStatus {
		return Status{}, unreadable("%d bytes, more than %d", len(text), maxStatus)
	}
	lines := map[string]string{
		"CapInh": "", "CapPrm": "", "CapEff": "", "CapBnd": "", "CapAmb": "",
		"NoNewPrivs": "", "Seccomp": "", "Uid": "",
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		name, value, _ := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, wanted := lines[name]; !wanted {
			continue
		}
		if seen[name] {
			return Status{}, unreadable("it carries more than one %s line", name)
		}
		seen[name], lines[name] = true, strings.TrimSpace(value)
	}

	s := Status{HasAmbient: seen["CapAmb"], HasNoNewPrivs: seen["NoNewPrivs"], Seccomp: -1, UID: -1}
	for _, set := range []struct {
		name     string
		mask     *uint64
		optional bool
	}{
		{"CapInh", &s.Inheritable, false}, {"CapPrm", &s.Permitted, false},
		{"CapEff", &s.Effective, false}, {"CapBnd", &s.Bounding, false},
		{"CapAmb", &s.Ambient, true},
	} {
		if !seen[set.name] {
			if set.optional {
				continue
			}
			return Status{}, unreadable("it carries no %s line", set.name)
		}
		mask, ok := parseMask(lines[set.name])
		if !ok {
			return Status{}, unreadable("%s is %s, not a bare hexadecimal mask", set.name, quote(lines[set.name]))
		}
		*set.mask = mask
	}
	if seen["NoNewPrivs"] {
		switch lines["NoNewPrivs"] {
		case "0":
		case "1":
			s.NoNewPrivs = true
		default:
			return Status{}, unreadable("NoNewPrivs is %s, not 0 or 1", quote(lines["NoNewPrivs"]))
		}
	}
	if seen["Seccomp"] {
		mode, ok := parseDecimal(lines["Seccomp"])
		if !ok {
			return Status{}, unreadable("Seccomp is %s, not a number", quote(lines["Seccomp"]))
		}
		s.Seccomp = mode
	}
	if seen["Uid"] {
		// Real, effective, saved and file system user.
		fields := strings.Fields(lines["Uid"])
		if len(fields) != 4 {
			return Status{}, unreadable("Uid is %s, not four numbers", quote(lines["Uid"]))
		}
		uid, ok := parseDecimal(fields[1])
		if !ok {
			return Status{}, unreadable("Uid is %s, not four numbers", quote(lines["Uid"]))
		}
		s.UID = uid
	}
	return s, nil
}

// parseMask accepts what the kernel prints and nothing else that
// strconv.ParseUint would: no sign, no more than 64 bits' worth of digits.
func parseMask(text string) (uint64, bool) {
	if len(text) > 16 {
		return 0, false
	}
	mask, err := strconv.ParseUint(text, 16, 64)
	return mask, err == nil
}

func parseDecimal(text string) (int, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}
