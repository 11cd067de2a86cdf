//go:build linux

package transport_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/transport"
)

// A load is what a soak does to one guest.
type load struct {
	*testing.T
	agent *transport.Agent
	ctx   context.Context
	port  int           // of a server in the guest that is hashBack
	over  chan struct{} // closed when nothing is to be begun any more

	programs, stopped, unsure, forwards, turns, output, input, carried atomic.Int64
}

// until does something over and over, once at least, until it fails or the time
// is over.
func (l *load) until(do func(n int) bool) {
	for n := 0; do(n); n++ {
		select {
		case <-l.over:
			return
		default:
		}
	}
}

const mostLines = 20_000

// lines is what `seq mostLines` prints, and where each of its lines ends.
var lines = sync.OnceValues(func() ([]byte, []int) {
	text, ends := numbers(mostLines), []int{0}
	for i, b := range text {
		if b == '\n' {
			ends = append(ends, i+1)
		}
	}
	return text, ends
})

// program runs one program: it writes to both of its streams, after it has read
// text, or bytes of all sorts.
func (l *load) program(i, n int) bool {
	r := rand.New(rand.NewPCG(uint64(i), uint64(n)))
	text, ends := lines()
	most := mostLines / 20
	if r.IntN(10) == 0 {
		most = mostLines
	}
	out, errs, code := text[:ends[r.IntN(most)]], text[:ends[r.IntN(most)]], r.IntN(256)
	count := func(text []byte) string { return strconv.Itoa(bytes.Count(text, []byte("\n"))) }
	script, stdin := `seq "$1"`, []byte(nil)
	switch r.IntN(7) {
	case 2:
		return l.stop(i, n)
	case 0:
		script, stdin = "cat", out
	case 1:
		script, stdin = "sha256sum", append([]byte{0xff}, out...)
		out = fmt.Appendf(nil, "%x  -\n", sha256.Sum256(stdin))
	}
	c := l.agent.Command(l.ctx, "sh", "-c", script+`; seq "$2" >&2; exit "$3"`, "sh", count(out), count(errs), strconv.Itoa(code))
	if stdin != nil {
		c.Stdin = bytes.NewReader(stdin)
	}
	gotOut, gotErrs := sha256.New(), sha256.New()
	c.Stdout, c.Stderr = gotOut, gotErrs
	err := c.Run()
	if exit, ok := errors.AsType[*transport.ExitError](err); ok && exit.ExitCode == code && code != 0 {
		err = nil
	}
	if err != nil || c.Result() == nil || c.Result().ExitCode != code ||
		[32]byte(gotOut.Sum(nil)) != sha256.Sum256(out) || [32]byte(gotErrs.Sum(nil)) != sha256.Sum256(errs) {
		l.Errorf("program %d of %d, %q, to write %d and %d bytes and exit %d: %v, %+v", n, i, script, len(out), len(errs), code, err, c.Result())
		return false
	}
	l.programs.Add(1)
	l.output.Add(int64(len(out) + len(errs)))
	l.input.Add(int64(len(stdin)))
	return true
}

// stop runs a program with a child and ends both. Where the processors are so
// overloaded that no answer comes in time, that is said; they end by themselves
// then.
func (l *load) stop(i, n int) bool {
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	c := l.agent.Command(ctx, "sh", "-c", "sleep 5 & echo ready; wait")
	c.Stdout = &onOutput{f: func() { cancel(errCause) }}
	err := c.Run()
	if !errors.Is(err, errCause) || transport.SafeToRetry(err) {
		l.Errorf("program %d of %d, to be stopped: %v", n, i, err)
		return false
	}
	if _, ok := errors.AsType[*transport.StoppedError](err); ok {
		l.stopped.Add(1)
	} else {
		l.unsure.Add(1)
	}
	return true
}

// hashBack sends back what comes, and the hash of it all when its end has come.
func hashBack(c net.Conn) {
	h := sha256.New()
	io.Copy(c, io.TeeReader(c, h))
	c.Write(h.Sum(nil))
}

// forward sends bytes through a port, closes that direction and reads what comes
// back.
func (l *load) forward(i, n int) bool {
	conn, err := l.agent.DialGuest(l.ctx, l.port)
	if err != nil {
		l.Errorf("port %d of %d: %v", n, i, err)
		return false
	}
	defer conn.Close()
	r := rand.New(rand.NewPCG(uint64(i), uint64(n)))
	sent := make([]byte, r.IntN(200_000))
	rand.NewChaCha8([32]byte{byte(i), byte(n)}).Read(sent)
	var writing sync.WaitGroup
	writing.Go(func() {
		_, err := conn.Write(sent)
		if err = errors.Join(err, conn.(*transport.GuestConn).CloseWrite()); err != nil {
			l.Errorf("port %d of %d: %v", n, i, err)
		}
	})
	got, err := io.ReadAll(conn)
	writing.Wait()
	if sum := sha256.Sum256(sent); err != nil || !bytes.Equal(got, append(sent, sum[:]...)) {
		l.Errorf("port %d of %d: %d bytes came back of %d and a hash, %v", n, i, len(got), len(sent), err)
		return false
	}
	l.forwards.Add(1)
	l.carried.Add(int64(len(sent) + len(got)))
	return true
}

// talk goes to and fro over one connection for the whole time.
func (l *load) talk(i int) {
	conn, err := l.agent.DialGuest(l.ctx, l.port)
	if err != nil {
		l.Errorf("port %d: %v", i, err)
		return
	}
	defer conn.Close()
	r := rand.New(rand.NewPCG(uint64(i), 0))
	random, all := rand.NewChaCha8([32]byte{byte(i)}), sha256.New()
	l.until(func(n int) bool {
		sent := make([]byte, 1+r.IntN(16_000))
		random.Read(sent)
		all.Write(sent)
		got := make([]byte, len(sent))
		_, err := conn.Write(sent)
		if err == nil {
			_, err = io.ReadFull(conn, got)
		}
		if err != nil || !bytes.Equal(got, sent) {
			l.Errorf("port %d: turn %d: %v", i, n, err)
			return false
		}
		l.turns.Add(1)
		l.carried.Add(int64(2 * len(sent)))
		return true
	})
	conn.(*transport.GuestConn).CloseWrite()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, all.Sum(nil)) {
		l.Errorf("port %d: in the end came %x, %v", i, got, err)
	}
}

// openTerminals opens terminals of their own, and such as are sessions, whose
// programs wait for a line.
func (l *load) openTerminals(own, sessions int) []*transport.Terminal {
	terminals := make([]*transport.Terminal, own+sessions)
	name := uuid.New()
	var opening sync.WaitGroup
	for i := range terminals {
		opening.Go(func() {
			config := transport.TerminalConfig{Path: "sh", Args: []string{"-c", `IFS= read -r line; echo "got $line"; exit ` + strconv.Itoa(i%256)}}
			var err error
			if i < own {
				terminals[i], err = l.agent.OpenTerminal(l.ctx, config)
			} else {
				terminals[i], err = l.agent.StartSession(l.ctx, fmt.Sprint(name, "-", i), config)
			}
			if err != nil {
				l.Errorf("terminal %d: %v", i, err)
			}
		})
	}
	opening.Wait()
	return terminals
}

// useTerminals has the programs on the terminals read their line and end.
func (l *load) useTerminals(terminals []*transport.Terminal) {
	var using sync.WaitGroup
	for i, term := range terminals {
		if term == nil {
			continue
		}
		using.Go(func() {
			defer term.Close()
			line := fmt.Sprintf("line %d ☕", i)
			if _, err := io.WriteString(term, line+"\n"); err != nil {
				l.Errorf("terminal %d: %v", i, err)
			}
			out, err := io.ReadAll(term)
			if want := line + "\r\ngot " + line + "\r\n"; err != nil || string(out) != want {
				l.Errorf("terminal %d: got %q, %v, want %q", i, out, err, want)
			}
			exit, _ := errors.AsType[*transport.TerminalError](term.Wait())
			if code := i % 256; code == 0 && term.Wait() != nil || code != 0 && (exit == nil || exit.ExitCode != code) {
				l.Errorf("terminal %d: %v", i, term.Wait())
			}
		})
	}
	using.Wait()
}

func (l *load) report() {
	l.Logf("%d programs, %d that were stopped and %d of which that was not confirmed in time; %d bytes of output, %d of input; %d connections to ports and %d turns over others, %d bytes both ways",
		l.programs.Load(), l.stopped.Load(), l.unsure.Load(), l.output.Load(), l.input.Load(), l.forwards.Load(), l.turns.Load(), l.carried.Load())
}
