//go:build !unix

package guest

import "os"

var terminationSignal = os.Interrupt

func notifyReseed(chan<- os.Signal) {}

func takeSignals() {}
