package main

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

const (
	sessionProgram  = `echo up.; read -r line; echo "heard:$line."; read -r line`
	detachedProgram = `echo out; echo err >&2`
	sessionPoll     = 10 * time.Millisecond // how soon to look again at what happens by itself
)

// session leaves a program on a terminal alone, looks at it from outside, comes
// back to it and kills it. Another one runs without a terminal.
func (t *trial) session(ctx context.Context) (string, error) {
	id := "smoke-" + strings.ToLower(rand.Text()[:8])
	terminal, err := t.sandbox.StartSession(ctx, id, transport.TerminalConfig{Path: "sh", Args: []string{"-c", sessionProgram}})
	if err != nil {
		return "", err
	}
	screen := watch(ctx, terminal)
	_, err = screen.await("up.")
	screen.stop()
	terminal.Close()
	if err != nil {
		return "", err
	}
	if err := t.await(ctx, "a session that was left was to run on with nobody attached", func() (bool, error) {
		one, err := t.find(ctx, id)
		return one.Running && !one.Attached, err
	}); err != nil {
		return "", err
	}
	output, err := t.sandbox.ReadSession(ctx, id, 0)
	if err != nil {
		return "", err
	}
	if stdout, _ := pieces(output); !strings.Contains(stdout, "up.") {
		return "", wrong("a session that has written %q is read as %s", "up.", clip(stdout))
	}
	if err := t.comeBack(ctx, id, output.NextOffset); err != nil {
		return "", err
	}
	if err := t.detached(ctx, id+"-detached"); err != nil {
		return "", err
	}
	return "a shell was left, listed, read, attached to from an offset and killed; a detached program was read back", nil
}

// comeBack attaches to the session, types into it and has it killed meanwhile.
func (t *trial) comeBack(ctx context.Context, id string, from int64) error {
	terminal, err := t.sandbox.AttachSession(ctx, id, from, 0, 0)
	if err != nil {
		return err
	}
	defer terminal.Close()
	screen := watch(ctx, terminal)
	defer screen.stop()
	if err := screen.enter("again\n", "heard:again."); err != nil {
		return err
	}
	one, err := t.sandbox.KillSession(ctx, id, "")
	if err != nil {
		return err
	}
	if one.Running {
		return wrong("a session was killed and is said to run on")
	}
	_, err = io.Copy(io.Discard, screen) // up to its end, which is seen here too
	return err
}

// detached runs a program without a terminal and reads what it wrote.
func (t *trial) detached(ctx context.Context, id string) error {
	if _, _, err := t.sandbox.StartDetached(ctx, id, transport.Detached{Path: "sh", Args: []string{"-c", detachedProgram}}); err != nil {
		return err
	}
	var output transport.SessionOutput
	err := t.await(ctx, "a detached program was to end", func() (done bool, err error) {
		output, err = t.sandbox.ReadSession(ctx, id, 0)
		return !output.Running, err
	})
	if err != nil {
		return err
	}
	if stdout, stderr := pieces(output); stdout != "out\n" || stderr != "err\n" || output.ExitCode != 0 {
		return wrong("a detached program is said to have exited %d and is read as stdout %s, stderr %s", output.ExitCode, clip(stdout), clip(stderr))
	}
	return nil
}

// find looks for a session in the guest's list.
func (t *trial) find(ctx context.Context, id string) (transport.Session, error) {
	sessions, err := t.sandbox.Sessions(ctx)
	if err != nil {
		return transport.Session{}, err
	}
	for _, one := range sessions {
		if one.ID == id {
			return one, nil
		}
	}
	return transport.Session{}, wrong("a session that was started is not in the guest's list of %d", len(sessions))
}

// pieces puts a session's output together.
func pieces(output transport.SessionOutput) (stdout, stderr string) {
	for _, piece := range output.Pieces {
		if piece.Stderr {
			stderr += piece.Text
		} else {
			stdout += piece.Text
		}
	}
	return stdout, stderr
}

// await looks until something is so that comes about by itself.
func (t *trial) await(ctx context.Context, what string, look func() (bool, error)) error {
	for {
		if is, err := look(); is || err != nil {
			return err
		}
		if wait(ctx, sessionPoll) != nil {
			return wrong("%s: %v", what, context.Cause(ctx))
		}
	}
}
