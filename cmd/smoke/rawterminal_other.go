//go:build !unix

package main

import "os"

// sizeChanges tells of nothing: there is no signal for it.
func sizeChanges() (changes <-chan os.Signal, stop func()) { return nil, func() {} }
