package wiretest_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/transport/wire"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const ping = `{"op":"healthz","body":{"n":1,"deep":{"x":"y"}},"token":"t"}`

// play plays the steps against a client over an in-memory network and returns
// the script's failure.
func play(t *testing.T, client func(dial func() net.Conn), steps ...Step) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &memnet.Network{}
		l, listenErr := n.Listen("tcp", "10.0.0.1:1")
		if listenErr != nil {
			t.Fatal(listenErr)
		}
		defer l.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			client(func() net.Conn {
				c, err := n.DialContext(t.Context(), "tcp", "10.0.0.1:1")
				if err != nil {
					t.Errorf("dial: %v", err)
				}
				return c
			})
		}()
		err = Play(l, steps...)
		<-done
	})
	return err
}

func request(c net.Conn, payload string) {
	c.Write(wire.AppendFrame(nil, []byte(payload)))
}

func TestAScriptOfEveryStep(t *testing.T) {
	var captured Request
	var order []string
	say := func(s string) Step { return Do(s, func() error { order = append(order, s); return nil }) }
	err := play(t, func(dial func() net.Conn) {
		a := dial()
		request(a, ping)
		b := dial()
		request(b, ping)
		request(b, `{"more":[1]}`)
		start := time.Now()
		got, err := io.ReadAll(b)
		if want := "00000002\n{}00000005\nsplit00000000\nraw00000007\n{\"a\":1}"; string(got) != want || err != nil {
			t.Errorf("on b: %q, %v, want %q", got, err, want)
		}
		if took, want := time.Since(start), 3*time.Second+3*time.Millisecond; took != want {
			t.Errorf("b took %v, want %v", took, want)
		}
		b.Close()
		if got, err := io.ReadAll(a); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("on a: %q, %v, want a reset", got, err)
		}
		c := dial()
		request(c, "anything")
		c.Close()
	},
		AcceptAs("a"), Expect("healthz", Token("t"), Body(`{"deep": {"x":"y"}, "n":1}`), Field("n", 1), Field("deep.x", "y"), Field("deep.z", nil), Field("none.z", nil), Capture(&captured)),
		AcceptAs("b"), Expect("healthz"), ExpectFrame(`{ "more": [1] }`), say("both"),
		Seq(Send("{}"), SendSplit("split", 2), Seq(Terminator(), Delay(3*time.Second))), Trickle([]byte("raw"), time.Millisecond),
		Send(struct {
			A int `json:"a"`
		}{1}), CloseWrite(), ExpectClose(), On("a"), Reset(),
		Accept(), Patience(time.Minute), Hang(), Close(), say("end"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if captured.Payload != ping || captured.Op != "healthz" {
		t.Errorf("captured %+v", captured)
	}
	if got := strings.Join(order, " "); got != "both end" {
		t.Errorf("Do ran as %q", got)
	}
}

func TestFlood(t *testing.T) {
	leave := func(dial func() net.Conn) {
		c := dial()
		io.CopyN(io.Discard, c, 1000)
		c.Close()
	}
	if err := play(t, leave, Accept(), Flood(bytes.Repeat([]byte("x"), 100), 1<<30)); err != nil {
		t.Errorf("the peer left: %v", err)
	}
	if err := play(t, leave, Accept(), Drip([]byte("xyz"), time.Millisecond)); err != nil {
		t.Errorf("the peer left after a drip: %v", err)
	}
	if err := play(t, leave, Accept(), SendBytes(make([]byte, 1000)), ExpectClose(), IfOpen(Send("x"))); err != nil {
		t.Errorf("the peer had left: %v", err)
	}
	if err := play(t, leave, Accept(), IfOpen(Do("x", func() error { return io.ErrShortWrite }))); err == nil {
		t.Error("no failure although the connection is open")
	}
	stay := func(dial func() net.Conn) { io.Copy(io.Discard, dial()) }
	if err := play(t, stay, Accept(), Flood([]byte("xxxx"), 1000)); err == nil {
		t.Error("no failure although the peer took everything")
	}
}

// TestFailingSteps sees that a failure names the step and says what was wanted
// and what came.
func TestFailingSteps(t *testing.T) {
	send := func(payload string) func(func() net.Conn) {
		return func(dial func() net.Conn) {
			c := dial()
			if payload != "" {
				request(c, payload)
			}
			io.Copy(io.Discard, c) // the script closes
			c.Close()
		}
	}
	nobody := func(func() net.Conn) {}
	boom := errors.New("boom")
	for _, tt := range []struct {
		name   string
		client func(func() net.Conn)
		steps  []Step
		index  int
		want   []string // in the text
	}{
		{"another op", send(ping), []Step{Accept(), Expect("execute")}, 1, []string{"step 1", `Expect("execute")`, ping, `want op "execute"`}},
		{"steps inside Seq count", send(ping), []Step{Seq(Accept(), Seq(Delay(1), Delay(1))), Expect("execute")}, 3, []string{"step 3"}},
		{"another token", send(ping), []Step{Accept(), Expect("healthz", Token("u"))}, 1, []string{`want token "u"`, "got token t"}},
		{"a token where none is wanted", send(ping), []Step{Accept(), Expect("healthz", Token(""))}, 1, []string{`want token ""`}},
		{"another body", send(ping), []Step{Accept(), Expect("healthz", Body(`{"n":2}`))}, 1, []string{`want body {"n":2}`, `"deep"`}},
		{"a body where none is wanted", send(ping), []Step{Accept(), Expect("healthz", Body(""))}, 1, []string{"want no body", "got body {"}},
		{"no body where one is wanted", send(`{"op":"healthz"}`), []Step{Accept(), Expect("healthz", Body("{}"))}, 1, []string{"want body {}", "got no body"}},
		{"another field", send(ping), []Step{Accept(), Expect("healthz", Field("deep.x", 7))}, 1, []string{"want deep.x 7", `got deep.x "y"`}},
		{"a field that is there", send(ping), []Step{Accept(), Expect("healthz", Field("n", nil))}, 1, []string{"want n null", "got n 1"}},
		{"not JSON", send("nope"), []Step{Accept(), Expect("healthz")}, 1, []string{"nope", "not JSON"}},
		{"a frame where the close is due", send(ping), []Step{Accept(), ExpectClose()}, 1, []string{"want the connection closed", ping}},
		{"nothing where a request is due", send(""), []Step{Patience(time.Second), Accept(), Expect("healthz")}, 2, []string{"no request came", "timeout"}},
		{"another frame", send(`{"a":1}`), []Step{Accept(), ExpectFrame(`{"a": 2}`)}, 1, []string{`want {"a": 2}`, `got {"a":1}`}},
		{"no frame", send(""), []Step{Patience(time.Second), Accept(), ExpectFrame(`{}`)}, 2, []string{"no frame came"}},
		{"no close", send(""), []Step{Patience(time.Second), Accept(), ExpectClose()}, 2, []string{"not closed", "timeout"}},
		{"no close of a peer that is left hanging", send(""), []Step{Patience(time.Second), Accept(), Hang()}, 2, []string{"not closed", "timeout"}},
		{"nobody comes", nobody, []Step{Patience(time.Second), Accept()}, 1, []string{"no connection within 1s"}},
		{"no connection to speak of", nobody, []Step{Send("x")}, 0, []string{"no connection was accepted"}},
		{"an unknown connection", nobody, []Step{On("x")}, 0, []string{`On("x")`, "no connection of that name"}},
		{"a check of the test", send(ping), []Step{Accept(), Expect("healthz", func(Request) error { return boom })}, 1, []string{"boom"}},
		{"a function of the test", nobody, []Step{Do("count", func() error { return boom })}, 0, []string{"Do(count)", "boom"}},
		{"a check that compares", send(ping), []Step{Accept(), Expect("healthz", func(Request) error { return Differs(1, 2) })}, 1, []string{"got 2", "want 1"}},
		{"what cannot be marshalled", send(""), []Step{Accept(), Send(func() {})}, 1, []string{"json"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := play(t, tt.client, tt.steps...)
			step, ok := errors.AsType[*StepError](err)
			if !ok || step.Index != tt.index {
				t.Fatalf("got %v, want a failure of step %d", err, tt.index)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the text:\n%v", want, err)
				}
			}
		})
	}
}

// fakeT is a testing.TB that notes errors and runs its cleanups when asked.
type fakeT struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (f *fakeT) Helper()          {}
func (f *fakeT) Cleanup(g func()) { f.cleanups = append(f.cleanups, g) }
func (f *fakeT) Error(args ...any) {
	f.errors = append(f.errors, args[0].(error).Error())
}

func (f *fakeT) end() {
	for _, g := range f.cleanups {
		g()
	}
}

func TestStartFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &memnet.Network{}
		for _, tt := range []struct {
			name  string
			steps []Step
			want  string
		}{
			{"a script that was played", []Step{Accept(), Delay(time.Second)}, ""},
			{"a script that is waiting when the test ends", []Step{Accept(), Expect("healthz")}, "the test ended before"},
			{"a script that waits for one more connection", []Step{Accept(), Accept()}, "the test ended before"},
			{"a script that failed", []Step{Accept(), Do("x", func() error { return errors.New("boom") })}, "boom"},
			{"a connection that was never closed", []Step{Accept(), Hang()}, "the test ended before"},
		} {
			l, err := n.Listen("tcp", "10.0.0.1:1")
			if err != nil {
				t.Fatal(err)
			}
			f := &fakeT{}
			run := Start(f, l, tt.steps...)
			c, err := n.DialContext(t.Context(), "tcp", "10.0.0.1:1")
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			f.end()
			<-run.Done()
			c.Close()
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s: the cleanup took %v", tt.name, took)
			}
			got := strings.Join(f.errors, "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("%s: the test fails with %q, want %q in it", tt.name, got, tt.want)
			}
		}
	})
}

// TestOverLoopback plays a script over sockets, where a reset is one.
func TestOverLoopback(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run := Start(t, l, Accept(), Expect("healthz"), Send("{}"), CloseWrite(), ExpectClose(), Accept(), Expect("healthz"), Reset())
	for i := range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		request(c, ping)
		got, err := io.ReadAll(c)
		if i == 0 && (string(got) != "00000002\n{}" || err != nil) {
			t.Errorf("got %q, %v", got, err)
		}
		if i == 1 && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %q, %v, want a reset", got, err)
		}
		c.Close()
	}
	<-run.Done()
}
