//go:build linux

package transport_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/leak"
	"github.com/sandlot-go/sandlot/transport"
)

// guestVariable makes this test binary a guest.
const guestVariable = "TEST_RUN_GUEST"

func init() {
	become = func() {
		if os.Getenv(guestVariable) != "" {
			os.Exit(serveGuest())
		}
	}
}

// serveGuest is a guest until its standard input ends. It says at what address
// it listens, and returns an exit code: other than 0 when something was left.
func serveGuest() int {
	err := func() error {
		config, address, err := guest.ConfigFromEnv(os.Environ())
		if err != nil {
			return err
		}
		server, err := guest.New(config)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			return errors.Join(err, server.Close())
		}
		reaping, stop := context.WithCancel(context.Background())
		reaped := make(chan struct{})
		go func() {
			defer close(reaped)
			guest.ReapOrphans(reaping)
		}()
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		fmt.Println(l.Addr())
		io.Copy(io.Discard, os.Stdin)
		err = server.Close()
		stop()
		<-reaped
		return errors.Join(err, <-served)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return leak.Check(0)
}

// newGuestProcess is newRealGuest in a process of its own, whose id is the
// second result. The guest must leave no goroutine behind when the test ends.
func newGuestProcess(t testing.TB, environ ...string) (*realGuest, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	workspace := t.TempDir()
	c := exec.Command(self)
	c.Env = append(os.Environ(), guestVariable+"=1", "NAMZU_SANDBOX_WORKSPACE="+workspace,
		"NAMZU_AGENT_ADDR=127.0.0.1", "NAMZU_AGENT_TCP_PORT=0", "NAMZU_AGENT_BIND_TOKEN="+token)
	c.Env = append(c.Env, environ...)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("guest: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := net.SplitHostPort(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := transport.New(transport.Config{Host: "127.0.0.1", Port: port, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Close() })
	return &realGuest{Agent: agent, workspace: workspace, port: port}, strconv.Itoa(c.Process.Pid)
}
