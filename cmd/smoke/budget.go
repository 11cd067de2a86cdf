package main

import "time"

// What acquire.New asks for beside the ready timeout: a sandbox must not expire
// while it is being created.
const (
	probeMost   = 15 * time.Second // the probe may take as long as the ready timeout, and at most this
	ttlMargin   = 5 * time.Second
	leastReady  = 100 * time.Millisecond
	leastTTL    = 7 * time.Second // leaves a ready timeout of 1 s
	defaultWait = time.Minute
	mostTTL     = 7 * 24 * time.Hour
)

// leastTTLFor is the shortest TTL that leaves room for a ready timeout.
func leastTTLFor(ready time.Duration) time.Duration {
	return ready + min(ready, probeMost) + ttlMargin
}

// fitReadyTimeout returns the ready timeout: the one that was given if the TTL
// has room for it, else the default, or the longest that a shorter TTL allows.
func fitReadyTimeout(ttl, ready time.Duration, given bool) (time.Duration, error) {
	switch {
	case ttl < leastTTL || ttl > mostTTL:
		return 0, usagef("-ttl is %v, want %v to %v", ttl, leastTTL, mostTTL)
	case given && ready < leastReady:
		return 0, usagef("-ready-timeout is %v, want at least %v", ready, leastReady)
	case given && ttl < leastTTLFor(ready):
		return 0, usagef("-ttl %v is too short for -ready-timeout %v: a sandbox could expire while it is created; use -ttl %v or more", ttl, ready, leastTTLFor(ready))
	case given:
		return ready, nil
	case ttl >= leastTTLFor(defaultWait):
		return defaultWait, nil
	case ttl >= leastTTLFor(probeMost):
		return ttl - probeMost - ttlMargin, nil
	}
	return (ttl - ttlMargin) / 2, nil
}
