package probe

import "strings"

// parseRelease takes the kernel's release out of the text of /proc/version,
// "Linux version <release> ...". It reads that word only: what follows names
// the machine and the compiler of the build, which may be called anything.
// The release is not read from /proc/sys/kernel/osrelease because releases of
// gVisor that lack the NoNewPrivs line lack that file as well.
func parseRelease(version string) (string, bool) {
	rest, ok := strings.CutPrefix(version, "Linux version ")
	if !ok {
		return "", false
	}
	release, _, _ := strings.Cut(rest, " ")
	release = strings.TrimSpace(release)
	return release, release != ""
}

// isGVisor reports whether the release is one of gVisor's, such as
// "4.19.0-gvisor". Older ones call themselves 4.4.0 and cannot be told from a
// stock kernel of that release.
func isGVisor(release string) bool { return strings.Contains(release, "gvisor") }
