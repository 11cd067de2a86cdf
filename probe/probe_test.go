package probe_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/probe"
)

// A guest answers commands with recorded or made-up texts and logs them.
type guest struct {
	status, version string
	log             []string
	exec            probe.Exec // instead, when set
}

func (g *guest) run(ctx context.Context, name string, args ...string) (probe.Output, error) {
	command := strings.Join(append([]string{name}, args...), " ")
	g.log = append(g.log, command)
	switch {
	case g.exec != nil:
		return g.exec(ctx, name, args...)
	case command == "cat /proc/self/status":
		return probe.Output{Stdout: []byte(g.status)}, nil
	case command == "cat /proc/version" && g.version != "":
		return probe.Output{Stdout: []byte(g.version)}, nil
	}
	return probe.Output{ExitCode: 1, Stderr: []byte("cat: No such file or directory\n")}, nil
}

const (
	askStatus  = "cat /proc/self/status"
	askVersion = "cat /proc/version"
	stock      = "Linux version 6.18.44 (someone@gvisor-builds) (gcc 15.3.0) #1 SMP\n"
)

func TestRun(t *testing.T) {
	confined := recorded(t, "linux-confined.status")
	silent := recorded(t, "gvisor-2022-confined.status")
	newer := recorded(t, "gvisor-2026.version")
	for _, c := range []struct {
		sentence string
		guest    guest
		reason   probe.Reason // "" when admitted
		words    []string     // of the error, or the release that was accepted
		asked    []string
	}{
		{"a confined process on Linux is admitted with one question",
			guest{status: confined}, "", nil, []string{askStatus}},
		{"a confined process on a gVisor that prints every line is admitted with one question",
			guest{status: recorded(t, "gvisor-2026-confined.status"), version: newer}, "", nil, []string{askStatus}},
		{"a kernel that prints no NoNewPrivs line is admitted when it says that it is gVisor",
			guest{status: silent, version: newer}, "", []string{"4.19.0-gvisor"}, []string{askStatus, askVersion}},
		{"the same status from a stock kernel is refused, whatever the machine was called that built it",
			guest{status: silent, version: stock}, probe.ReasonUnreadable, []string{"carries no NoNewPrivs line", "sandbox sb-1"}, []string{askStatus, askVersion}},
		{"a gVisor that hides what it is cannot be told from a stock kernel",
			guest{status: silent, version: recorded(t, "gvisor-2022.version")}, probe.ReasonUnreadable, []string{"carries no NoNewPrivs line", "4.4.0"}, []string{askStatus, askVersion}},
		{"a version that is no version",
			guest{status: silent, version: "gvisor\n"}, probe.ReasonUnreadable, []string{"carries no NoNewPrivs line", `"gvisor"`}, []string{askStatus, askVersion}},
		{"a version without a release",
			guest{status: silent, version: "Linux version "}, probe.ReasonUnreadable, []string{"carries no NoNewPrivs line"}, []string{askStatus, askVersion}},
		{"a guest without a version",
			guest{status: silent}, probe.ReasonFailed, []string{`could not run "cat /proc/version"`, "exited 1"}, []string{askStatus, askVersion}},
		{"root on gVisor is privileged whatever the kernel calls itself, so it is not asked",
			guest{status: recorded(t, "gvisor-2022-root.status"), version: newer}, probe.ReasonPrivileged,
			[]string{"CapInh=3fffffdfff", "CapPrm=3fffffdfff", "CapEff=3fffffdfff", "CapBnd=3fffffdfff"}, []string{askStatus}},
		{"root on Linux",
			guest{status: recorded(t, "linux-root.status")}, probe.ReasonPrivileged,
			[]string{"sandbox sb-1 is PRIVILEGED", "CapPrm=1fffeffffff", "CapEff=1fffeffffff", "CapBnd=1fffeffffff", "NoNewPrivs=0", "securityContext"}, []string{askStatus}},
		{"a template without a securityContext: nothing in effect, a bounding set and no flag",
			guest{status: recorded(t, "linux-container-default.status")}, probe.ReasonPrivileged,
			[]string{"CapBnd=a80425fb", "NoNewPrivs=0"}, []string{askStatus}},
		{"a guest without the program",
			guest{exec: func(context.Context, string, ...string) (probe.Output, error) {
				return probe.Output{ExitCode: 127, Stderr: []byte("\x1b[31msh: cat: not found, and a very long story after it\n")}, nil
			}}, probe.ReasonFailed,
			[]string{"could not run", `"cat /proc/self/status"`, "exited 127", "diagnostic", `"\x1b[31msh: cat: not found, and a very long"…`}, []string{askStatus}},
		{"a guest that cannot be asked",
			guest{exec: func(context.Context, string, ...string) (probe.Output, error) { return probe.Output{}, errBroken }},
			probe.ReasonFailed, []string{"could not run", askStatus, "the wire is broken"}, []string{askStatus}},
		{"a guest that prints garbage",
			guest{status: "PNG\x00"}, probe.ReasonUnreadable, []string{"sandbox sb-1", "carries no CapInh line"}, []string{askStatus}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			s, err := probe.Run(t.Context(), "sb-1", c.guest.run)
			if !slices.Equal(c.guest.log, c.asked) {
				t.Errorf("asked %q, want %q", c.guest.log, c.asked)
			}
			if c.reason == "" {
				if want := strings.Join(c.words, ""); err != nil || s.Release != want || s.UID != 1001 {
					t.Errorf("Run = %+v, %v; want it admitted, with release %q and uid 1001", s, err, want)
				}
				return
			}
			e, ok := errors.AsType[*probe.Error](err)
			if !ok || e.Reason != c.reason || e.Sandbox != "sb-1" {
				t.Fatalf("Run = %v (%+v), want %s of sb-1", err, e, c.reason)
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("error text %q lacks %q", err, word)
				}
			}
			if c.reason != probe.ReasonPrivileged && strings.Contains(err.Error(), "is PRIVILEGED") {
				t.Errorf("error text %q claims to know about privileges", err)
			}
			if (len(e.Offenders) > 0) != (c.reason == probe.ReasonPrivileged) {
				t.Errorf("Offenders = %q with reason %s", e.Offenders, e.Reason)
			}
		})
	}
}

var errBroken = errors.New("the wire is broken")

func TestRunKeepsTheCause(t *testing.T) {
	g := guest{exec: func(context.Context, string, ...string) (probe.Output, error) { return probe.Output{}, errBroken }}
	if _, err := probe.Run(t.Context(), "sb-1", g.run); !errors.Is(err, errBroken) {
		t.Errorf("Run = %v, want it to unwrap to what exec reported", err)
	}
}

// silent is a guest that takes the command and never answers.
func silent(ctx context.Context, _ string, _ ...string) (probe.Output, error) {
	<-ctx.Done()
	return probe.Output{}, context.Cause(ctx)
}

func TestRunBudget(t *testing.T) {
	errBudget := errors.New("the probe's budget")
	t.Run("a guest that never answers costs the budget and no more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Second, errBudget)
			defer cancel()
			start := time.Now()
			_, err := probe.Run(ctx, "sb-1", silent)
			if took := time.Since(start); took != 15*time.Second {
				t.Errorf("Run took %v, want exactly 15s", took)
			}
			e, ok := errors.AsType[*probe.Error](err)
			if !ok || e.Reason != probe.ReasonFailed || !strings.Contains(err.Error(), "did not answer within 15s") || !errors.Is(err, errBudget) {
				t.Errorf("Run = %v, want probe-failed, did not answer within 15s, wrapping the cause", err)
			}
		})
	})
	t.Run("the budget spans both questions", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := guest{status: recorded(t, "gvisor-2022-confined.status"), version: recorded(t, "gvisor-2026.version")}
			slow := func(ctx context.Context, name string, args ...string) (probe.Output, error) {
				select {
				case <-ctx.Done():
					return probe.Output{}, context.Cause(ctx)
				case <-time.After(600 * time.Millisecond):
					return g.run(ctx, name, args...)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			_, err := probe.Run(ctx, "sb-1", slow)
			e, ok := errors.AsType[*probe.Error](err)
			if took := time.Since(start); took != time.Second || !ok || e.Command != askVersion || !strings.Contains(err.Error(), "did not answer within 1s") {
				t.Errorf("Run = %v after %v; want the second question to end at exactly 1s", err, took)
			}
		})
	})
	t.Run("an answer after the budget is no answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			g := guest{exec: func(context.Context, string, ...string) (probe.Output, error) {
				time.Sleep(2 * time.Second)
				return probe.Output{Stdout: []byte(recorded(t, "linux-confined.status"))}, nil
			}}
			_, err := probe.Run(ctx, "sb-1", g.run)
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.ReasonFailed {
				t.Errorf("Run = %v, want probe-failed", err)
			}
		})
	})
}

func TestRunCancelled(t *testing.T) {
	errAbort := errors.New("the user closed the window")
	for _, c := range []struct {
		sentence string
		when     func(cancel context.CancelCauseFunc) probe.Exec
		asked    int
	}{
		{"before the probe", func(cancel context.CancelCauseFunc) probe.Exec {
			cancel(errAbort)
			return silent
		}, 0},
		{"while the guest works", func(cancel context.CancelCauseFunc) probe.Exec {
			return func(ctx context.Context, _ string, _ ...string) (probe.Output, error) {
				cancel(errAbort)
				<-ctx.Done()
				return probe.Output{}, errBroken
			}
		}, 1},
		{"when the guest has just answered well", func(cancel context.CancelCauseFunc) probe.Exec {
			return func(context.Context, string, ...string) (probe.Output, error) {
				cancel(errAbort)
				return probe.Output{Stdout: []byte(recorded(t, "linux-confined.status"))}, nil
			}
		}, 1},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			g := guest{exec: c.when(cancel)}
			if _, err := probe.Run(ctx, "sb-1", g.run); err != errAbort {
				t.Errorf("Run = %v, want the caller's own reason and nothing around it", err)
			}
			if len(g.log) != c.asked {
				t.Errorf("the guest was asked %q, want %d commands", g.log, c.asked)
			}
		})
	}
}
