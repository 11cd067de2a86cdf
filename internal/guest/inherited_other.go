//go:build !linux

package guest

// keepInherited does nothing: no other platform does it in one call.
func keepInherited() {}
