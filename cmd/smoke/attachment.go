package main

import (
	"context"
	"errors"
)

// The program of the attach step waits for its file as that of the stream step
// does. An attachment from attachFrom on begins in the middle of its first line.
const (
	attachFile    = "smoke/attached"
	attachProgram = `echo one; until [ -e "$1" ]; do ` + nap + `; done; echo two`
	attachFrom    = 2
)

// attach follows a program whose output the guest keeps by two ways at once: its
// own, and an attachment that does not begin at the beginning.
func (t *trial) attach(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := t.sandbox.Command(ctx, "sh", "-c", attachProgram, "sh", attachFile)
	cmd.Retain()
	program, err := start(ctx, cmd)
	if err != nil {
		return "", err
	}
	attachment := t.sandbox.Attach(ctx, cmd.ID, attachFrom)
	late := newLineWatch()
	attachment.Stdout = late
	attached := make(chan error, 1)
	go func() { attached <- attachment.Run() }()
	select {
	case <-late.first:
		err = t.letGo(ctx, attachFile)
	case err = <-attached:
		attached <- err
		err = errors.Join(err, wrong("an attachment to a program that runs has ended"))
	case <-ctx.Done():
		err = wrong("an attachment to a program that runs brought none of its output: %v", context.Cause(ctx))
	}
	if err != nil {
		cancel()
		<-program.ended
		<-attached
		return "", err
	}
	if err := errors.Join(<-program.ended, <-attached); err != nil {
		return "", err
	}
	if all := program.stdout.text(); all != "one\ntwo\n" || late.text() != all[attachFrom:] {
		return "", wrong("a program's output came as %s, and from offset %d on as %s", clip(all), attachFrom, clip(late.text()))
	}
	return "a second follower began in the middle of a running program's output and saw its end", nil
}
