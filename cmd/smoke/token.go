package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// A tokenSource is asked for the bearer token on every request.
type tokenSource func(ctx context.Context) (string, error)

const (
	maxTokenBytes = 64 << 10
	tokenAge      = time.Minute     // how long a command's token is used without asking again
	killGrace     = 2 * time.Second // for the output of a program that was killed
)

// tokenFromFile reads the file each time: whatever rotates the token replaces
// the file.
func tokenFromFile(path string) tokenSource {
	return func(context.Context) (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("-token-file: %w", err)
		}
		defer f.Close()
		data, err := readBounded(f, maxTokenBytes)
		if err != nil {
			return "", fmt.Errorf("-token-file %s: %w", path, err)
		}
		return strings.TrimSpace(string(data)), nil
	}
}

// tokenFromCommand runs a shell command and keeps what it printed for a minute,
// or until the server refuses it. Neither the command nor its output is ever
// repeated in an error: both may hold the token.
func tokenFromCommand(command string, environ []string) tokenSource {
	var (
		turn  = make(chan struct{}, 1) // held while the command runs; guards what follows
		token string
		asked time.Time
	)
	return func(ctx context.Context) (string, error) {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		defer func() { <-turn }()
		if token != "" && time.Since(asked) < tokenAge && !k8s.Refused(ctx) {
			return token, nil
		}
		out, err := runProgram(ctx, program{name: "/bin/sh", args: []string{"-c", command}, environ: environ, most: maxTokenBytes})
		if err != nil {
			return "", fmt.Errorf("-token-cmd: %w", err)
		}
		fresh := strings.TrimSpace(string(out))
		if fresh == "" {
			return "", errors.New("-token-cmd: the command exited 0 and printed nothing; it must print the token on standard output")
		}
		token, asked = fresh, time.Now()
		return token, nil
	}
}

// A program is a helper of ours that runs on this machine.
type program struct {
	name    string
	args    []string
	environ []string
	most    int // bytes of standard output
}

// runProgram returns what a program printed. What it said on standard error is
// part of the error, unless it is the same secret that it printed.
func runProgram(ctx context.Context, p program) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.name, p.args...)
	cmd.Env = p.environ
	cmd.WaitDelay = killGrace
	stdout := &bounded{most: p.most}
	stderr := &bounded{most: 2 << 10, clip: true}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case stdout.over:
		return nil, fmt.Errorf("it printed more than %d bytes", p.most)
	case err != nil:
		said := string(stderr.data)
		if secret := strings.TrimSpace(string(stdout.data)); secret != "" {
			said = strings.ReplaceAll(said, secret, "(what it printed)")
		}
		if said = oneLine(said); said != "" {
			return nil, fmt.Errorf("it failed: %w; it said: %s", err, said)
		}
		return nil, fmt.Errorf("it failed: %w", err)
	}
	return stdout.data, nil
}

// bounded keeps up to most bytes. One more is an error, unless it clips.
type bounded struct {
	most int
	clip bool
	over bool
	data []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.most-len(b.data))
	b.data = append(b.data, p[:n]...)
	if n < len(p) {
		b.over = !b.clip
		if b.over {
			return n, io.ErrShortWrite
		}
	}
	return len(p), nil
}

// readBounded reads all of r and refuses more than most bytes.
func readBounded(r io.Reader, most int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	return data, nil
}
