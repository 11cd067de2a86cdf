package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sandlot-go/sandlot/transport"
)

// The program of the terminal step shows the size of its terminal, and once it
// is told so, waits for another one. It ends when it is interrupted from the
// keyboard, and only by that.
const terminalProgram = `trap 'exit "$2"' INT
size=$(stty size 2>/dev/null) || size=
echo "size:$size."
read -r line
echo "heard:$line."
until [ -z "$size" ] || [ "$(stty size)" = "$1" ]; do ` + nap + `; done
echo "resized."
while :; do sleep 1; done`

const interruptKey = "\x03"

// terminal types at a program on a terminal: it has a size that can be changed,
// takes input, is interrupted by a key and passes on its exit code.
func (t *trial) terminal(ctx context.Context) (string, error) {
	terminal, err := t.sandbox.OpenTerminal(ctx, transport.TerminalConfig{
		Cols: 80, Rows: 24, Path: "sh", Args: []string{"-c", terminalProgram, "sh", "40 100", fmt.Sprint(exitWith)},
	})
	if err != nil {
		return "", err
	}
	defer terminal.Close()
	screen := watch(ctx, terminal)
	defer screen.stop()
	shown, err := screen.await(".")
	if err != nil {
		return "", err
	}
	if err := terminal.Resize(100, 40); err != nil {
		return "", err
	}
	if err := screen.enter("hello\n", "heard:hello."); err != nil {
		return "", err
	}
	if _, err := screen.await("resized."); err != nil {
		return "", err
	}
	if _, err := io.WriteString(terminal, interruptKey); err != nil {
		return "", err
	}
	if _, err := io.Copy(io.Discard, screen); err != nil {
		return "", err
	}
	err = terminal.Wait()
	if end, ok := errors.AsType[*transport.TerminalError](err); !ok || end.ExitCode != exitWith {
		return "", wrong("a program on a terminal was to exit %d when interrupted by a key, and this is said of it: %v", exitWith, err)
	}
	detail := fmt.Sprintf("input, an interrupt by key and exit code %d are passed on", exitWith)
	switch shown {
	case "size:.":
		return detail + "; the image has no stty, so no size was seen", nil
	case "size:24 80.":
		return "80 by 24 and then 100 by 40; " + detail, nil
	}
	return "", wrong("a terminal of 80 by 24 shows %s", clip(shown))
}

// A screen reads what a terminal shows, until a context ends.
type screen struct {
	ctx      context.Context
	terminal *transport.Terminal
	text     []byte // that was read and not yet awaited
	stop     func() bool
}

// watch has the end of ctx end the terminal's connection.
func watch(ctx context.Context, terminal *transport.Terminal) *screen {
	return &screen{ctx: ctx, terminal: terminal, stop: context.AfterFunc(ctx, func() { terminal.Close() })}
}

// Read implements io.Reader.
func (s *screen) Read(p []byte) (int, error) {
	n, err := s.terminal.Read(p)
	if err != nil && s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	return n, err
}

// await returns what is shown up to the end of what, whose line it begins with.
func (s *screen) await(what string) (string, error) {
	for {
		if i := bytes.Index(s.text, []byte(what)); i >= 0 {
			shown := s.text[:i+len(what)]
			s.text = s.text[len(shown):]
			return string(shown[bytes.LastIndexByte(shown, '\n')+1:]), nil
		}
		if len(s.text) > maxText {
			return "", wrong("a terminal was to show %q and shows %s", what, clip(s.text))
		}
		piece := make([]byte, maxText)
		n, err := s.Read(piece)
		s.text = append(s.text, piece[:n]...)
		switch {
		case err == io.EOF:
			return "", wrong("a terminal was to show %q, its program ended and it shows %s", what, clip(s.text))
		case err != nil:
			return "", fmt.Errorf("a terminal was to show %q and shows %s: %w", what, clip(s.text), err)
		}
	}
}

// enter types text and waits for what it brings about.
func (s *screen) enter(text, what string) error {
	if _, err := io.WriteString(s.terminal, text); err != nil {
		return err
	}
	_, err := s.await(what)
	return err
}
