//go:build linux

package transport_test

import (
	"context"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/leak"
	"github.com/sandlot-go/sandlot/transport"
)

// A soak is how much goes on at once, and for how long.
type soak struct {
	programs, terminals, sessions, ports int

	time time.Duration
}

// soakSize is a small soak, or the whole one for as long as SOAK says.
func soakSize(t *testing.T) soak {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		return soak{programs: 16, terminals: 8, sessions: 2, ports: 8, time: 400 * time.Millisecond}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	return soak{programs: 200, terminals: 90, sessions: 10, ports: 50, time: d}
}

// check skips the test where so many files cannot be open at once: a program
// has two ends of a connection, a process and three streams, of which for a
// moment both ends are open, a port four ends of connections, a terminal three.
func (s soak) check(t *testing.T) {
	t.Helper()
	need := uint64(10*s.programs + 4*(s.terminals+s.sessions+s.ports) + 100)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < need {
		t.Skipf("needs %d open files, may have %d, %v", need, limit.Cur, err)
	}
}

// TestSoak has programs that write, and some that read, one after the other on
// many goroutines, terminals that nobody uses until the end, and ports, all at
// once. Nothing of it may be lost, and nothing may be left.
func TestSoak(t *testing.T) {
	size := soakSize(t)
	size.check(t)
	// The garbage collector closes forgotten files. It has to wait, for as long as
	// there is memory, here and in the other process.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(512 << 20))
	inProcess := func(t *testing.T, s soak) {
		g := newRealGuest(t, guest.Config{CancelTimeout: time.Minute})
		s.run(t, g)
		if left := leak.Left(nil, func() []string { return leak.Processes(g.workspace) }); len(left) > 0 {
			t.Errorf("programs are left: %q", left)
		}
	}
	// What a process opens once and for all is there afterwards.
	t.Run("warm up", func(t *testing.T) { inProcess(t, soak{programs: 1, terminals: 1, sessions: 1, ports: 2, time: 1}) })
	compare := func(t *testing.T, what string, before, after []string) {
		if len(before) != len(after) {
			t.Errorf("%s: %d before, %d after: %q", what, len(before), len(after), after)
		}
		t.Logf("%s: %d before, %d after", what, len(before), len(after))
	}
	t.Run("in this process", func(t *testing.T) {
		files, children := leak.Descriptors(""), leak.Children("")
		t.Run("load", func(t *testing.T) { inProcess(t, size) })
		// Host and guest were joined, so that nothing is to be waited for.
		compare(t, "open files", files, leak.Descriptors(""))
		compare(t, "children", children, leak.Children(""))
	})
	t.Run("with a guest in a process of its own", func(t *testing.T) {
		g, pid := newGuestProcess(t, "GOGC=off", "GOMEMLIMIT=512MiB", "NAMZU_AGENT_CANCEL_CONFIRM_TIMEOUT_MS=60000")
		inGuest := func() []string { return leak.Descriptors(pid) }
		ours, theirs := leak.Descriptors(""), inGuest()
		t.Run("load", func(t *testing.T) { size.run(t, g) })
		compare(t, "open files of the host", ours, leak.Descriptors(""))
		// The guest goes on, and learns a moment after its host that a connection
		// is over.
		leak.Left(theirs, inGuest)
		compare(t, "open files of the guest", theirs, inGuest())
		compare(t, "children of the guest", nil, leak.Left(nil, func() []string { return leak.Children(pid) }))
		compare(t, "programs", nil, leak.Left(nil, func() []string { return leak.Processes(g.workspace) }))
	})
}

// run does all of it at once and returns when all is over. Host and guest have
// more patience than by default: the processors are overloaded on purpose.
func (s soak) run(t *testing.T, g *realGuest) {
	agent, err := transport.New(transport.Config{Host: "127.0.0.1", Port: g.port, Token: token,
		Heartbeat: 10 * time.Second, ReserveTimeout: time.Minute, CloseTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), s.time+2*time.Minute)
	defer cancel()
	l := &load{T: t, agent: agent, ctx: ctx, port: listenInGuest(t, hashBack), over: make(chan struct{})}
	terminals := l.openTerminals(s.terminals, s.sessions)
	time.AfterFunc(s.time, func() { close(l.over) })
	var all sync.WaitGroup
	for i := range s.programs {
		all.Go(func() { l.until(func(n int) bool { return l.program(i, n) }) })
	}
	for i := range s.ports {
		if i%2 == 0 {
			all.Go(func() { l.talk(i) })
		} else {
			all.Go(func() { l.until(func(n int) bool { return l.forward(i, n) }) })
		}
	}
	all.Wait()
	l.useTerminals(terminals)
	list, err := agent.Sessions(ctx)
	if err != nil || slices.ContainsFunc(list, func(s transport.Session) bool { return s.Running }) {
		t.Errorf("sessions: %+v, %v", list, err)
	}
	if q, err := agent.Quiesce(ctx, 0); err != nil || q.Rounds != 0 {
		t.Errorf("what still ran in the guest: %+v, %v", q, err)
	}
	if n := agent.Running(); n != 0 {
		t.Errorf("%d programs run, as the host sees it", n)
	}
	l.report()
}
