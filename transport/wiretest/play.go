package wiretest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A Step is one thing that the peer does, or waits for.
type Step struct {
	name string
	run  func(*player) error
	seq  []Step // instead of run
}

// Seq makes one step of several. Indexes count the steps inside.
func Seq(steps ...Step) Step { return Step{seq: steps} }

func flatten(steps []Step) (flat []Step) {
	for _, s := range steps {
		if s.run == nil {
			flat = append(flat, flatten(s.seq)...)
		} else {
			flat = append(flat, s)
		}
	}
	return flat
}

// A StepError reports the step that failed. Want and Got are empty when the
// step failed otherwise than by a difference.
type StepError struct {
	Index     int // from 0, with every Seq counted as its steps
	Step      string
	Want, Got string
	Err       error
}

func (e *StepError) Error() string {
	s := fmt.Sprintf("wiretest: step %d, %s", e.Index, e.Step)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Want != "" || e.Got != "" {
		s += fmt.Sprintf("\n got %s\nwant %s", e.Got, e.Want)
	}
	return s
}

func (e *StepError) Unwrap() error { return e.Err }

const (
	defaultPatience = 10 * time.Minute
	maxFrame        = wire.MaxFrame
)

// player is a script being played. It belongs to the goroutine that plays it,
// except for what mu guards.
type player struct {
	listener net.Listener
	patience time.Duration
	named    map[string]*peer
	current  *peer
	accepts  sync.WaitGroup

	mu      sync.Mutex
	peers   []*peer
	aborted error // why everything was closed
}

// peer is one accepted connection.
type peer struct {
	net.Conn
	frames *wire.FrameReader
}

// Play plays the steps over the connections of l and closes those at the end.
// After a step that failed, l is closed too, so that the side under test gets
// an answer instead of waiting for one.
func Play(l net.Listener, steps ...Step) error {
	return newPlayer(l).play(flatten(steps))
}

func newPlayer(l net.Listener) *player {
	return &player{listener: l, patience: defaultPatience, named: make(map[string]*peer)}
}

func (p *player) play(steps []Step) error {
	var err error
	for i, s := range steps {
		if err = s.run(p); err != nil {
			err = p.failed(i, s.name, err)
			break
		}
	}
	p.abort(err)
	p.accepts.Wait()
	return err
}

func (p *player) failed(i int, step string, err error) error {
	p.mu.Lock()
	aborted := p.aborted
	p.mu.Unlock()
	if aborted != nil {
		err = aborted
	}
	e, ok := errors.AsType[*StepError](err)
	if !ok {
		e = &StepError{Err: err}
	}
	e.Index, e.Step = i, step
	return e
}

// abort closes the connections, and the listener if there is a reason.
func (p *player) abort(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.aborted == nil && why != nil {
		p.aborted = why
		p.listener.Close()
	}
	for _, c := range p.peers {
		c.Close()
	}
}

// A Run is a script that is played beside a test.
type Run struct {
	player *player
	done   chan struct{}
	err    error // valid once done is closed
}

// grace is what a script has left when its test is over.
const grace = 5 * time.Second

var errTestOver = errors.New("the test ended before this step was done")

// Start plays the steps in a goroutine of its own. When the test ends the
// script must have been played to its end, or the test fails; l is closed.
func Start(t testing.TB, l net.Listener, steps ...Step) *Run {
	t.Helper()
	r := &Run{player: newPlayer(l), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = r.player.play(flatten(steps))
	}()
	t.Cleanup(func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-timer.C:
			r.player.abort(errTestOver)
			<-r.done
		}
		l.Close()
		if r.err != nil {
			t.Error(r.err)
		}
	})
	return r
}

// Done is closed when the script has been played or has failed.
func (r *Run) Done() <-chan struct{} { return r.done }
