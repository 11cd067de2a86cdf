//go:build linux

package guest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	// noticeable is the shortest pause of a recording that is kept.
	noticeable = 90.0
	// longestPause is what a longer one is cut to.
	longestPause = 1000.0
	// replayWait is how long a replay waits for what a recording has.
	replayWait = 30 * time.Second
	// exceptedWait is the same where it is not expected to come.
	exceptedWait = 2 * time.Second
)

// A replay plays the host's side of a recording against a guest. Whatever the
// recorded host did after it had received something is done after that has
// been received here.
type replay struct {
	r       *recording
	g       *testGuest
	b       *binding
	outside string // a folder that the workspace's links name
	lines   map[string]*replayLine
	diffs   []string
	missed  bool // something did not come in time: what hangs on it will not either
	held    int  // bytes that the guest holds before authentication
}

type replayLine struct {
	recorded *recordedLine
	conn     *net.TCPConn
	side     *guestSide
	writers  sync.WaitGroup
	written  chan struct{} // closed when all has been written so far; nil before

	mu      sync.Mutex
	got     answer
	changed chan struct{} // closed and renewed when got changes
	ended   chan struct{} // closed when nothing more comes
	how     string        // as in a recording
	half    bool          // the guest still read when it ended
}

type action struct {
	ms     float64
	line   *recordedLine // nil: the guest gets a signal
	step   int           // in line.Sent; -1: open
	signal syscall.Signal
}

func (p *replay) actions() []action {
	var all []action
	for _, l := range p.r.Lines {
		all = append(all, action{ms: l.Open, line: l, step: -1})
		for i, s := range l.Sent {
			if !s.InSameWrite {
				all = append(all, action{ms: s.Ms, line: l, step: i})
			}
		}
	}
	all = append(all, p.r.signals()...)
	slices.SortStableFunc(all, func(a, b action) int { return cmp.Compare(a.ms, b.ms) })
	return all
}

// play returns the differences between the recording and what the guest did.
func (p *replay) play() []string {
	now := time.Now().UnixMilli()
	p.lines = map[string]*replayLine{}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last := 0.0
	for _, a := range p.actions() {
		for _, l := range p.lines {
			for _, s := range l.recorded.Received {
				if s.Ms < a.ms {
					last = max(last, s.Ms)
				}
			}
			if l.recorded.End.Ms < a.ms {
				last = max(last, l.recorded.End.Ms)
			}
			p.missed = !l.await(a.ms, p.wait(l.recorded)) || p.missed
		}
		if len(p.r.Lines) > 1 {
			p.compare(now) // to learn what placeholders stand for
		}
		if gap := a.ms - last; gap >= noticeable {
			pause(min(gap, longestPause))
		}
		last = max(last, a.ms)
		p.do(a)
		if n := p.holds(a); n > 0 {
			for p.held += n; p.g.server.HeldBytes() < p.held && ctx.Err() == nil; {
				pause(5) // until the guest has taken it
			}
		}
	}
	for _, l := range p.r.Lines {
		if l.End.By != "nobody" {
			p.finish(ctx, p.lines[l.ID])
		}
	}
	for _, l := range p.r.Lines { // what was still open when all was over
		if l.End.By == "nobody" {
			p.finish(ctx, p.lines[l.ID])
		}
	}
	for _, l := range p.lines {
		l.conn.Close()
		l.writers.Wait()
		<-l.ended
	}
	return p.apart(append(p.diffs, p.compare(now)...))
}

// apart takes out the differences on lines of which they are known.
func (p *replay) apart(diffs []string) []string {
	for _, l := range p.r.Lines {
		if reason := exceptions[p.r.Name+"/"+l.ID]; reason != "" {
			n := len(diffs)
			diffs = slices.DeleteFunc(diffs, func(d string) bool { return strings.HasPrefix(d, "["+l.ID+"] ") })
			if len(diffs) == n {
				diffs = append(diffs, "["+l.ID+"] follows the recording, but is listed as an exception: "+reason)
			}
		}
	}
	return diffs
}

// wait is how long is waited for what comes on a line.
func (p *replay) wait(l *recordedLine) time.Duration {
	switch {
	case p.missed:
		return exceptedWait / 10
	case excepted(p.r) != "" || exceptions[p.r.Name+"/"+l.ID] != "":
		return exceptedWait
	}
	return replayWait
}

// compare compares what has come so far on all lines.
func (p *replay) compare(now int64) (diffs []string) {
	for _, l := range p.r.Lines {
		if line := p.lines[l.ID]; line != nil {
			line.mu.Lock()
			for _, d := range p.b.compare(p.r, l, &line.got, now) {
				diffs = append(diffs, "["+l.ID+"] "+d)
			}
			line.mu.Unlock()
		}
	}
	return diffs
}

// holds is how many bytes the guest keeps that an action has sent.
func (p *replay) holds(a action) int {
	if p.held > 0 || a.step < 0 || a.line == nil || !strings.HasPrefix(p.r.Name, "preauth-buffer-") {
		return 0 // the second time is one too much
	}
	return len(described[a.line.Sent[a.step].Raw]()[0])
}

func (p *replay) diff(l *recordedLine, format string, args ...any) {
	p.diffs = append(p.diffs, "["+l.ID+"] "+fmt.Sprintf(format, args...))
}

func (p *replay) do(a action) {
	switch {
	case a.line == nil:
		if err := p.g.tell(a.signal); err != nil {
			p.diffs = append(p.diffs, a.signal.String()+": "+err.Error())
		}
	case a.step < 0:
		p.open(a.line)
	default:
		if line := p.lines[a.line.ID]; line != nil {
			if err := p.send(line, a.step); err != nil {
				p.diff(a.line, "%v", err)
			}
		}
	}
}

func (p *replay) open(l *recordedLine) {
	conn, side, err := p.g.connect()
	if refused := l.End.By == "connect"; refused != (err != nil) {
		p.diff(l, "dial: %v, recorded: %s", err, l.End.How)
	}
	if err != nil {
		return
	}
	line := &replayLine{
		recorded: l, conn: conn, side: side,
		changed: make(chan struct{}), ended: make(chan struct{}),
		got: answer{op: l.op()},
	}
	p.lines[l.ID] = line
	go line.read()
}

// read collects what comes until nothing more comes.
func (l *replayLine) read() {
	defer close(l.ended)
	frames := wire.NewFrameReader(l.conn, 1<<30)
	for {
		payload, err := frames.Next()
		l.mu.Lock()
		switch {
		case err == nil:
			l.got.add(string(payload))
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			l.how = "FIN"
			l.half = l.side.lingers()
		case errors.Is(err, syscall.ECONNRESET):
			l.how = "RST"
		default:
			l.how = "closed"
		}
		close(l.changed)
		l.changed = make(chan struct{})
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await waits until what was received before that moment has been received, and
// the line has ended if it had. It reports false if that did not come in time.
func (l *replayLine) await(ms float64, wait time.Duration) bool {
	before := *l.recorded
	before.Received = slices.DeleteFunc(slices.Clone(before.Received), func(s recordedStep) bool { return s.Ms >= ms })
	want := expect(&before)
	timeout := time.After(wait)
	for {
		l.mu.Lock()
		there := len(l.got.frames) >= len(want.frames)
		for kind, text := range want.text {
			there = there && (len(l.got.text[kind]) >= len(remarks.Replace(text)) || shortened.MatchString(text))
		}
		changed := l.changed
		l.mu.Unlock()
		if there && (l.recorded.End.By != "peer" || l.recorded.End.Ms >= ms) {
			return true
		}
		select {
		case <-changed:
		case <-l.ended:
			return true
		case <-timeout:
			return false
		}
	}
}

// send sends a step and the steps that went with it.
func (p *replay) send(l *replayLine, i int) error {
	steps := l.recorded.Sent
	if steps[i].Event != "" && l.written != nil {
		<-l.written
	}
	switch steps[i].Event {
	case "half-close (FIN)":
		return l.conn.CloseWrite()
	case "close":
		return l.conn.Close()
	case "reset (RST)":
		l.conn.SetLinger(0)
		return l.conn.Close()
	}
	var pieces [][]byte
	for n := i; n < len(steps) && (n == i || steps[n].InSameWrite); n++ {
		bytes, err := p.bytes(steps[n])
		if err != nil {
			return err
		}
		if n > i {
			pieces[len(pieces)-1] = append(pieces[len(pieces)-1], bytes[0]...)
			continue
		}
		pieces = append(pieces, bytes...)
	}
	if i+1 < len(steps) && steps[i+1].Event == "half-close (FIN)" && steps[i+1].Ms-steps[i].Ms < 1 {
		cork(l.conn) // the end goes with the request, in one segment
	}
	before, done := l.written, make(chan struct{})
	l.written = done
	l.writers.Go(func() { // what nobody reads does not hold up the replay
		defer close(done)
		if before != nil {
			<-before
		}
		for _, piece := range pieces {
			if _, err := l.conn.Write(piece); err != nil {
				return
			}
			if len(pieces) > 100 { // a trickle
				select {
				case <-l.ended:
					return
				default:
					pause(200)
				}
			}
		}
	})
	return nil
}

// bytes are what a step sent, in as many writes.
func (p *replay) bytes(s recordedStep) ([][]byte, error) {
	if s.Frame != nil {
		payload, err := p.payload(s.Frame)
		return [][]byte{wire.AppendFrame(nil, payload)}, err
	}
	if f, ok := described[s.Raw]; ok {
		return f(), nil
	}
	return [][]byte{[]byte(s.Raw)}, nil
}

func (p *replay) payload(raw json.RawMessage) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, err
	}
	text, err := lengthen(p.b.fill(compact.String()))
	return []byte(text), err
}

// finish waits for the end of a line and compares it.
func (p *replay) finish(ctx context.Context, l *replayLine) {
	if l == nil {
		return
	}
	end := l.recorded.End
	switch end.By {
	case "nobody":
		if closed := isClosed(l.ended); closed {
			p.diff(l.recorded, "ended with %s, want it still open", l.how)
		}
	case "peer":
		select {
		case <-l.ended:
		case <-time.After(p.wait(l.recorded)):
			p.diff(l.recorded, "still open, want %s", end.How)
			return
		}
		if l.how != end.How {
			p.diff(l.recorded, "ended with %s, want %s", l.how, end.How)
		}
		if p.g.daemon != nil {
			return // that can only be seen from within
		}
		switch end.AfterFin {
		case "peer still reads (half-closed)":
			if !l.half {
				p.diff(l.recorded, "closed altogether, want half-closed")
			}
		case "peer fully closed":
			if l.answered() {
				return // then it is by chance: the reference guest was about to end
			}
			select {
			case <-l.side.closed:
			case <-ctx.Done():
				p.diff(l.recorded, "half-closed, want it closed altogether")
			}
		}
	}
}

// answered reports whether a complete answer came.
func (l *replayLine) answered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.got.frames)
	return n > 0 && (l.got.frames[n-1] == "" || strings.HasPrefix(l.got.frames[n-1], `{"ok":true`))
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
