package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

// endOfTransmission is what a terminal takes for the end of the input.
const endOfTransmission = "\x04"

// hangupGrace is how long a program has to end by itself when its connection is
// about to.
const hangupGrace = time.Second

// guestShell is a program on a terminal of the guest, whose end is ours. A
// session is left running when we end first.
func guestShell(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	s.stderr = &sharedWriter{w: s.stderr}
	cols, rows := terminalSize(ctx, s.stdin)
	config := transport.TerminalConfig{Cols: cols, Rows: rows, Dir: o.dir}
	if len(o.args) > 0 {
		config.Path, config.Args = o.args[0], o.args[1:]
	}
	terminal, err := openShell(ctx, agent, o.session, config)
	if err != nil {
		return exitNoResult, err
	}
	defer terminal.Close()
	if gap := terminal.Gap(); gap != (transport.Gap{}) {
		reportGap(s)(gap)
	}
	ctx, leaveIt := context.WithCancelCause(ctx)
	defer leaveIt(nil)
	raw, restore, err := makeRaw(ctx, s.stdin)
	if err != nil {
		return exitNoResult, err
	}
	defer restore()

	over, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { followSize(over, s.stdin, terminal, cols, rows) })
	wg.Go(func() {
		if typeInto(over, terminal, s, raw) == errLeft {
			leaveIt(errLeft)
		}
	})
	defer context.AfterFunc(ctx, func() { leave(terminal, o.session) })()

	_, copyErr := io.Copy(s.stdout, terminal)
	if copyErr != nil {
		terminal.Close()
	}
	err = terminal.Wait()
	if ctx.Err() != nil {
		restore()
		if context.Cause(ctx) == errLeft && o.session != "" {
			fmt.Fprintf(s.stderr, "\nsmoke: left session %s, which runs on\n", o.session)
			return exitOK, nil
		}
		return exitNoResult, context.Cause(ctx)
	}
	if end, ok := errors.AsType[*transport.TerminalError](err); ok {
		if end.Signal > 0 {
			return exitSignal + end.Signal, nil
		}
		return end.ExitCode & 0xff, nil
	}
	if err = errors.Join(copyErr, err); err != nil {
		return exitNoResult, err
	}
	return exitOK, nil
}

// openShell attaches to the session if it runs, or starts what is asked for.
func openShell(ctx context.Context, agent *transport.Agent, id string, config transport.TerminalConfig) (*transport.Terminal, error) {
	if id == "" {
		return agent.OpenTerminal(ctx, config)
	}
	sessions, err := agent.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	for _, session := range sessions {
		switch {
		case session.ID != id:
		case !session.Running:
			return nil, fmt.Errorf("session %s has ended (%s) and is remembered for a while: choose another id; \"smoke guest sessions read %s\" prints its output",
				id, sessionState(session), id)
		case config.Path != "":
			return nil, fmt.Errorf("session %s runs %s already: leave the program out to attach to it, or choose another id", id, printable(session.Path))
		default:
			return agent.AttachSession(ctx, id, 0, config.Cols, config.Rows)
		}
	}
	return agent.StartSession(ctx, id, config)
}

// typeInto passes standard input on. Its end is the end of the input for the
// program, too, and a failure is told but ends nothing: the program may go on. It
// returns errLeft when somebody at a terminal leaves.
func typeInto(ctx context.Context, terminal *transport.Terminal, s streams, raw bool) error {
	keys := heed(ctx, s.stdin)
	if raw {
		keys = &escaping{r: keys}
	}
	tail := lastByte('\n')
	_, err := io.Copy(terminal, io.TeeReader(keys, &tail))
	if err == nil {
		end := endOfTransmission
		if tail != '\n' {
			end += end // the first one only ends the line
		}
		_, err = io.WriteString(terminal, end)
	}
	if err != nil && err != errLeft && ctx.Err() == nil && !errors.Is(err, transport.ErrTerminalEnded) {
		fmt.Fprintf(s.stderr, "smoke: the input is passed on no longer: %v\r\n", err)
	}
	return err
}

// A lastByte remembers the last byte that was written to it.
type lastByte byte

func (b *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		*b = lastByte(p[len(p)-1])
	}
	return len(p), nil
}

// leave ends the connection to a terminal. A program that would end with it has
// a chance to end by itself.
func leave(terminal *transport.Terminal, session string) {
	if session == "" && terminal.Kill("SIGHUP") == nil {
		time.AfterFunc(hangupGrace, func() { terminal.Close() })
		return
	}
	terminal.Close()
}
