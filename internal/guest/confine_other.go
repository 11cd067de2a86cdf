//go:build !linux

package guest

// RunLauncher does nothing here: no program is confined but on Linux.
func RunLauncher() {}

// newStarter returns how programs are started.
func newStarter(confine bool) (starter, error) {
	if confine {
		return nil, &ConfigError{"Confine", "is set, but programs can be confined on Linux only"}
	}
	return startPlain, nil
}
