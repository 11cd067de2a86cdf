//go:build !linux

package guest

import "os"

// rename moves the file at one place to another. Between two directories it
// goes by their paths: the standard library has no other way here.
func rename(from, to *place) error {
	if from.dir == to.dir {
		return from.dir.Rename(from.base, to.base)
	}
	return os.Rename(from.path, to.path)
}
