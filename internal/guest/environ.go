package guest

import (
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// Variables that error texts name.
const (
	variableMaxTimeout    = "NAMZU_SANDBOX_MAX_TIMEOUT_MS"
	variableMaxFrame      = "NAMZU_AGENT_MAX_FRAME_BYTES"
	variableMaxFirstFrame = "NAMZU_AGENT_MAX_PREAUTH_FRAME_BYTES"
	variablePreauthCount  = "NAMZU_AGENT_MAX_PREAUTH_CONNECTIONS"
	variablePreauthBytes  = "NAMZU_AGENT_MAX_PREAUTH_BUFFER_BYTES"
	variableMaxRetained   = "NAMZU_AGENT_MAX_RETAINED_OUTPUT_LOGS"
	variableReadRange     = "NAMZU_AGENT_READ_FILE_RANGE_BYTES"
)

// A setting is a numeric environment variable.
type setting struct {
	name  string
	least int64 // 1, or 0 where "none" can be asked for
	set   func(*Config, int64)
}

func millis(field func(*Config) *time.Duration) func(*Config, int64) {
	return func(c *Config, v int64) {
		// What is longer than a Duration can say is as good as for ever.
		*field(c) = time.Duration(min(v, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
}

func count(field func(*Config) *int) func(*Config, int64) {
	return func(c *Config, v int64) { *field(c) = int(min(v, maxSetting)) }
}

// settings holds every numeric variable of the protocol's reference guest: a
// value with which that refuses to start must not start this one either.
var settings = []setting{
	{variableMaxTimeout, 1, millis(func(c *Config) *time.Duration { return &c.MaxTimeout })},
	{"NAMZU_AGENT_EXECUTION_LEASE_TTL_MS", 1, millis(func(c *Config) *time.Duration { return &c.ReservationTTL })},
	{"NAMZU_AGENT_EXECUTION_TERMINAL_TTL_MS", 1, millis(func(c *Config) *time.Duration { return &c.RecordTTL })},
	{"NAMZU_AGENT_MAX_TRACKED_EXECUTIONS", 1, count(func(c *Config) *int { return &c.MaxExecutions })},
	{"NAMZU_AGENT_CANCEL_GRACE_MS", 0, func(c *Config, v int64) {
		millis(func(c *Config) *time.Duration { return &c.CancelGrace })(c, v)
		if v == 0 {
			c.CancelGrace = -1
		}
	}},
	{"NAMZU_AGENT_CANCEL_CONFIRM_TIMEOUT_MS", 1, millis(func(c *Config) *time.Duration { return &c.CancelTimeout })},
	{"NAMZU_AGENT_QUIESCE_GRACE_MS", 1, millis(func(c *Config) *time.Duration { return &c.QuiesceGrace })},
	{"NAMZU_AGENT_SHUTDOWN_DEADLINE_MS", 1, millis(func(c *Config) *time.Duration { return &c.ShutdownDeadline })},
	{variableMaxFrame, 1, count(func(c *Config) *int { return &c.MaxFrameBytes })},
	{variableMaxFirstFrame, 1, count(func(c *Config) *int { return &c.MaxFirstFrameBytes })},
	{variablePreauthCount, 1, count(func(c *Config) *int { return &c.MaxPreauth })},
	{variablePreauthBytes, 1, count(func(c *Config) *int { return &c.MaxPreauthBytes })},
	{"NAMZU_AGENT_PREAUTH_IDLE_TIMEOUT_MS", 1, millis(func(c *Config) *time.Duration { return &c.PreauthIdle })},
	{"NAMZU_AGENT_PREAUTH_DEADLINE_MS", 1, millis(func(c *Config) *time.Duration { return &c.PreauthDeadline })},
	{"NAMZU_AGENT_REFUSAL_FLUSH_GRACE_MS", 1, millis(func(c *Config) *time.Duration { return &c.RefusalGrace })},
	{variableReadRange, 1, count(func(c *Config) *int { return &c.ReadRangeBytes })},
	{"NAMZU_AGENT_READ_FILE_STREAM_CHUNK_BYTES", 1, count(func(c *Config) *int { return &c.ReadChunkBytes })},
	{"NAMZU_AGENT_EXECUTION_RETAINED_TTL_MS", 1, millis(func(c *Config) *time.Duration { return &c.RetainedTTL })},
	{"NAMZU_AGENT_EXECUTION_LOG_BYTES", 1, count(func(c *Config) *int { return &c.RetainedBytes })},
	{variableMaxRetained, 1, count(func(c *Config) *int { return &c.MaxRetained })},
	{"NAMZU_AGENT_MAX_SESSIONS", 1, count(func(c *Config) *int { return &c.MaxSessions })},
	{"NAMZU_AGENT_SESSION_LOG_BYTES", 1, count(func(c *Config) *int { return &c.SessionBytes })},
	{"NAMZU_AGENT_SESSION_TERMINAL_TTL_MS", 1, millis(func(c *Config) *time.Duration { return &c.SessionTTL })},
	{"NAMZU_AGENT_SESSION_KILL_CONFIRM_TIMEOUT_MS", 1, millis(func(c *Config) *time.Duration { return &c.SessionKillTimeout })},
	{"NAMZU_AGENT_QUIESCE_DEADLINE_MS", 1, millis(func(c *Config) *time.Duration { return &c.QuiesceDeadline })},
	{"NAMZU_AGENT_QUIESCE_MAX_ROUNDS", 1, count(func(c *Config) *int { return &c.QuiesceRounds })},
	{"NAMZU_AGENT_QUIESCE_SETTLE_MS", 1, millis(func(c *Config) *time.Duration { return &c.QuiesceSettle })},
	{"NAMZU_AGENT_FLUSH_TIMEOUT_MS", 1, millis(func(c *Config) *time.Duration { return &c.FlushTimeout })},
}

// lookup finds a variable in environ, where the last of a name counts.
func lookup(environ []string, name string) (string, bool) {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// ConfigFromEnv reads a guest's configuration from its environment: the
// NAMZU_SANDBOX_* and NAMZU_AGENT_* variables, with the address to listen on.
// Everything that must stop a guest from starting and can be known without
// looking at the machine is an error here, a *ConfigError.
func ConfigFromEnv(environ []string) (c Config, listen string, err error) {
	c.Environ = slices.Clone(environ)
	c.Workspace, _ = lookup(environ, "NAMZU_SANDBOX_WORKSPACE")
	read, _ := lookup(environ, "NAMZU_SANDBOX_READ_ROOTS")
	write, _ := lookup(environ, "NAMZU_SANDBOX_WRITE_ROOTS")
	if c.ReadRoots, err = splitRoots("NAMZU_SANDBOX_READ_ROOTS", read); err != nil {
		return Config{}, "", err
	}
	if c.WriteRoots, err = splitRoots("NAMZU_SANDBOX_WRITE_ROOTS", write); err != nil {
		return Config{}, "", err
	}
	for _, s := range settings {
		text, ok := lookup(environ, s.name)
		if !ok {
			continue
		}
		v := numberOfText(text)
		if v != math.Trunc(v) || v < float64(s.least) || v > wire.MaxSafeInteger {
			return Config{}, "", &ConfigError{s.name, fmt.Sprintf("must be a whole number of at least %d", s.least)}
		}
		s.set(&c, int64(v))
	}
	c.FlushCommand, _ = lookup(environ, "NAMZU_AGENT_FLUSH_COMMAND")
	for _, name := range []string{"NAMZU_AGENT_UNIX_PATH", "NAMZU_AGENT_VSOCK_PORT"} {
		if v, _ := lookup(environ, name); v != "" {
			return Config{}, "", &ConfigError{name, "is set, but this guest listens on TCP only: unset it and set NAMZU_AGENT_TCP_PORT"}
		}
	}
	port, _ := lookup(environ, "NAMZU_AGENT_TCP_PORT")
	if port == "" {
		return Config{}, "", &ConfigError{"NAMZU_AGENT_TCP_PORT", "is not set: it is the port to listen on"}
	}
	n := numberOfText(port)
	if n != math.Trunc(n) || n < 0 || n > 65535 {
		return Config{}, "", &ConfigError{"NAMZU_AGENT_TCP_PORT", fmt.Sprintf("must be an integer port in [0, 65535], got %q", port)}
	}
	var set bool
	if c.Token, set = lookup(environ, "NAMZU_AGENT_BIND_TOKEN"); set && c.Token == "" {
		return Config{}, "", &ConfigError{"NAMZU_AGENT_BIND_TOKEN", "is set but empty: set it to a secret of this instance, such as the pod's uid, or unset it"}
	}
	require, _ := lookup(environ, "NAMZU_AGENT_REQUIRE_TOKEN")
	c.RequireToken = require != ""
	if c.Token == "" && !c.RequireToken {
		return Config{}, "", &ConfigError{"NAMZU_AGENT_TCP_PORT", "needs a credential: set NAMZU_AGENT_BIND_TOKEN to a secret of this instance, or NAMZU_AGENT_REQUIRE_TOKEN to bind the first token that is presented"}
	}
	host, _ := lookup(environ, "NAMZU_AGENT_ADDR")
	if host == "" {
		host = "0.0.0.0"
	}
	return c, net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(n))), nil
}

func splitRoots(name, list string) ([]string, error) {
	var roots []string
	for root := range strings.SplitSeq(list, ":") {
		if root = strings.TrimSpace(root); root == "" {
			continue
		}
		if !filepath.IsAbs(root) {
			return nil, &ConfigError{name, fmt.Sprintf("has the relative path %q, want absolute ones separated by colons", root)}
		}
		if root = filepath.Clean(root); !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots, nil
}
