//go:build linux

package guest_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
)

func TestZeroConfig(t *testing.T) {
	g := newGuest(t, guest.Config{}) // but for the token and the workspace
	if r := g.shell("echo $PATH"); r.stdout == "\n" || r.result["exitCode"] != 0.0 {
		t.Errorf("%+v", r)
	}
}

func TestNewRefuses(t *testing.T) {
	dir := folder(t)
	for _, test := range []struct {
		name   string
		config guest.Config
		want   string
	}{
		{"no credential", guest.Config{Workspace: dir}, "Token"},
		{"no such workspace", guest.Config{Token: "t", Workspace: dir + "/nothing"}, "Workspace"},
		{"a workspace that is a file", guest.Config{Token: "t", Workspace: "/etc/hostname"}, "Workspace"},
		{"a relative root", guest.Config{Token: "t", Workspace: dir, ReadRoots: []string{"x"}}, "root x"},
		{"a negative time", guest.Config{Token: "t", Workspace: dir, PreauthIdle: -1}, "PreauthIdle"},
		{"a negative size", guest.Config{Token: "t", Workspace: dir, MaxFrameBytes: -1}, "MaxFrameBytes"},
		{"a size that no frame can have", guest.Config{Token: "t", Workspace: dir, ReadChunkBytes: 1<<30 + 1}, "ReadChunkBytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := guest.New(test.config)
			if e, ok := errors.AsType[*guest.ConfigError](err); !ok || e.Name != test.want || !strings.HasPrefix(e.Error(), "guest: ") {
				t.Errorf("%v, want a ConfigError about %s", err, test.want)
			}
		})
	}
}

func TestConfigFromEnv(t *testing.T) {
	base := []string{"NAMZU_AGENT_TCP_PORT=1024", "NAMZU_AGENT_BIND_TOKEN=t"}
	for _, test := range []struct {
		name    string
		environ []string
		listen  string
		check   func(guest.Config) bool
	}{
		{"what must be there", nil, "0.0.0.0:1024", func(c guest.Config) bool { return c.Token == "t" && !c.RequireToken && c.Workspace == "" }},
		{"an address", []string{"NAMZU_AGENT_ADDR=127.0.0.1"}, "127.0.0.1:1024", nil},
		{"an IPv6 address", []string{"NAMZU_AGENT_ADDR=fd00::1"}, "[fd00::1]:1024", nil},
		{"one in brackets", []string{"NAMZU_AGENT_ADDR=[fd00::1]"}, "[fd00::1]:1024", nil},
		{"the last of a name counts", []string{"NAMZU_AGENT_TCP_PORT=1", "NAMZU_AGENT_TCP_PORT=2"}, "0.0.0.0:2", nil},
		{"roots", []string{"NAMZU_SANDBOX_READ_ROOTS=/proc: /usr/share/doc ::/proc/"}, "0.0.0.0:1024",
			func(c guest.Config) bool { return slices.Equal(c.ReadRoots, []string{"/proc", "/usr/share/doc"}) }},
		{"numbers as JavaScript reads them", []string{"NAMZU_AGENT_PREAUTH_IDLE_TIMEOUT_MS= 0x10 ", "NAMZU_AGENT_MAX_PREAUTH_CONNECTIONS=1e2"}, "0.0.0.0:1024",
			func(c guest.Config) bool { return c.PreauthIdle == 16*time.Millisecond && c.MaxPreauth == 100 }},
		{"no grace", []string{"NAMZU_AGENT_CANCEL_GRACE_MS="}, "0.0.0.0:1024", func(c guest.Config) bool { return c.CancelGrace < 0 }},
		{"for ever", []string{"NAMZU_AGENT_SHUTDOWN_DEADLINE_MS=9007199254740991"}, "0.0.0.0:1024", func(c guest.Config) bool { return c.ShutdownDeadline > 1e6*time.Hour }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, listen, err := guest.ConfigFromEnv(append(slices.Clone(base), test.environ...))
			if err != nil || listen != test.listen || test.check != nil && !test.check(c) {
				t.Errorf("%v, %q, error %v", c, listen, err)
			}
		})
	}
	for _, refused := range []string{
		"NAMZU_AGENT_UNIX_PATH=/x", "NAMZU_AGENT_VSOCK_PORT=5", "NAMZU_AGENT_TCP_PORT=-1", "NAMZU_AGENT_TCP_PORT=", "NAMZU_AGENT_MAX_FRAME_BYTES=0",
		"NAMZU_AGENT_MAX_FRAME_BYTES=9007199254740992", "NAMZU_AGENT_MAX_FRAME_BYTES=Infinity", "NAMZU_AGENT_CANCEL_GRACE_MS=-1", "NAMZU_SANDBOX_WRITE_ROOTS=tmp",
		"NAMZU_AGENT_QUIESCE_MAX_ROUNDS=x",
	} {
		name, _, _ := strings.Cut(refused, "=")
		_, _, err := guest.ConfigFromEnv(append(slices.Clone(base), refused))
		if e, ok := errors.AsType[*guest.ConfigError](err); !ok || e.Name != name {
			t.Errorf("%s: %v, want a refusal that names it", refused, err)
		}
	}
}

func TestConfigDoesNotPrintTheToken(t *testing.T) {
	const secret = "5b0c7f1e-secret"
	c := guest.Config{Token: secret, Environ: []string{"NAMZU_AGENT_BIND_TOKEN=" + secret}}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c)
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c), fmt.Sprintf("%v", &c), log.String()} {
		if strings.Contains(text, secret) {
			t.Errorf("%s", text)
		}
	}
	_, _, err := guest.ConfigFromEnv([]string{"NAMZU_AGENT_BIND_TOKEN=" + secret, "NAMZU_AGENT_TCP_PORT=x"})
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}
