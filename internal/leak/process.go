package leak

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Processes lists the processes whose working directory is dir or below, as
// /proc shows them.
func Processes(dir string) []string {
	var found []string
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err != nil || cwd != dir && !strings.HasPrefix(cwd, dir+"/") {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		if len(command) == 0 {
			continue // it has been killed and is being taken down
		}
		found = append(found, filepath.Base(filepath.Dir(link))+" "+strings.ReplaceAll(string(command), "\x00", " "))
	}
	return found
}

// stat finds the name, the state and the parent in /proc/PID/stat. The name may
// hold anything.
var stat = regexp.MustCompile(`(?s)^(\d+ \(.*\) \S) (\d+) `)

// Children lists the children of a process, and among them those that have
// ended and were not waited for. Empty is this process.
func Children(pid string) []string {
	if pid == "" {
		pid, _ = os.Readlink("/proc/self")
	}
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has gone
		}
		if m := stat.FindSubmatch(text); m != nil && string(m[2]) == pid {
			found = append(found, string(m[1]))
		}
	}
	return found
}
