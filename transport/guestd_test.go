//go:build linux

package transport_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandlot-go/sandlot/transport"
)

// A daemon is a guestd, in a process of its own, and an Agent that speaks to it.
type daemon struct {
	*transport.Agent
	workspace string
	process   *os.Process
	ended     <-chan []string // gets what it has said
}

// startGuestd builds guestd and starts it. It must be stopped.
func startGuestd(b *testing.B) *daemon {
	b.Helper()
	program := filepath.Join(b.TempDir(), "guestd")
	build := exec.Command("go", "build", "-o", program, "github.com/sandlot-go/sandlot/internal/guest/guestd")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	workspace := b.TempDir()
	c := exec.Command(program)
	c.Env = []string{
		"NAMZU_SANDBOX_WORKSPACE=" + workspace, "NAMZU_AGENT_ADDR=127.0.0.1", "NAMZU_AGENT_TCP_PORT=0",
		"NAMZU_AGENT_BIND_TOKEN=" + token, "GODEBUG=gctrace=1",
	}
	stderr, err := c.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	address, ended := make(chan string, 1), make(chan []string, 1)
	go func() {
		var said []string
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			said = append(said, lines.Text())
			if _, after, ok := strings.Cut(lines.Text(), "address="); ok {
				at, _, _ := strings.Cut(after, " ")
				address <- at
			}
		}
		close(address)
		c.Wait()
		ended <- said
	}()
	_, text, err := net.SplitHostPort(<-address)
	if err != nil {
		b.Fatalf("guestd does not listen: %q", <-ended)
	}
	port, _ := strconv.Atoi(text)
	agent, err := transport.New(transport.Config{Host: "127.0.0.1", Port: port, Token: token})
	if err != nil {
		b.Fatal(err)
	}
	return &daemon{Agent: agent, workspace: workspace, process: c.Process, ended: ended}
}

// heapTrace is a line of the runtime's GC trace: what the heap had grown to, in
// MiB, when a collection ended.
var heapTrace = regexp.MustCompile(`^gc \d+ .* \d+->(\d+)->\d+ MB`)

// stop ends the guestd and returns how large its heap has been, in MiB. One that
// does not grow beyond the first 4 is never collected, and not traced.
func (d *daemon) stop() float64 {
	d.Close()
	d.process.Signal(syscall.SIGTERM)
	heap := 4.0
	for _, line := range <-d.ended {
		if m := heapTrace.FindStringSubmatch(line); m != nil {
			n, _ := strconv.ParseFloat(m[1], 64)
			heap = max(heap, n)
		}
	}
	return heap
}
