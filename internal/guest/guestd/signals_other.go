//go:build !unix

package main

import "os"

var terminationSignal = os.Interrupt

func catchSignals() {}
