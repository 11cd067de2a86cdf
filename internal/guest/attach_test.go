//go:build linux

package guest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// keep starts a shell script whose output is kept.
func (g *testGuest) keep(id, script string) *line {
	g.t.Helper()
	return g.ask(wire.OpExecute, object{"executionId": id, "command": "sh", "args": []string{"-c", script}, "retainOutput": true})
}

// A view is what an attach-execution brought.
type view struct {
	first    object // attached, or the error
	text     string
	from, to float64 // offsets of the text
	result   object
	complete bool
}

func (l *line) view() (v view) {
	l.t.Helper()
	v.from = -1
	var text strings.Builder
	defer func() { v.text = text.String() }()
	for _, payload := range l.rest() {
		if payload == "" {
			v.complete = true
			continue
		}
		switch o := parse(l.t, payload); o["type"] {
		case wire.TypeStdout, wire.TypeStderr:
			if v.from < 0 {
				v.from, v.to = o["offset"].(float64), o["offset"].(float64)
			}
			if o["offset"] != v.to || o["nextOffset"].(float64) < v.to {
				l.t.Fatalf("a piece from %v to %v follows %v", o["offset"], o["nextOffset"], v.to)
			}
			text.WriteString(o["data"].(string))
			v.to = o["nextOffset"].(float64)
		case wire.TypeAttachResult:
			v.result = o
		default:
			v.first = o
		}
	}
	return v
}

func (g *testGuest) attach(id string, from int) view {
	g.t.Helper()
	return g.ask(wire.OpAttachExecution, object{"executionId": id, "fromOffset": from}).view()
}

// TestAttachWhileItRuns has many readers, which come at all times and from
// everywhere: none gets a byte twice or misses one.
func TestAttachWhileItRuns(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	id := g.reserve()
	const lines = 400
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); done", lines)
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	executed := g.keep(id, "echo; "+script)
	first, _ := parse(t, executed.next())["data"].(string)
	var all sync.WaitGroup
	for from := range 20 {
		all.Go(func() {
			v := g.attach(id, from%2)
			if text := strings.TrimPrefix(v.text, "\n"); text != want.String() || int(v.from) != from%2 || int(v.to) != want.Len()+1 {
				t.Errorf("from %d: %d characters from %v to %v, want %d", from%2, len(text), v.from, v.to, want.Len())
			}
			if v.result["outcome"] != "completed" || v.result["nextOffset"] != v.to || !v.complete {
				t.Errorf("%v", v.result)
			}
		})
	}
	if r := executed.finish(); first+r.stdout != "\n"+want.String() {
		t.Errorf("the execution's own stream has %d characters, want %d", len(r.stdout), want.Len())
	}
	all.Wait()
}

// TestRingKeepsTheEnd fills logs in many small pieces of both outputs.
func TestRingKeepsTheEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		limit, size  int
	}{
		{"byte by byte", "i=0; while [ $i -lt 3000 ]; do printf x; i=$((i+1)); done", 1500, 3000},
		// Small enough that they need not be put together, which chance decides.
		{"both outputs in turn", "i=0; while [ $i -lt 1500 ]; do printf x; printf x >&2; i=$((i+1)); done", 900, 3000},
		{"one piece that is larger", "head -c 60000 /dev/zero | tr '\\0' x", 1000, 60000},
		{"exactly what it holds", "printf xxxx; printf xxxx >&2", 8, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGuest(t, guest.Config{RetainedBytes: test.limit})
			id := g.reserve()
			g.keep(id, test.script).rest()
			v := g.attach(id, 0)
			dropped := float64(test.size - test.limit)
			if v.text != strings.Repeat("x", test.limit) || int(v.to) != test.size || v.first["droppedBytes"] != dropped || v.first["fromOffset"] != dropped {
				t.Errorf("%d characters to %v, %v", len(v.text), v.to, v.first)
			}
			middle := test.size - test.limit/2
			if v := g.attach(id, middle); len(v.text) != test.limit/2 || int(v.from) != middle || v.first["droppedBytes"] != 0.0 {
				t.Errorf("from %d: %d characters from %v, %v", middle, len(v.text), v.from, v.first)
			}
		})
	}
}

// TestSlowReaderIsDropped has a reader that reads nothing: the program and the
// other reader are not held up by it, and it can attach again.
func TestSlowReaderIsDropped(t *testing.T) {
	t.Parallel()
	// A reader that reads may be late by as much as is kept.
	const kept, size = 1 << 20, 16_000_000
	g := newGuest(t, guest.Config{RetainedBytes: kept})
	g.shell("mkfifo go")
	id := g.reserve()
	executed := g.keep(id, fmt.Sprintf("echo; read line < go; head -c %d /dev/zero | tr '\\0' x", size))
	executed.next()
	slow := g.ask(wire.OpAttachExecution, object{"executionId": id})
	slow.next()
	quick := g.ask(wire.OpAttachExecution, object{"executionId": id, "fromOffset": 1})
	quick.next()
	g.shell("echo > go")
	var all sync.WaitGroup
	all.Go(func() {
		if v := quick.view(); len(v.text) != size || !v.complete {
			t.Errorf("the reader that reads got %d characters", len(v.text))
		}
	})
	if r := executed.finish(); len(r.stdout) != size || !r.complete {
		t.Errorf("the execution's own stream has %d characters", len(r.stdout))
	}
	all.Wait()
	await(t, slow.closed, "the end of the slow reader")
	if v := g.attach(id, size); v.first["fromOffset"] != float64(size) || v.text != "x" {
		t.Errorf("again: %v, %q", v.first, v.text)
	}
}

// TestRetention covers what is remembered for how long.
func TestRetention(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{RecordTTL: time.Millisecond, RetainedTTL: 2 * time.Second})
	plain, kept := g.reserve(), g.reserve()
	g.ask(wire.OpExecute, object{"executionId": plain, "command": "true"}).rest()
	g.keep(kept, "echo x").rest()
	if v := g.attach(kept, 0); v.text != "x\n" {
		t.Errorf("%+v", v)
	}
	if v := g.attach(plain, 0); v.first["error"] != wire.CodeUnknownExecution {
		t.Errorf("an ordinary one: %v", v.first)
	}
	for g.attach(kept, 0).first["error"] != wire.CodeUnknownExecution {
		pause(20)
	}
}

// TestAttachToAFencedExecution: the reader gets what there was and no result.
func TestAttachToAFencedExecution(t *testing.T) {
	t.Parallel()
	g := newGuest(t, guest.Config{})
	t.Cleanup(func() { killDaemons(g.workspace) })
	g.shell("mkfifo go")
	id := g.reserve()
	l := g.keep(id, "echo out; read line < go; (trap '' TERM; sleep 600) >/dev/null 2>&1 &")
	l.next()
	reader := g.ask(wire.OpAttachExecution, object{"executionId": id})
	g.shell("echo > go")
	if got := reader.rest(); len(got) != 2 || !strings.Contains(got[1], "out") {
		t.Errorf("%q, want the output and no end", got)
	}
	if r := l.finish(); r.result != nil || r.complete {
		t.Errorf("%+v", r)
	}
	if health := g.call(wire.OpHealth, nil); health["retiring"] != true || !slices.Contains(health["features"].([]any), any(wire.FeatureAttach)) {
		t.Errorf("%v", health)
	}
}
