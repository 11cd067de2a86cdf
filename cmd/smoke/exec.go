package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

const exitWith = 7 // any code that no shell gives by itself

// exec runs a program that succeeds and one that does not, and checks what came
// back of both.
func (t *trial) exec(ctx context.Context) (string, error) {
	out, err := t.sandbox.Command(ctx, "sh", "-c", `printf %s "$((6*7)) $1"`, "sh", `a "b" $c`).Output()
	if err != nil {
		return "", err
	}
	if want := `42 a "b" $c`; string(out) != want {
		return "", wrong("a program was to print %q and printed %s", want, clip(out))
	}
	cmd := t.sandbox.Command(ctx, "sh", "-c", fmt.Sprintf("echo out; echo err >&2; exit %d", exitWith))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	exit, ok := errors.AsType[*transport.ExitError](err)
	switch {
	case err == nil:
		return "", wrong("a program exited %d and was said to have succeeded", exitWith)
	case !ok:
		return "", err
	case exit.ExitCode != exitWith:
		return "", wrong("a program exited %d and was said to have exited %d", exitWith, exit.ExitCode)
	case stdout.String() != "out\n" || stderr.String() != "err\n":
		return "", wrong("a program's output came as stdout %s, stderr %s", clip(stdout.Bytes()), clip(stderr.Bytes()))
	}
	return fmt.Sprintf("arguments, output and exit codes 0 and %d are passed on", exitWith), nil
}

// The program of the stream step ends only when a file appears, which is
// written once its first line has arrived. So it cannot end, and the step not
// succeed, unless output comes while the program runs.
const (
	streamFile    = "smoke/continue"
	streamProgram = `echo one; echo aside >&2; until [ -e "$1" ]; do ` + nap + `; done; echo two`

	// nap is short where sleep knows fractions.
	nap = `sleep 0.02 2>/dev/null || sleep 1`
)

func (t *trial) stream(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	program, err := start(ctx, t.sandbox.Command(ctx, "sh", "-c", streamProgram, "sh", streamFile))
	if err != nil {
		return "", err
	}
	first := time.Since(begin)
	if err := t.letGo(ctx, streamFile); err != nil {
		cancel()
		<-program.ended
		return "", err
	}
	if err := <-program.ended; err != nil {
		return "", err
	}
	if got := program.stdout.text(); got != "one\ntwo\n" || program.stderr.String() != "aside\n" {
		return "", wrong("a program's output came as stdout %s, stderr %s", clip(got), clip(program.stderr.String()))
	}
	return fmt.Sprintf("the first line came after %s while the program ran; stdout and stderr are apart", took(first)), nil
}

// letGo makes the file that a program waits for.
func (t *trial) letGo(ctx context.Context, file string) error {
	_, err := t.sandbox.WriteFile(ctx, file, strings.NewReader(""))
	return err
}
