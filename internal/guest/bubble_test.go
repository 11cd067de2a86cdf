//go:build linux

package guest_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// inBubble runs f with a guest in a testing/synctest bubble.
func inBubble(t *testing.T, config guest.Config, f func(t *testing.T, server *guest.Server, dial func() *line)) {
	workspace, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		config.Workspace, config.Token = workspace, testToken
		server, err := guest.New(config)
		if err != nil {
			t.Fatal(err)
		}
		var network memnet.Network
		l, err := network.Listen("tcp", "10.0.0.1:1024")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		f(t, server, func() *line {
			conn, err := network.DialContext(t.Context(), "tcp", "10.0.0.1:1024")
			if err != nil {
				t.Fatal(err)
			}
			return newLine(t, conn)
		})
		if err := server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestPeerThatNeverCloses(t *testing.T) {
	t.Run("an answered request is given up after 10 s", func(t *testing.T) {
		inBubble(t, guest.Config{}, func(t *testing.T, _ *guest.Server, dial func() *line) {
			l := dial().write(request(wire.OpReserve, nil))
			l.next()
			l.end()
			start := time.Now()
			synctest.Wait()
			for {
				if _, err := l.conn.Write(wire.AppendFrame(nil, nil)); err != nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(start); took < 10*time.Second || took > 10*time.Second+100*time.Millisecond {
				t.Errorf("closed after %v, want 10 s, whatever else is sent", took)
			}
			l.conn.Close()
		})
	})
	t.Run("an answered healthz has the limits of a connection that has not authenticated", func(t *testing.T) {
		inBubble(t, guest.Config{PreauthIdle: 3 * time.Second}, func(t *testing.T, _ *guest.Server, dial func() *line) {
			l := dial().write(frame(object{"op": "healthz"}))
			l.next()
			l.end()
			time.Sleep(3*time.Second - time.Millisecond)
			if _, err := l.conn.Write([]byte("0")); err != nil {
				t.Errorf("closed before 3 s: %v", err)
			}
			time.Sleep(3*time.Second + time.Millisecond)
			if _, err := l.conn.Write([]byte("0")); err == nil {
				t.Error("still open 3 s after the last byte")
			}
			l.conn.Close()
		})
	})
}

func TestPreauthDeadlines(t *testing.T) {
	trickle := func(t *testing.T, l *line, every time.Duration) time.Duration {
		start := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if n, err := io.Copy(io.Discard, l.conn); n != 0 || err != nil {
				t.Errorf("%d bytes, error %v, want a silent end", n, err)
			}
		}()
		for _, b := range request(wire.OpReserve, nil) {
			select {
			case <-ended:
				return time.Since(start)
			case <-time.After(every):
			}
			l.conn.Write([]byte{b})
		}
		<-ended
		return time.Since(start)
	}
	for _, test := range []struct {
		name  string
		every time.Duration
		want  time.Duration
	}{
		{"nothing is sent: the limit between two bytes", time.Hour, 10 * time.Second},
		{"a byte every 2 s: the limit since the connection was made", 2 * time.Second, 15 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, guest.Config{PreauthDeadline: 15 * time.Second}, func(t *testing.T, _ *guest.Server, dial func() *line) {
				l := dial()
				if took := trickle(t, l, test.every); took != test.want {
					t.Errorf("ended after %v, want %v", took, test.want)
				}
				l.conn.Close()
			})
		})
	}
}

// TestProgramInABubble shows that programs run to their end in a bubble, where
// time stands still meanwhile.
func TestProgramInABubble(t *testing.T) {
	inBubble(t, guest.Config{}, func(t *testing.T, server *guest.Server, dial func() *line) {
		start := time.Now()
		r := dial().write(request(wire.OpExecute, object{"command": "sh", "args": []string{"-c", "sleep 0.05; echo real; exit 3"}})).finish()
		if r.stdout != "real\n" || r.result["exitCode"] != 3.0 || !r.complete {
			t.Errorf("%+v", r)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v of the bubble's time, want none", took)
		}

		reservation := dial().write(request(wire.OpReserve, nil))
		id := parse(t, reservation.next())["executionId"]
		stream := dial().write(request(wire.OpExecute, object{"executionId": id, "command": "sh", "args": []string{"-c", "trap '' TERM; echo armed; while :; do sleep 0.02; done"}}))
		stream.next()
		cancel := parse(t, dial().write(request(wire.OpCancel, object{"executionId": id})).next())
		if result, _ := cancel["result"].(object); cancel["state"] != "cancelled" || result["signal"] != "SIGKILL" {
			t.Errorf("cancel: %v", cancel)
		}
		if r := stream.finish(); r.result["signal"] != "SIGKILL" || !r.complete {
			t.Errorf("stream: %+v", r)
		}

		dial().write(request(wire.OpExecute, object{"command": "sleep", "args": []string{"600"}}))
		if err := server.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// TestSlowPeer keeps a peer from reading: the program waits for it, and can be
// ended all the same.
func TestSlowPeer(t *testing.T) {
	inBubble(t, guest.Config{}, func(t *testing.T, _ *guest.Server, dial func() *line) {
		id := parse(t, dial().write(request(wire.OpReserve, nil)).next())["executionId"]
		stream := dial().write(request(wire.OpExecute, object{"executionId": id, "command": "sh", "args": []string{"-c", "while :; do echo 0123456789; done"}}))
		stream.next() // it runs, and fills all that is between it and this
		cancel := parse(t, dial().write(request(wire.OpCancel, object{"executionId": id})).next())
		if result, _ := cancel["result"].(object); cancel["state"] != "cancelled" || result["signal"] != "SIGTERM" {
			t.Errorf("cancel while the peer does not read: %v", cancel)
		}
		if r := stream.finish(); r.result["signal"] != "SIGTERM" || !r.complete {
			t.Errorf("the stream ends with %v, complete %v, want the result behind all output", r.result, r.complete)
		}
	})
}

// TestPeerThatNeverReads shows that an answer is given up in the end.
func TestPeerThatNeverReads(t *testing.T) {
	inBubble(t, guest.Config{}, func(t *testing.T, _ *guest.Server, dial func() *line) {
		l := dial().write(request(wire.OpExecute, object{"command": "sh", "args": []string{"-c", "head -c 400000 /dev/zero | tr '\\0' z"}}))
		start := time.Now()
		time.Sleep(10*time.Minute + time.Second)
		for {
			if _, err := l.frames.Next(); err != nil {
				if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
					t.Errorf("the stream ended with %v after %v, want it broken off", err, time.Since(start))
				}
				break
			}
		}
		l.conn.Close()
	})
}
