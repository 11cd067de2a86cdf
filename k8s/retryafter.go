package k8s

import (
	"strings"
	"time"
)

// maxRetryAfter is as long as a server can ask to wait: 2^31-1 seconds. A larger
// number means the same to every caller.
const maxRetryAfter = (1<<31 - 1) * time.Second

// parseRetryAfter reads a Retry-After header (RFC 9110, 10.2.3): whole seconds
// or a date, which is taken relative to now. It reports false when there is no
// usable value, which is not the same as a wait of zero.
func parseRetryAfter(s string, now time.Time) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if digits := strings.TrimPrefix(s, "-"); digits != "" && strings.Trim(digits, "0123456789") == "" {
		if digits != s {
			return 0, true
		}
		n := time.Duration(0)
		for _, c := range digits {
			if n = n*10 + time.Duration(c-'0'); n >= maxRetryAfter/time.Second {
				return maxRetryAfter, true
			}
		}
		return n * time.Second, true
	}
	t, ok := parseHTTPDate(s)
	if !ok {
		return 0, false
	}
	return min(max(t.Sub(now), 0), maxRetryAfter), true
}

// httpDates are the three forms of RFC 9110, 5.6.7, the one in use first.
var httpDates = [...]string{
	"Mon, 02 Jan 2006 15:04:05 GMT",
	"Monday, 02-Jan-06 15:04:05 MST",
	"Mon Jan _2 15:04:05 2006",
}

func parseHTTPDate(s string) (time.Time, bool) {
	for _, layout := range httpDates {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
