//go:build !linux

package guest

import "errors"

var errFlush = errors.New("guest: there is no syncfs(2) on this platform")

func syncFileSystem(string) error { return errFlush }
