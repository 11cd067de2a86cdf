//go:build !linux

package guest

import "time"

var began = time.Now()

func nap(d time.Duration) { time.Sleep(d) }

func realTime() time.Duration { return time.Since(began) }
