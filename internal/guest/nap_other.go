//go:build !linux

package guest

import "time"

func nap(d time.Duration) { time.Sleep(d) }
