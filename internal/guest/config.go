package guest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A Config configures a Server. It is copied by New. Zero fields take the
// defaults that their comments name; a credential has none.
type Config struct {
	// Token is what every request but healthz must carry. Empty with
	// RequireToken set: the first token that is presented is bound for the life
	// of the server. One of the two must be set.
	Token        string
	RequireToken bool

	// Workspace is the folder that relative paths start from, that working
	// directories lie in and that can always be read and written. It must exist.
	// Empty: /workspace.
	Workspace string
	// ReadRoots and WriteRoots are further absolute folders for reading and for
	// writing. A write root cannot be read unless it is a read root too.
	ReadRoots, WriteRoots []string

	// Environ is the environment that programs start from. The guest's own
	// variables, NAMZU_AGENT_* and NAMZU_SANDBOX_*, are taken out of it.
	// nil: the process's own.
	Environ []string

	// Confine starts programs with no capability in any set and with
	// no_new_privs, which is what a pod's security context does in a cluster.
	// Linux only. Main programs and TestMains that use it must call RunLauncher
	// first. False: programs have what this process has.
	Confine bool

	// DialContext connects to the ports that tcp-connect names, which are always
	// those of 127.0.0.1 and ::1. nil: as they are on this machine.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// Log receives what an operator should know. nil: nothing is logged.
	Log *slog.Logger

	MaxTimeout         time.Duration // longest timeoutMs of execute; 0 = 30 min
	ReservationTTL     time.Duration // life of a reservation that is not used; 0 = 30 s
	RecordTTL          time.Duration // how long the end of an execution is remembered; 0 = 60 s
	RetainedTTL        time.Duration // the same of one whose output is kept; 0 = 10 min
	RetainedBytes      int           // output that is kept of each; 0 = 1 MiB
	SessionTTL         time.Duration // how long the end of a session is remembered; 0 = 10 min
	SessionBytes       int           // output that is kept of each; 0 = 1 MiB
	MaxSessions        int           // sessions, running and remembered; 0 = 16
	SessionKillTimeout time.Duration // how long kill-session waits for the end; 0 = 5 s
	MaxRetained        int           // executions whose output is kept; 0 = 32
	MaxExecutions      int           // reservations, running and remembered executions; 0 = 1,024

	CancelGrace     time.Duration // from SIGTERM to SIGKILL; 0 = 250 ms, negative = none
	CancelTimeout   time.Duration // within which a cancel must be confirmed; 0 = 5 s
	QuiesceGrace    time.Duration // CancelGrace of a quiesce and of a shutdown; 0 = 1 s
	QuiesceDeadline time.Duration // within which a quiesce must be confirmed; 0 = 20 s
	QuiesceRounds   int           // looks for what was started meanwhile; 0 = 8
	QuiesceSettle   time.Duration // until ends are known, once nothing runs; 0 = 1 s
	FlushTimeout    time.Duration // of a flush that names none; 0 = 10 s
	// FlushCommand is run by /bin/sh for a flush, with all of Environ. Empty:
	// syncfs(2) writes the workspace's file system to its disk.
	FlushCommand string
	// QuiesceEverything has a quiesce end all processes of this user but init and
	// those of the guest's own session, and not only what the guest has started.
	// It is for a guest that is alone in its PID namespace.
	QuiesceEverything bool

	ShutdownDeadline time.Duration // bound of Shutdown whatever its context says; 0 = 15 s

	MaxFrameBytes      int           // any frame; 0 = 256 MiB
	MaxFirstFrameBytes int           // first frame of a connection; 0 = 8 MiB, never above MaxFrameBytes
	MaxPreauth         int           // connections that have not authenticated; 0 = 64
	MaxPreauthBytes    int           // bytes that all of them hold; 0 = 32 MiB, raised to MaxFirstFrameBytes
	PreauthIdle        time.Duration // between two bytes before authentication; 0 = 10 s
	PreauthDeadline    time.Duration // from accept to authentication; 0 = 10 s
	RefusalGrace       time.Duration // a refused peer's time to take the refusal; 0 = 1 s

	ReadRangeBytes int // longest range of read-file; 0 = 1 MiB
	ReadChunkBytes int // raw bytes in a frame of read-file-stream; 0 = 256 KiB
}

// maxSetting bounds every size and count: it keeps sums of a few of them, and
// base64 of a read range, inside the 32 bits that a frame header has.
const maxSetting = 1 << 30

const defaultShutdownDeadline = 15 * time.Second

func orDefault[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// withDefaults fills in the defaults and reports the first field that makes no
// sense.
func (c Config) withDefaults() (Config, error) {
	if c.Token == "" && !c.RequireToken {
		return c, &ConfigError{"Token", "is empty: set it, or set RequireToken to bind the first token that is presented"}
	}
	if c.Workspace == "" {
		c.Workspace = "/workspace"
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.DialContext == nil {
		c.DialContext = (&net.Dialer{}).DialContext
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.ReadRoots, c.WriteRoots = slices.Clone(c.ReadRoots), slices.Clone(c.WriteRoots)
	for _, root := range slices.Concat([]string{c.Workspace}, c.ReadRoots, c.WriteRoots) {
		if !filepath.IsAbs(root) {
			return c, &ConfigError{"root " + root, "is not absolute"}
		}
	}
	orDefault(&c.MaxTimeout, 30*time.Minute)
	orDefault(&c.ReservationTTL, 30*time.Second)
	orDefault(&c.RecordTTL, time.Minute)
	orDefault(&c.RetainedTTL, 10*time.Minute)
	orDefault(&c.RetainedBytes, 1<<20)
	orDefault(&c.SessionTTL, 10*time.Minute)
	orDefault(&c.SessionBytes, 1<<20)
	orDefault(&c.MaxSessions, 16)
	orDefault(&c.SessionKillTimeout, 5*time.Second)
	orDefault(&c.MaxRetained, 32)
	orDefault(&c.MaxExecutions, 1024)
	orDefault(&c.CancelGrace, 250*time.Millisecond)
	c.CancelGrace = max(c.CancelGrace, 0)
	orDefault(&c.CancelTimeout, 5*time.Second)
	orDefault(&c.QuiesceGrace, time.Second)
	orDefault(&c.QuiesceDeadline, 20*time.Second)
	orDefault(&c.QuiesceRounds, 8)
	orDefault(&c.QuiesceSettle, time.Second)
	orDefault(&c.FlushTimeout, 10*time.Second)
	orDefault(&c.ShutdownDeadline, defaultShutdownDeadline)
	orDefault(&c.MaxFrameBytes, wire.MaxFrame)
	orDefault(&c.MaxFirstFrameBytes, wire.MaxFirstFrame)
	orDefault(&c.MaxPreauth, 64)
	orDefault(&c.MaxPreauthBytes, 32<<20)
	orDefault(&c.PreauthIdle, 10*time.Second)
	orDefault(&c.PreauthDeadline, 10*time.Second)
	orDefault(&c.RefusalGrace, time.Second)
	orDefault(&c.ReadRangeBytes, wire.MaxReadRange)
	orDefault(&c.ReadChunkBytes, wire.ReadChunk)
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxTimeout", int64(c.MaxTimeout)}, {"ReservationTTL", int64(c.ReservationTTL)},
		{"RecordTTL", int64(c.RecordTTL)}, {"RetainedTTL", int64(c.RetainedTTL)},
		{"SessionTTL", int64(c.SessionTTL)}, {"SessionKillTimeout", int64(c.SessionKillTimeout)}, {"CancelTimeout", int64(c.CancelTimeout)},
		{"QuiesceGrace", int64(c.QuiesceGrace)}, {"QuiesceDeadline", int64(c.QuiesceDeadline)},
		{"QuiesceSettle", int64(c.QuiesceSettle)}, {"FlushTimeout", int64(c.FlushTimeout)}, {"ShutdownDeadline", int64(c.ShutdownDeadline)},
		{"PreauthIdle", int64(c.PreauthIdle)}, {"PreauthDeadline", int64(c.PreauthDeadline)},
		{"RefusalGrace", int64(c.RefusalGrace)},
	} {
		if f.value < 0 {
			return c, &ConfigError{f.name, fmt.Sprintf("is negative (%v)", time.Duration(f.value))}
		}
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"RetainedBytes", c.RetainedBytes}, {"MaxRetained", c.MaxRetained},
		{"SessionBytes", c.SessionBytes}, {"MaxSessions", c.MaxSessions},
		{"QuiesceRounds", c.QuiesceRounds}, {"MaxExecutions", c.MaxExecutions}, {"MaxFrameBytes", c.MaxFrameBytes},
		{"MaxFirstFrameBytes", c.MaxFirstFrameBytes}, {"MaxPreauth", c.MaxPreauth},
		{"MaxPreauthBytes", c.MaxPreauthBytes}, {"ReadRangeBytes", c.ReadRangeBytes},
		{"ReadChunkBytes", c.ReadChunkBytes},
	} {
		if f.value < 0 || f.value > maxSetting {
			return c, &ConfigError{f.name, fmt.Sprintf("is %d, want 1 to %d", f.value, maxSetting)}
		}
	}
	c.MaxFirstFrameBytes = min(c.MaxFirstFrameBytes, c.MaxFrameBytes)
	c.MaxPreauthBytes = max(c.MaxPreauthBytes, c.MaxFirstFrameBytes)
	c.QuiesceGrace = min(c.QuiesceGrace, c.CancelTimeout-time.Millisecond)
	return c, nil
}

// String, GoString and LogValue keep the token, and the environment that may
// hold it, out of whatever a Config is printed into.
func (c Config) String() string {
	return fmt.Sprintf("guest.Config{Workspace: %q, ReadRoots: %q, WriteRoots: %q, Confine: %v, Token: [redacted]}",
		c.Workspace, c.ReadRoots, c.WriteRoots, c.Confine)
}

// GoString is String.
func (c Config) GoString() string { return c.String() }

// LogValue is String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
