//go:build linux

package transport_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// BenchmarkExec is the time of a program that does nothing, over loopback. The
// protocol takes two exchanges for it, over connections of their own, and the
// guest starts a process; "bare" is the least that this can cost: two round
// trips to a server that starts one in the second of them. Each iteration takes
// both in turn, so that a busy machine is busy for both.
func BenchmarkExec(b *testing.B) {
	g := newRealGuest(b, guest.Config{})
	bare := newBareServer(b)
	var ours, theirs samples
	for b.Loop() {
		theirs.add(b, bare.exec)
		ours.add(b, func() error { return g.Command(b.Context(), "true").Run() })
	}
	b.ReportMetric(0, "ns/op") // of both, which says nothing
	b.ReportMetric(ours.median().Seconds()*1e6, "exec-median-µs")
	b.ReportMetric(theirs.median().Seconds()*1e6, "bare-median-µs")
	b.ReportMetric(ours.median().Seconds()/theirs.median().Seconds(), "ratio")
}

// samples are the times of one thing.
type samples []time.Duration

func (s *samples) add(b *testing.B, f func() error) {
	start := time.Now()
	err := f()
	*s = append(*s, time.Since(start))
	if err != nil {
		b.Fatal(err)
	}
}

func (s samples) median() time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

// A bareServer answers a request of bareSize bytes with as many, over a
// connection each. If the request begins with 'x' it runs a program meanwhile.
type bareServer struct{ net.Listener }

const bareSize = 100

func newBareServer(b *testing.B) bareServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	path, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			request := make([]byte, bareSize)
			if _, err := io.ReadFull(c, request); err == nil && (request[0] != 'x' || runBare(path) == nil) {
				c.Write(request)
			}
			c.Close()
		}
	}()
	b.Cleanup(func() {
		l.Close()
		<-done
	})
	return bareServer{l}
}

// runBare runs a program without input and output, and without anything else.
func runBare(path string) error {
	p, err := os.StartProcess(path, []string{path}, &os.ProcAttr{Env: bareEnviron})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

func (s bareServer) exec() error {
	for _, first := range []byte("-x") {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			return err
		}
		c.Write(append([]byte{first}, make([]byte, bareSize-1)...))
		answer, err := io.ReadAll(c)
		c.Close()
		if err == nil && len(answer) != bareSize {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}
