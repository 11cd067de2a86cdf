package transport

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const abandonTimeout = 10 * time.Second // to end a program that nobody waits for any more

// A TerminalConfig says what runs on a terminal. Its zero value is the guest's
// shell at 80 columns and 24 rows.
type TerminalConfig struct {
	Cols, Rows int      // both zero: 80 and 24
	Path       string   // empty: the guest's shell
	Args       []string // without the name
	Dir        string   // as in Cmd
	Env        []string // as in Cmd; TERM is xterm-256color unless it is here
}

func (c TerminalConfig) body(beat time.Duration) (wire.TerminalBody, error) {
	if c.Cols == 0 && c.Rows == 0 {
		c.Cols, c.Rows = 80, 24
	}
	if err := checkSize(c.Cols, c.Rows); err != nil {
		return wire.TerminalBody{}, err
	}
	env, err := programText(c.Path, c.Args, c.Dir, c.Env)
	return wire.TerminalBody{Cols: c.Cols, Rows: c.Rows, Command: c.Path, Args: c.Args, Cwd: c.Dir, Env: env, HeartbeatMs: roundMs(beat)}, err
}

// programText refuses what cannot be sent.
func programText(path string, args []string, dir string, list []string) (map[string]string, error) {
	if path == "" && len(args) > 0 {
		return nil, &StartError{Name: "the guest's shell", Err: errors.New("arguments are for a program that is named")}
	}
	for _, text := range append([]string{path, dir}, args...) {
		if !utf8.ValidString(text) {
			return nil, &StartError{Name: path, Err: fmt.Errorf("%q is not valid UTF-8 and cannot be sent", text)}
		}
	}
	env, err := environment(list)
	if err != nil {
		return nil, &StartError{Name: path, Err: err}
	}
	return env, nil
}

// OpenTerminal starts a program on a terminal of its own. ctx bounds that and
// not the program, which ends with the connection: when that is lost, when the
// Terminal is closed, with Agent.Close. When ctx ends before the program runs,
// it is ended as soon as it does.
//
// A program that is over at once may be over already when OpenTerminal returns.
func (a *Agent) OpenTerminal(ctx context.Context, config TerminalConfig) (*Terminal, error) {
	body, err := config.body(a.config.Heartbeat)
	if err != nil {
		return nil, err
	}
	var t *Terminal
	err = a.openLive(ctx, func(dial, life context.Context, end func(), b *binding) (err error) {
		t, err = a.openTerminal(dial, life, end, b, wire.OpTerminal, body, "", 0)
		return err
	})
	if err != nil {
		return nil, terminalFailure(config.Path, err)
	}
	return t, nil
}

// terminalFailure is the error of a terminal that did not come about.
func terminalFailure(name string, err error) error {
	if r, ok := errors.AsType[*wire.Refusal](err); ok {
		if name == "" {
			name = "the guest's shell"
		}
		return newStartError(name, words(r))
	}
	return err
}

// An opening is how the beginning of a terminal went.
type opening struct {
	early  []byte
	echoed int64
	err    error
}

// openTerminal sends the request and waits until the terminal is ready. It must
// not just leave before: a guest ends a program with its connection only once
// it runs.
func (a *Agent) openTerminal(dial, life context.Context, end func(), b *binding, op string, body any, session string, from int64) (*Terminal, error) {
	d, err := a.openDuplex(dial, b, op, body)
	if err != nil {
		return nil, err
	}
	d.conn.release()
	t := &Terminal{stream: d, session: session, cursor: cursor{at: from}, typing: make(chan struct{}, 1)}
	opened := make(chan opening, 1)
	go func() {
		var o opening
		o.early, o.echoed, o.err = t.begin()
		opened <- o
	}()
	o, err := t.await(dial, a, opened)
	if err != nil {
		return nil, err
	}
	if o.err != nil {
		d.conn.close()
		return nil, o.err
	}
	t.in = newInlet(o.early)
	if t.exit != nil {
		d.conn.close()
		d.shut(errors.New("the program has ended"))
		close(t.in.pieces)
		close(d.joined)
		end()
		return t, nil
	}
	d.live(life, end, o.echoed, t.read)
	return t, nil
}

// await waits for the beginning of the terminal. The reference guest says
// nothing at all of a session whose program is over at once, so it is asked
// when that takes long.
func (t *Terminal) await(ctx context.Context, a *Agent, opened <-chan opening) (opening, error) {
	starts := t.stream.op == wire.OpTerminal
	var look <-chan time.Time
	if starts && t.session != "" {
		tick := time.NewTicker(lookInterval)
		defer tick.Stop()
		look = tick.C
	}
	for {
		select {
		case o := <-opened:
			return o, nil
		case <-look:
			if a.sessionOver(ctx, t.stream.binding, t.session) {
				t.stream.conn.close()
				<-opened
				return opening{}, errOverAtOnce
			}
		case <-ctx.Done():
			if starts {
				a.aside(func(ctx context.Context) { t.abandon(ctx, opened) })
			} else {
				t.stream.conn.close() // nothing was started
				<-opened
			}
			return opening{}, context.Cause(ctx)
		}
	}
}

const lookInterval = 3 * time.Second

var errOverAtOnce = errors.New("the program of the session was over at once")

// abandon ends the program of a terminal that nobody wants any more, and then
// the connection: the other way round the program might stay. ctx ends with the
// Agent.
func (t *Terminal) abandon(ctx context.Context, opened <-chan opening) {
	timer := time.AfterFunc(abandonTimeout, func() { t.stream.conn.Conn.Close() })
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { timer.Reset(closeBudget) })()
	defer t.stream.conn.close()
	if o := <-opened; o.err != nil || t.exit != nil || t.send(wire.HostFrame{Type: wire.TypeKill, Signal: "SIGKILL"}) != nil {
		return
	}
	for {
		event, err := t.stream.event(wire.ParseTerminalEvent)
		if _, ended := event.(*wire.Exit); ended || err != nil {
			return
		}
	}
}
