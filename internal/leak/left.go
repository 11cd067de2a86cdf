package leak

import (
	"slices"
	"time"
)

// pause is how long lies between two looks at what is left.
const pause = 10 * time.Millisecond

// Left returns what list has and did not have before, as soon as that is
// nothing, or after two seconds. It is for what ends by itself, but after the
// last thing that a test can wait for; what a test can join it must join.
func Left(before []string, list func() []string) []string {
	return left(patience, func() []string {
		now := list()
		for _, known := range before {
			if i := slices.Index(now, known); i >= 0 {
				now = slices.Delete(now, i, i+1)
			}
		}
		return now
	})
}

// left returns what list does, as soon as that is nothing or when the time is
// up.
func left(patience time.Duration, list func() []string) []string {
	deadline := time.After(patience)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		found := list()
		if len(found) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline:
			return found
		}
	}
}
