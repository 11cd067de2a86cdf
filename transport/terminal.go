package transport

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	killTimeout = 5 * time.Second // from the signal that cannot be ignored to the end
	inputStep   = 16 << 10        // bytes of input in one frame
)

// A Terminal is a program on a terminal in the guest, or an attachment to a
// session. Its methods can be called concurrently.
//
// What is not read holds the program up, and its end too: read up to io.EOF, as
// from a pipe of os/exec. Input and output are text; see Write.
type Terminal struct {
	stream  *duplex
	in      *inlet
	session string // id; empty for a terminal that ends with its connection
	cursor  cursor // of a session; belongs to the goroutine that reads
	offset  atomic.Int64
	gap     Gap

	typing  chan struct{} // holds an element while pending is looked at
	pending []byte        // the beginning of a character whose rest is to come

	mu     sync.Mutex // guards what follows
	exit   *wire.Exit // how the program ended; nil while it is not known
	killed bool       // by this side
	timer  *time.Timer
}

// Read reads what the program writes to its terminal. It is io.EOF when the
// program has ended, and another error when that was not seen: a *LostError, or
// for a session a *SessionDetachedError.
func (t *Terminal) Read(p []byte) (int, error) {
	n, more, _ := t.in.read(p, nil)
	if more {
		return n, nil
	}
	<-t.stream.gone
	if t.ended() != nil {
		return 0, io.EOF
	}
	return 0, t.lost()
}

func (t *Terminal) ended() *wire.Exit {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exit
}

// lost is why the end of the program was not seen.
func (t *Terminal) lost() error {
	err := t.stream.reason()
	if t.session == "" {
		return err
	}
	return &SessionDetachedError{ID: t.session, Offset: t.Offset(), Err: err}
}

// Write sends input, which the terminal may echo, turn into signals and so on.
// It is text: bytes that are no UTF-8 are refused, except that a character may
// be spread over several calls.
func (t *Terminal) Write(p []byte) (int, error) {
	select {
	case t.typing <- struct{}{}:
	case <-t.stream.gone:
		return 0, t.over()
	}
	defer func() { <-t.typing }()
	text := append(t.pending, p...)
	whole := len(text) - unfinished(text)
	if !utf8.Valid(text[:whole]) {
		return 0, errors.New("transport: input of a terminal that is not valid UTF-8 cannot be sent")
	}
	t.pending = slices.Clone(text[whole:])
	for text = text[:whole]; len(text) > 0; {
		step := min(len(text), inputStep)
		for step < len(text) && !utf8.RuneStart(text[step]) {
			step--
		}
		if err := t.send(wire.HostFrame{Type: wire.TypeInput, Data: string(text[:step])}); err != nil {
			return 0, err
		}
		text = text[step:]
	}
	return len(p), nil
}

// unfinished is how many bytes at the end begin a character that is not whole.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (t *Terminal) send(f wire.HostFrame) error {
	payload := f.Append(make([]byte, wire.HeaderLen, wire.HeaderLen+len(f.Data)+64))
	wire.PutHeader(payload)
	if t.stream.send(payload, nil) != nil {
		return t.over()
	}
	return nil
}

// over is the error of what comes after the end.
func (t *Terminal) over() error {
	if t.ended() != nil {
		return ErrTerminalEnded
	}
	return t.lost()
}

// ErrTerminalEnded reports input to a program that has ended.
var ErrTerminalEnded = errors.New("transport: the program on the terminal has ended")

// Resize changes the size of the terminal.
func (t *Terminal) Resize(cols, rows int) error {
	if err := checkSize(cols, rows); err != nil {
		return err
	}
	return t.send(wire.HostFrame{Type: wire.TypeResize, Cols: cols, Rows: rows})
}

func checkSize(cols, rows int) error {
	if cols < 1 || cols > wire.MaxTerminalCells || rows < 1 || rows > wire.MaxTerminalCells {
		return fmt.Errorf("transport: a terminal of %d columns and %d rows; both must be from 1 to %d", cols, rows, wire.MaxTerminalCells)
	}
	return nil
}

// Kill sends a signal to the program and all it has started: SIGTERM, SIGKILL,
// SIGINT or SIGHUP; empty is SIGKILL. Wait tells what comes of it. When the end
// is not seen within 5 seconds of a SIGKILL the connection is given up.
//
// The reference guest runs programs under another one, so that it reports an
// exit status of 0 for many that a signal has ended; and it dies itself when
// the program has left input unread.
func (t *Terminal) Kill(signal string) error {
	switch signal {
	case "":
		signal = "SIGKILL"
	case "SIGTERM", "SIGKILL", "SIGINT", "SIGHUP":
	default:
		return fmt.Errorf("transport: no signal %q for a terminal; there are SIGTERM, SIGKILL, SIGINT and SIGHUP", signal)
	}
	t.mu.Lock()
	if t.exit != nil {
		t.mu.Unlock()
		return ErrTerminalEnded
	}
	t.killed = true
	if signal == "SIGKILL" && t.timer == nil {
		t.timer = time.AfterFunc(killTimeout, func() {
			t.stream.shut(&LostError{Op: t.stream.op, Sent: true, Err: fmt.Errorf("no end was seen within %v of SIGKILL", killTimeout)})
		})
	}
	t.mu.Unlock()
	return t.send(wire.HostFrame{Type: wire.TypeKill, Signal: signal})
}

// Wait waits for the end of the program, for which its output has to be read
// meanwhile. The error is nil if it exited 0 without having been killed from
// here, a *TerminalError if it ended otherwise, and that of Read if its end was
// not seen.
func (t *Terminal) Wait() error {
	<-t.stream.joined
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.exit == nil:
		return t.lost()
	case t.exit.ExitCode == 0 && t.exit.Signal == 0 && !t.killed:
		return nil
	}
	return &TerminalError{ExitCode: t.exit.ExitCode, Signal: t.exit.Signal, Killed: t.killed}
}

// A TerminalError reports a program on a terminal, or of a session, that ended
// and did not succeed.
type TerminalError struct {
	ExitCode int  // -1 when Signal ended it
	Signal   int  // number; 0 when none is known to have ended it
	Killed   bool // it had been sent a signal from here
}

func (e *TerminalError) Error() string {
	s := fmt.Sprintf("transport: the program on the terminal ended with exit status %d", e.ExitCode)
	if e.Signal != 0 {
		s = fmt.Sprintf("transport: the program on the terminal was ended by signal %d", e.Signal)
	}
	if e.Killed {
		s += " (it had been sent one from here)"
	}
	return s
}

// Close ends the program, whose output is not of interest any more, and waits
// up to 5 seconds for that. A session it leaves running. It returns nil, also
// when it is called again.
func (t *Terminal) Close() error {
	t.in.discard()
	if t.session == "" && t.Kill("SIGKILL") == nil {
		<-t.stream.joined
	}
	t.stream.shut(ErrDetached)
	<-t.stream.joined
	return nil
}

// Offset is how far the output of a session was read off the connection. It is
// where AttachSession goes on.
func (t *Terminal) Offset() int64 { return t.offset.Load() }

// Gap is the output of a session that was asked for and that the guest kept no
// longer.
func (t *Terminal) Gap() Gap { return t.gap }
