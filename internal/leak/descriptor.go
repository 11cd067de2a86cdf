package leak

import (
	"os"
	"path/filepath"
	"regexp"
)

// inode is what tells one socket or pipe from another in /proc/PID/fd.
var inode = regexp.MustCompile(`:\[\d+\]$`)

// Descriptors lists the files that a process has open by their names, and by
// their kinds where there are none. Empty is this process.
func Descriptors(pid string) []string {
	if pid == "" {
		pid = "self"
	}
	var found []string
	links, _ := filepath.Glob(filepath.Join("/proc", pid, "fd/*"))
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue // it was that of the look itself
		}
		found = append(found, inode.ReplaceAllString(target, ""))
	}
	return found
}
