package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

// maxText bounds what a test program may print. Each prints a few bytes.
const maxText = 4 << 10

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
	streamProgram = `echo one; echo aside >&2; until [ -e "$1" ]; do sleep 0.02 2>/dev/null || sleep 1; done; echo two`
)

func (t *trial) stream(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stdout := &lineWatch{first: make(chan struct{})}
	var stderr bytes.Buffer
	cmd := t.sandbox.Command(ctx, "sh", "-c", streamProgram, "sh", streamFile)
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	cmd.MaxOutput = maxText
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var first time.Duration
	select {
	case <-stdout.first:
		first = time.Since(start)
		if _, err := t.sandbox.WriteFile(ctx, streamFile, strings.NewReader("")); err != nil {
			cancel()
			<-ended
			return "", err
		}
	case err := <-ended:
		if err == nil {
			err = wrong("a program that waits for its output to be seen has ended without it")
		}
		return "", err
	case <-ctx.Done():
		<-ended
		return "", wrong("a program ran and none of its output arrived: %v", context.Cause(ctx))
	}
	if err := <-ended; err != nil {
		return "", err
	}
	if got := stdout.text(); got != "one\ntwo\n" || stderr.String() != "aside\n" {
		return "", wrong("a program's output came as stdout %s, stderr %s", clip([]byte(got)), clip(stderr.Bytes()))
	}
	return fmt.Sprintf("the first line came after %s while the program ran; stdout and stderr are apart", took(first)), nil
}

// A lineWatch keeps what is written and tells when there is a line of it.
type lineWatch struct {
	first chan struct{} // closed then

	mu   sync.Mutex
	seen bool
	data []byte
}

func (w *lineWatch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.data = append(w.data, p...)
	if !w.seen && bytes.IndexByte(w.data, '\n') >= 0 {
		w.seen = true
		close(w.first)
	}
	return len(p), nil
}

func (w *lineWatch) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.data)
}

// clip quotes the begin of a program's output.
func clip(b []byte) string {
	const most = 60
	if len(b) > most {
		return fmt.Sprintf("%q… (%d bytes)", b[:most], len(b))
	}
	return fmt.Sprintf("%q", b)
}
