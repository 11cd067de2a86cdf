package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/leak"
	"github.com/sandlot-go/sandlot/internal/sim"
)

// asProgram in the environment makes the test's binary the program itself.
const asProgram = "SMOKE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	guest.RunLauncher()
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(leak.Check(m.Run()))
}

// A ran is an invocation of the program in this process.
type ran struct {
	args           []string
	code           int
	stdout, stderr string
}

func (r ran) String() string {
	return fmt.Sprintf("smoke %s\nexit code %d\nstdout:\n%s\nstderr:\n%s", strings.Join(r.args, " "), r.code, r.stdout, r.stderr)
}

// neverEnding is a standard input that nobody closes. Reading it fails the test.
type neverEnding struct{ t testing.TB }

func (n neverEnding) Read([]byte) (int, error) {
	n.t.Error("standard input was read; nobody asked for that")
	return 0, io.EOF
}

// smoke runs the program with a standard input that must not be read.
func smoke(t testing.TB, args ...string) ran {
	t.Helper()
	return smokeWith(t.Context(), neverEnding{t}, nil, args...)
}

// together runs the program several times at once: each run waits for the next
// whole second before it renews.
func together(t testing.TB, args ...[]string) []ran {
	t.Helper()
	out := make([]ran, len(args))
	var wg sync.WaitGroup
	for i := range args {
		wg.Go(func() { out[i] = smoke(t, args[i]...) })
	}
	wg.Wait()
	return out
}

func smokeWith(ctx context.Context, stdin io.Reader, environ []string, args ...string) ran {
	var stdout, stderr bytes.Buffer
	code := run(ctx, streams{stdin, &stdout, &stderr, append(os.Environ(), environ...)}, args)
	return ran{args, code, stdout.String(), stderr.String()}
}

// expect fails the test unless the exit code is the one and the output holds
// every word.
func (r ran) expect(t testing.TB, code int, words ...string) {
	t.Helper()
	var missing []string
	for _, word := range words {
		if !strings.Contains(r.stdout+r.stderr, word) {
			missing = append(missing, word)
		}
	}
	if r.code != code || missing != nil {
		t.Errorf("exit code %d, want %d; the output does not say %q\n%v", r.code, code, missing, r)
	}
}

// serve serves a simulated cluster on the loopback interface and returns it with
// the flags that lead to it.
func serve(t testing.TB, config sim.Config) (*sim.Cluster, []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulate(t.Context(), config, l, []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if requests := s.cluster.Unmodelled(); len(requests) > 0 {
			t.Errorf("the simulated cluster does not model %q", requests)
		}
	})
	folder := t.TempDir()
	ca, token := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "token")
	if err := os.WriteFile(ca, s.caPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte(s.cluster.Token()), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.cluster, []string{"-server", "https://" + l.Addr().String(), "-ca", ca, "-token-file", token, "-namespace", s.cluster.Namespace(), "-file-bytes", "4000"}
}

// expectNothingLeft fails the test if a claim is left, or a Sandbox or pod that
// is not the pool's own. What a deletion takes along may need a moment.
func expectNothingLeft(t testing.TB, c *sim.Cluster) {
	t.Helper()
	deadline := time.After(5 * time.Second)
	for {
		left := leftovers(c)
		if left == nil {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Errorf("left over: %q", left)
			return
		}
	}
}

func leftovers(c *sim.Cluster) (left []string) {
	for _, resource := range []string{"sandboxclaims", "sandboxes", "pods"} {
		for _, o := range c.List(resource) {
			metadata, _ := o["metadata"].(map[string]any)
			name, _ := metadata["name"].(string)
			if resource == "sandboxclaims" || strings.HasPrefix(name, "namzu-task-") {
				left = append(left, resource+" "+name)
			}
		}
	}
	return left
}

// A lockedBuffer is written by a program that runs beside the test.
type lockedBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
	line chan struct{} // has room for one: something was written
}

func newLockedBuffer() *lockedBuffer { return &lockedBuffer{line: make(chan struct{}, 1)} }

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.line <- struct{}{}:
	default:
	}
	return b.data.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// await waits until the text contains what.
func (b *lockedBuffer) await(t testing.TB, what string) string {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		if text := b.String(); strings.Contains(text, what) {
			return text
		}
		select {
		case <-b.line:
		case <-deadline:
			t.Fatalf("%q was not written in 20 s, only %q", what, b.String())
		}
	}
}
