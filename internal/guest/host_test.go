//go:build linux

package guest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/leak"
	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	testToken = "5b0c7f1e-93d4-4e0a-8c55-1f2a6d9e7b31"
	patience  = 60 * time.Second // no wait of a test takes longer

	// lingerLeast is less than the guest lingers, and more than it takes to close
	// a connection at once.
	lingerLeast = 5 * time.Second
)

// A testGuest is a guest that listens on the loopback interface.
type testGuest struct {
	t         testing.TB
	server    *guest.Server
	workspace string
	address   net.Addr
	listener  *watchedListener
	served    chan error
	daemon    *daemonProcess // nil: the guest is in this process
}

// newGuest starts a guest with a workspace of its own and closes it with the
// test, which fails if programs are left then.
func newGuest(t testing.TB, config guest.Config) *testGuest {
	t.Helper()
	g, err := bootGuest(config)
	if err != nil {
		t.Fatal(err)
	}
	g.t = t
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("the end of the guest: %v", err)
		}
		if left := processesIn(g.workspace); len(left) > 0 {
			t.Errorf("programs are left after Close: %v", left)
		}
	})
	return g
}

func bootGuest(config guest.Config) (*testGuest, error) {
	var err error
	if config.Workspace == "" {
		if config.Workspace, err = newFolder(); err != nil {
			return nil, err
		}
	}
	if config.Token == "" && !config.RequireToken {
		config.Token = testToken
	}
	g := &testGuest{workspace: config.Workspace, served: make(chan error, 1)}
	if g.server, err = guest.New(config); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g.address = l.Addr()
	g.listener = &watchedListener{Listener: l, sides: map[string]*guestSide{}}
	go func() { g.served <- g.server.Serve(g.listener) }()
	return g, nil
}

// stop closes the guest. It may have been closed before.
func (g *testGuest) stop() error {
	if g.daemon != nil {
		g.daemon.kill()
		return nil
	}
	err := g.server.Close()
	served := <-g.served
	g.served <- nil // for who stops it again
	return errors.Join(err, served)
}

func newFolder() (string, error) { return newFolderIn(testRoot) }

func newFolderIn(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "ws-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// processesIn lists the processes whose working directory is dir or below.
func processesIn(dir string) []string { return leak.Processes(dir) }

// killDaemons ends the processes that have left their group on purpose, and so
// outlive their guest outside of a sandbox.
func killDaemons(dir string) {
	for left := processesIn(dir); len(left) > 0; left = processesIn(dir) {
		for _, p := range left {
			pid, _, _ := strings.Cut(p, " ")
			if n, err := strconv.Atoi(pid); err == nil {
				syscall.Kill(n, syscall.SIGKILL)
			}
		}
		pause(1)
	}
}

// A watchedListener knows what the guest does with its connections.
type watchedListener struct {
	net.Listener
	mu    sync.Mutex
	sides map[string]*guestSide // by the host's address, until both have asked
}

func (l *watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{TCPConn: c.(*net.TCPConn), side: l.side(c.RemoteAddr())}, nil
}

// side returns the guest's side of the connection with the host at that address.
// The listener and the host ask once for each connection, in any order: the
// next one from there is another.
func (l *watchedListener) side(host net.Addr) *guestSide {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := host.String()
	if side := l.sides[name]; side != nil {
		delete(l.sides, name)
		return side
	}
	l.sides[name] = &guestSide{closed: make(chan struct{})}
	return l.sides[name]
}

// A guestSide is what the guest has done with a connection.
type guestSide struct {
	closed chan struct{} // closed when it has closed its side altogether

	mu     sync.Mutex
	ended  time.Time // when it has closed its write side
	closes time.Time // and all of it
}

// lingers reports whether the guest still reads after its answer, or has for as
// long as it does: whoever asks may be late.
func (s *guestSide) lingers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closes.IsZero() || !s.ended.IsZero() && s.closes.Sub(s.ended) > lingerLeast
}

type watchedConn struct {
	*net.TCPConn
	side *guestSide
	once sync.Once
}

func (c *watchedConn) CloseWrite() error {
	c.side.mu.Lock()
	c.side.ended = time.Now()
	c.side.mu.Unlock()
	return c.TCPConn.CloseWrite()
}

func (c *watchedConn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() {
		c.side.mu.Lock()
		c.side.closes = time.Now()
		c.side.mu.Unlock()
		close(c.side.closed)
	})
	return err
}

// A line is a connection of a host.
type line struct {
	t      testing.TB
	conn   net.Conn
	frames *wire.FrameReader
	closed chan struct{} // closed when the guest has closed its side altogether
}

// connect makes a connection and finds the guest's side of it, of which nothing
// is known if that is another process.
func (g *testGuest) connect() (*net.TCPConn, *guestSide, error) {
	conn, err := net.Dial("tcp", g.address.String())
	if err != nil {
		return nil, nil, err
	}
	if g.daemon != nil {
		return conn.(*net.TCPConn), &guestSide{}, nil
	}
	return conn.(*net.TCPConn), g.listener.side(conn.LocalAddr()), nil
}

func (g *testGuest) dial() *line {
	g.t.Helper()
	conn, side, err := g.connect()
	if err != nil {
		g.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	g.t.Cleanup(func() { conn.Close() })
	l := newLine(g.t, conn)
	l.closed = side.closed
	return l
}

func newLine(t testing.TB, conn net.Conn) *line {
	return &line{t: t, conn: conn, frames: wire.NewFrameReader(conn, 512<<20)}
}

func (l *line) write(b []byte) *line {
	l.t.Helper()
	if _, err := l.conn.Write(b); err != nil {
		l.t.Fatalf("write: %v", err)
	}
	return l
}

// next reads a frame, which must come. Text comes as it is on the wire.
func (l *line) next() string {
	l.t.Helper()
	payload, err := l.frames.Next()
	if err != nil {
		l.t.Fatalf("no frame: %v", err)
	}
	return string(payload)
}

// end reads the end of the connection, which must be a FIN and come without
// another frame.
func (l *line) end() {
	l.t.Helper()
	if payload, err := l.frames.Next(); !errors.Is(err, io.EOF) {
		l.t.Fatalf("frame %.200q, error %v; want the end of the connection", payload, err)
	}
}

// rest reads all frames up to the end of the connection.
func (l *line) rest() []string {
	l.t.Helper()
	var all []string
	for {
		payload, err := l.frames.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			l.t.Fatalf("after %d frames: %v", len(all), err)
		}
		all = append(all, string(payload))
	}
}

type object = map[string]any

// request is the frame of a request with the right token.
func request(op string, body any) []byte {
	return frame(wire.Request{Op: op, Body: body, Token: testToken})
}

func frame(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return wire.AppendFrame(nil, b)
}

// ask sends a request on a connection of its own.
func (g *testGuest) ask(op string, body any) *line {
	g.t.Helper()
	return g.dial().write(request(op, body))
}

// call sends a request and returns its only frame.
func (g *testGuest) call(op string, body any) object {
	g.t.Helper()
	l := g.ask(op, body)
	reply := l.next()
	l.end()
	return parse(g.t, reply)
}

func parse(t testing.TB, payload string) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(payload), &o); err != nil {
		t.Fatalf("%.200q: %v", payload, err)
	}
	return o
}

// A run is what an execute stream brought.
type run struct {
	stdout, stderr string
	result         object // the result or the error frame; nil if neither came
	complete       bool   // the terminator came
}

// finish reads an execute stream to its end.
func (l *line) finish() run {
	l.t.Helper()
	var r run
	var texts [2]strings.Builder
	for _, payload := range l.rest() {
		if payload == "" {
			r.complete = true
			continue
		}
		switch o := parse(l.t, payload); o["type"] {
		case wire.TypeStdout:
			texts[0].WriteString(o["data"].(string))
		case wire.TypeStderr:
			texts[1].WriteString(o["data"].(string))
		default:
			r.result = o
		}
	}
	r.stdout, r.stderr = texts[0].String(), texts[1].String()
	return r
}

// execute runs a program to its end.
func (g *testGuest) execute(body object) run {
	g.t.Helper()
	return g.ask(wire.OpExecute, body).finish()
}

// shell runs a shell script to its end.
func (g *testGuest) shell(script string) run {
	g.t.Helper()
	return g.execute(object{"command": "sh", "args": []string{"-c", script}})
}

// reserve makes a reservation and returns its id.
func (g *testGuest) reserve() string {
	g.t.Helper()
	return g.call(wire.OpReserve, nil)["executionId"].(string)
}

// begin starts a reserved shell script and waits until it has printed a line.
func (g *testGuest) begin(id, script string, more object) *line {
	g.t.Helper()
	body := object{"executionId": id, "command": "sh", "args": []string{"-c", script}}
	for k, v := range more {
		body[k] = v
	}
	l := g.ask(wire.OpExecute, body)
	if first := parse(g.t, l.next()); first["type"] != wire.TypeStdout {
		g.t.Fatalf("first frame %v, want output", first)
	}
	return l
}

func (g *testGuest) put(name, content string, mode os.FileMode) string {
	g.t.Helper()
	path := filepath.Join(g.workspace, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		g.t.Fatal(err)
	}
	return path
}

func (g *testGuest) get(name string) string {
	g.t.Helper()
	b, err := os.ReadFile(filepath.Join(g.workspace, name))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(b)
}

func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
}
