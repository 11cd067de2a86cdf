package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// asProcess is a smoke of its own, on this machine.
func asProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// When nobody reads the output any more, as behind head, the program in the guest
// is ended and not left to run on.
func TestGuestExecIntoAPipeThatIsClosed(t *testing.T) {
	t.Parallel()
	at, workspace := startGuest(t)
	cmd := asProcess(t, at.command("exec", "--", "sh", "-c", `trap "echo told > told; exit" TERM; while :; do echo line; sleep 0.01; done`)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "line\n" {
		t.Errorf("the first line is %q, %v", line, err)
	}
	out.Close()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitSignal+int(syscall.SIGPIPE) {
		t.Errorf("exit code %d, want %d", code, exitSignal+int(syscall.SIGPIPE))
	}
	if _, err := os.Stat(filepath.Join(workspace, "told")); err != nil {
		t.Errorf("the program was not told to end: %v", err)
	}
}

// A put from a named pipe waits for a writer, and can be interrupted while it
// does.
func TestGuestPutFromANamedPipe(t *testing.T) {
	t.Parallel()
	at, workspace := startGuest(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	put := make(chan ran, 1)
	go func() { put <- onGuest(t, nil, at, "put", pipe, "from-a-pipe") }()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when the other side is open, too
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("through"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	(<-put).expect(t, exitOK, "7 bytes")
	if data, err := os.ReadFile(filepath.Join(workspace, "from-a-pipe")); string(data) != "through" {
		t.Errorf("%q arrived, %v", data, err)
	}

	ctx, interrupt := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { interrupt(errInterrupt) })
	smokeWith(ctx, neverEnding{t}, nil, at.command("put", pipe, "nothing")...).expect(t, exitFailed, errInterrupt.Error())
	w, err = os.OpenFile(pipe, os.O_WRONLY, 0) // lets what waits for it go
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}
